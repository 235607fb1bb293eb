// The attention of single tokens: each query's is a distribution, and the oracle's masses are made of it.

#include <algorithm>
#include <cmath>
#include <set>

#include "app/conformance/check_groups.h"
#include "app/conformance/recorded_run.h"
#include "engine/core/protocol/events.h"
#include "engine/core/record/token_attention.h"
#include "engine/core/support/text.h"

namespace kvscope::app::conformance {
namespace {

/// All of one layer: p[head][query][token].
class LayerAttention {
 public:
  LayerAttention(Subject& subject, const std::vector<std::int32_t>& ids, int layer)
      : layer_(layer), n_(static_cast<int>(ids.size())), n_heads_(subject.model.n_heads) {
    p_.assign(static_cast<std::size_t>(n_heads_) * n_ * n_, 0);
    for (int first = 0; first < n_; first += TokenAttentionRequest::kMostTokens) {
      TokenAttentionRequest request{.ids = ids, .layer = layer};
      for (int t = first; t < std::min(n_, first + TokenAttentionRequest::kMostTokens); ++t)
        request.tokens.push_back(t);
      take(request, protocol::token_attention_from_event(subject.talk.done(request)));
    }
  }

  int n() const { return n_; }
  double at(int head, int q, int t) const {
    return p_[(static_cast<std::size_t>(head) * n_ + static_cast<std::size_t>(q)) * n_ + static_cast<std::size_t>(t)];
  }
  /// A model whose softmax has a sink gives a part of each query's attention to no token, the first query's too.
  bool has_sink(int head) const { return at(head, 0, 0) < 1 - 1e-3; }

 private:
  void take(const TokenAttentionRequest& request, const TokenAttention& found) {
    require(found.layer == layer_ && found.tokens == request.tokens, "attention: another layer, or other tokens");
    require(found.n_heads == n_heads_, "attention: " + std::to_string(found.n_heads) + " heads; the model has " +
                                           std::to_string(n_heads_) + " query heads");
    require(found.n_queries == n_, "attention: " + std::to_string(found.n_queries) + " queries; the text has " +
                                       std::to_string(n_) + " tokens");
    for (std::size_t i = 0; i < request.tokens.size(); ++i) {
      for (int head = 0; head < n_heads_; ++head) {
        for (int q = 0; q < n_; ++q) note(head, q, request.tokens[i], found.row(i, head)[q]);
      }
    }
  }

  void note(int head, int q, int t, float p) {
    const bool is_right = q < t ? std::isnan(p) : p >= 0 && p <= 1.001f;
    if (!is_right)
      throw Failure("attention: of query " + std::to_string(q) + " on token " + std::to_string(t) + " in layer " +
                    std::to_string(layer_) + " head " + std::to_string(head) + " is " + number_text(p, 5) +
                    (q < t ? "; expected NaN, as the query comes before the token" : "; expected 0 to 1"));
    if (q < t) return;
    p_[(static_cast<std::size_t>(head) * n_ + static_cast<std::size_t>(q)) * n_ + static_cast<std::size_t>(t)] = p;
  }

  int layer_, n_, n_heads_;
  std::vector<float> p_;
};

void require_distribution(const LayerAttention& attention, int layer, int n_heads, double tolerance) {
  for (int head = 0; head < n_heads; ++head) {
    for (int q = 0; q < attention.n(); ++q) {
      double sum = 0;
      for (int t = 0; t <= q; ++t) sum += attention.at(head, q, t);
      const bool is_whole = sum >= 1 - 10 * tolerance || attention.has_sink(head);
      require(sum <= 1 + 10 * tolerance && is_whole,
              "attention: of query " + std::to_string(q) + " in layer " + std::to_string(layer) + " head " +
                  std::to_string(head) + " sums to " + number_text(sum, 5) + " over all tokens; expected 1");
    }
  }
}

/// The masses of one token, by their definition (oracle_text.h), the greatest of the group.
struct Masses {
  double mean = 0, rms = 0, max = 0;
};
Masses masses_of(const LayerAttention& attention, int first_head, int n_heads, int t, int window) {
  Masses out;
  for (int head = first_head; head < first_head + n_heads; ++head) {
    double sum = 0, squares = 0, most = 0;
    for (int q = t + window; q < attention.n(); ++q) {
      const double p = attention.at(head, q, t);
      sum += p, squares += p * p, most = std::max(most, p);
    }
    const int n = attention.n() - t - window;
    out.mean = std::max(out.mean, sum / n);
    out.rms = std::max(out.rms, std::sqrt(squares / n));
    out.max = std::max(out.max, most);
  }
  return out;
}

void require_mass(const char* name, float found, double wanted, double tolerance, const std::string& place) {
  require(std::abs(found - wanted) <= tolerance * (0.1 + wanted),
          std::string("oracle: ") + name + " " + place + " is " + number_text(found, 5) +
              "; the attention of the later queries gives " + number_text(wanted, 5));
}

void require_definition(const RunRecord& run, const LayerAttention& attention, int layer, double tolerance) {
  const int group = run.model.n_heads / run.model.n_kv_heads, window = run.geometry().window;
  for (int head = 0; head < run.model.n_kv_heads; ++head) {
    for (int t = 0; t < attention.n() - window; ++t) {
      const Masses wanted = masses_of(attention, head * group, group, t, window);
      const auto i = static_cast<std::size_t>(t);
      const std::string place =
          "of token " + std::to_string(t) + " in layer " + std::to_string(layer) + " head " + std::to_string(head);
      require_mass("future_mass", run.future_mass.row(layer, head)[i], wanted.mean, tolerance, place);
      if (!run.future.rms.empty())
        require_mass("future_rms", run.future.rms.row(layer, head)[i], wanted.rms, tolerance, place);
      if (!run.future.max.empty())
        require_mass("future_max", run.future.max.row(layer, head)[i], wanted.max, tolerance, place);
    }
  }
}

/// The first, the middle and the last layer of those that are global.
std::set<int> some_layers(const Subject& subject) {
  std::vector<int> global;
  for (int layer = 0; layer < subject.model.n_layers; ++layer) {
    if (std::ranges::count(subject.offer.local_layers, layer, &protocol::LocalLayer::layer) == 0)
      global.push_back(layer);
  }
  if (global.empty()) throw NotServed("All layers are local by the model's design.");
  return {global.front(), global[global.size() / 2], global.back()};
}

std::string layers_text(const std::set<int>& layers) {
  std::string text;
  for (const int layer : layers) text += (text.empty() ? "layers " : ", ") + std::to_string(layer);
  return text;
}

std::string distribution(Subject& subject) {
  subject.need("attention");
  const std::set<int> layers = some_layers(subject);
  const std::vector<std::int32_t> ids = subject.prompt(kBasePrompt);
  for (const int layer : layers)
    require_distribution({subject, ids, layer}, layer, subject.model.n_heads, subject.tolerance());
  return layers_text(layers) + ": each query's attention sums to 1";
}

std::string definition(Subject& subject) {
  subject.need("attention");
  subject.need("oracle");
  RunRequest request = subject.request(subject.base_policy(), kBasePrompt, kBaseNew);
  request.oracle = true;
  const RecordedRun found = record(subject, request);
  require(found.has_oracle, "no final event oracle in a run that asked for the oracle");
  const std::set<int> layers = some_layers(subject);
  const std::vector<std::int32_t> ids(found.run.ids.begin(), found.run.ids.begin() + found.run.oracle_horizon);
  for (const int layer : layers) require_definition(found.run, {subject, ids, layer}, layer, subject.tolerance());
  return layers_text(layers) + ": the oracle's masses are those of the attention of later queries";
}

}  // namespace

void check_attention(Checks& checks, Subject& subject) {
  if (subject.text_ids.empty()) return;
  checks.check("attention: a distribution", [&] { return distribution(subject); });
  if (subject.does("run")) checks.check("oracle: its definition", [&] { return definition(subject); });
}

}  // namespace kvscope::app::conformance
