// A text read under a policy from its first token on, against loops in double precision: layer by layer who leaves, and
// what the queries then attend to.
#include "engine/decode/forced_pass.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "engine/core/lifetime/lifetime_map.h"
#include "engine/core/policy/policy_text.h"
#include "engine/model/weights.h"
#include "tests/engine/gated_model.h"
#include "tests/engine/plain_rules.h"
#include "tests/engine/policy_cases.h"
#include "tests/support/torch_catch.h"  // before LibTorch

namespace kvscope {
namespace {

using test::Evictions;
using test::PlainLayer;

constexpr int kTokens = 90;

const engine::LoadedModel& model() {
  static const engine::LoadedModel loaded =
      test::gated_model({test::random_gate(GateKind::kvpop_mlstm, 16), test::random_gate(GateKind::wg_kv),
                         test::random_gate(GateKind::duo)});
  return loaded;
}
const std::vector<std::int32_t>& ids() {
  static const std::vector<std::int32_t> all = test::some_ids(kTokens, 512, 33);
  return all;
}

ScoreRequest reading(const std::string& policy, int chunk = 1) {
  return {.text = "", .ids = ids(), .policy = PolicySpec::parse(policy), .changes = {}, .chunk = chunk};
}

/// Positions that query q of a KV head sees, ascending.
using Sees = std::function<std::vector<int>(const PlainLayer&, int layer, int kv_head, int q)>;

/// Attention in double precision over what `sees` says.
class PlainHook final : public engine::AttentionHook {
 public:
  explicit PlainHook(Sees sees) : sees_(std::move(sees)) {}
  bool reads_unrotated() const override { return true; }
  at::Tensor attend(int layer_index, const engine::LayerTokens& tokens) override {
    const PlainLayer layer = test::plain_layer(tokens);
    at::Tensor out = at::zeros(tokens.q.sizes(), at::kFloat);
    float* o = out.data_ptr<float>();
    for (int q = 0; q < kTokens; ++q) {
      for (int head = 0; head < layer.q.n_heads; ++head, o += layer.v.dim) {
        const int kv_head = head / layer.group_size();
        const std::vector<int> keys = sees_(layer, layer_index, kv_head, q);
        const std::vector<double> p = test::attention(layer, q, head, keys);
        for (int c = 0; c < layer.v.dim; ++c) {
          double sum = 0;
          for (std::size_t i = 0; i < keys.size(); ++i) sum += p[i] * layer.v.at(keys[i], kv_head)[c];
          o[c] = static_cast<float>(sum);
        }
      }
    }
    return out;
  }

 private:
  Sees sees_;
};

/// Log-probabilities of the text, [kTokens], the first 0.
std::vector<double> plain_logprobs(const Sees& sees, const engine::LoadedModel& of = model()) {
  const c10::InferenceMode no_gradients;
  PlainHook hook(sees);
  const at::Tensor tokens = engine::ids_tensor(of.weights(), ids().data(), kTokens);
  const at::Tensor hidden = engine::forward(of.config(), of.weights(), tokens, 0, hook);
  const at::Tensor all = engine::logits_of(of.weights(), hidden).to(at::kDouble).log_softmax(-1);
  std::vector<double> out = {0};
  for (int i = 1; i < kTokens; ++i) out.push_back(all[i - 1][ids()[static_cast<std::size_t>(i)]].item<double>());
  return out;
}

void check_logprobs(const std::vector<float>& logprobs, const std::vector<double>& expected) {
  REQUIRE(logprobs.size() == expected.size());
  double sum = 0, expected_sum = 0, worst = 0;
  for (std::size_t i = 1; i < expected.size(); ++i) {
    sum += logprobs[i];
    expected_sum += expected[i];
    worst = std::max(worst, std::abs(logprobs[i] - expected[i]));
  }
  CHECK(std::abs(sum - expected_sum) / (kTokens - 1) < 1e-4);
  CHECK(worst < 1e-3);
}

/// What leaves `held` when n tokens have passed, evict_at = n.
using EndOfChunk = std::function<void(std::vector<int>& held, int n, Evictions& out)>;
/// What query q makes of the tokens held, its own included.
using AtQuery = std::function<void(const std::vector<int>& held, int q)>;

Evictions read_in_chunks(int chunk, const AtQuery& at_query, const EndOfChunk& end_of_chunk) {
  std::vector<int> held;
  Evictions out;
  for (int q = 0; q < kTokens; ++q) {
    held.push_back(q);
    at_query(held, q);
    if ((q + 1) % chunk == 0 || q + 1 == kTokens) end_of_chunk(held, q + 1, out);
  }
  return out;
}

Evictions least(const PlainLayer& layer, int kv_head, bool tova, int budget, int protect, int chunk) {
  const int first = tova ? 0 : kv_head * layer.group_size(), n_heads = tova ? layer.q.n_heads : layer.group_size();
  std::vector<double> worth;
  return read_in_chunks(
      chunk,
      [&](const std::vector<int>& held, int q) {
        const std::vector<double> seen = test::mean_attention(layer, q, first, n_heads, held);
        worth.resize(held.size());
        for (std::size_t i = 0; i < held.size(); ++i) worth[i] = tova ? seen[i] : worth[i] + seen[i];
      },
      [&](std::vector<int>& held, int n, Evictions& out) {
        while (static_cast<int>(held.size()) > budget) test::drop_least(held, worth, n - protect, n, out);
      });
}

Evictions snapkv(const PlainLayer& layer, int kv_head, int budget, int window, int chunk) {
  return read_in_chunks(
      chunk, [](const std::vector<int>&, int) {},
      [&](std::vector<int>& held, int n, Evictions& out) {
        if (static_cast<int>(held.size()) <= budget) return;
        const auto score = test::snap_scores(layer, kv_head, held, n, std::min(window, n), {5, false, false});
        test::keep_best(held, score, budget, 0, n - window, n, out);
      });
}

Evictions expected_attention(const PlainLayer& layer, int kv_head, int budget, int n_sink, int n_future, int protect,
                             int chunk) {
  const at::Tensor inv_freq = model().weights().layers[0].inv_freq.to(at::kDouble).contiguous();
  const std::vector<double> frequencies(inv_freq.data_ptr<double>(), inv_freq.data_ptr<double>() + inv_freq.numel());
  return read_in_chunks(
      chunk, [](const std::vector<int>&, int) {},
      [&](std::vector<int>& held, int n, Evictions& out) {
        if (static_cast<int>(held.size()) <= budget) return;
        const auto score = test::expected_scores(layer, frequencies, kv_head, held, std::max(n_sink, n - 256), n,
                                                 n_sink, n_future, {true, true, 0});
        test::keep_best(held, score, budget, n_sink, n - protect, n, out);
      });
}

/// A pool of WG-KV that admits every token.
Evictions pool(const PlainLayer& layer, int kv_head, int size, int window, int observe, int chunk) {
  return read_in_chunks(
      chunk, [](const std::vector<int>&, int) {},
      [&](std::vector<int>& held, int n, Evictions& out) {
        while (static_cast<int>(held.size()) - window > size) {
          const int leaves = (static_cast<int>(held.size()) - window) / 4;
          const auto score = test::snap_scores(layer, kv_head, held, n, observe, {5, true, true});
          test::keep_best(held, score, static_cast<int>(held.size()) - leaves, 0, n - window, n, out);
        }
      });
}

/// A window: token t is seen for the last time by query t + window - 1, or by the last of that chunk.
Evictions streaming(int n_sink, int window, int chunk) {
  Evictions out;
  for (int t = n_sink; t < kTokens; ++t) out[t] = (t + window + chunk - 1) / chunk * chunk;
  return out;
}

struct Method {
  std::string policy;
  int chunk;
  std::function<Evictions(const PlainLayer&, int kv_head, int chunk)> left;
};

std::vector<Method> methods() {
  std::vector<Method> out;
  for (const int chunk : {1, 16, 7}) {
    const auto add = [&](const char* policy, auto left) { out.push_back({policy, chunk, left}); };
    add("tova:budget=24", [](const auto& l, int h, int c) { return least(l, h, true, 24, 0, c); });
    add("tova:budget=24,protect=3", [](const auto& l, int h, int c) { return least(l, h, true, 24, 3, c); });
    add("h2o:budget=24,window=8", [](const auto& l, int h, int c) { return least(l, h, false, 24, 8, c); });
    add("snapkv:budget=24,window=8", [](const auto& l, int h, int c) { return snapkv(l, h, 24, 8, c); });
    add("expected-attention:budget=24,sinks=4,future=8",
        [](const auto& l, int h, int c) { return expected_attention(l, h, 24, 4, 8, 0, c); });
    add("expected-attention:budget=24,sinks=4,future=8,protect=6",
        [](const auto& l, int h, int c) { return expected_attention(l, h, 24, 4, 8, 6, c); });
    add("wg-kv:threshold=0,window=16,drop=0.25,observe=8,pool=20",
        [](const auto& l, int h, int c) { return pool(l, h, 20, 16, 8, c); });
    add("streaming:sinks=4,window=20", [](const auto&, int, int c) { return streaming(4, 20, c); });
    add("full", [](const auto&, int, int) { return Evictions(); });
  }
  return out;
}

Evictions before_the_end(Evictions all) {
  std::erase_if(all, [](const auto& one) { return one.second >= kTokens; });
  return all;
}

TEST_CASE("forced: every policy acts from the first token on, as loops say, and the text is as likely as under these",
          "[engine][forced]") {
  const Method method = methods()[GENERATE(range(std::size_t{0}, methods().size()))];
  CAPTURE(method.policy, method.chunk);
  const ScoreRequest request = reading(method.policy, method.chunk);
  const RunRecord run = engine::record_run(model(), engine::forced_request(model(), request));
  CHECK(run.n_tokens() == kTokens);
  std::map<std::pair<int, int>, Evictions> left;
  const std::vector<double> expected = plain_logprobs([&](const PlainLayer& layer, int index, int kv_head, int q) {
    const std::pair key(index, kv_head);
    if (!left.contains(key)) left[key] = method.left(layer, kv_head, method.chunk);
    std::vector<int> keys;
    for (int t = 0; t <= q; ++t) {
      const auto at = left[key].find(t);
      if (at == left[key].end() || q < at->second) keys.push_back(t);
    }
    return keys;
  });
  for (const auto& [key, evictions] : left) {
    CAPTURE(key.first, key.second);
    CHECK(test::evictions(run, key.first, key.second, kTokens - 1) == before_the_end(evictions));
    if (method.policy != "full") CHECK(before_the_end(evictions).size() > 30);
  }
  check_logprobs(run.logprobs, expected);
  const ScoreFacts facts = engine::forced_pass(model(), request);
  CHECK(std::equal(facts.logprobs.begin() + 1, facts.logprobs.end(), run.logprobs.begin() + 1));
  CHECK(facts.dense == (method.policy == "full"));
  CHECK(facts.chunk == method.chunk);
}

/// Pages of 16 that a query of Quest reads, ascending.
std::vector<int> quest_pages(const PlainLayer& layer, int kv_head, int q, int n_pages) {
  std::vector<double> bound;
  for (int first = 0; first <= q; first += 16) {
    const int end = std::min(first + 16, q + 1);
    double best = -INFINITY;
    for (int head = kv_head * layer.group_size(); head < (kv_head + 1) * layer.group_size(); ++head) {
      double sum = 0;
      for (int c = 0; c < layer.q.dim; ++c) {
        double most = -INFINITY;
        for (int t = first; t < end; ++t) most = std::max(most, layer.q.at(q, head)[c] * layer.k.at(t, kv_head)[c]);
        sum += most;
      }
      best = std::max(best, sum);
    }
    bound.push_back(end == q + 1 ? INFINITY : best);
  }
  std::vector<int> pages = test::greatest(bound, n_pages);
  std::sort(pages.begin(), pages.end());
  return pages;
}

TEST_CASE("forced: Quest chooses what it reads at every query, from the first on", "[engine][forced]") {
  const int chunk = GENERATE(1, 16);  // of no account to it
  const RunRecord run =
      engine::record_run(model(), engine::forced_request(model(), reading("quest:read=32,dense=1,window=16", chunk)));
  std::map<std::array<int, 3>, std::vector<int>> expected;
  const std::vector<double> logprobs = plain_logprobs([&](const PlainLayer& layer, int index, int kv_head, int q) {
    if (index == 0) return test::range(q + 1);
    const std::vector<int> pages = expected[{index, kv_head, q}] = quest_pages(layer, kv_head, q, 2);
    std::vector<int> keys;
    for (int t = 0; t <= q; ++t) {
      if (std::binary_search(pages.begin(), pages.end(), t / 16)) keys.push_back(t);
    }
    return keys;
  });
  CHECK(run.reads.size() == expected.size());
  for (const PageRead& read : run.reads) {
    CAPTURE(read.q, read.kv_head);
    CHECK(std::vector<int>(read.pages.begin(), read.pages.end()) == expected[{read.layer, read.kv_head, read.q}]);
  }
  check_logprobs(run.logprobs, logprobs);
  CHECK_FALSE(engine::forced_pass(model(), reading("quest:read=32,dense=1,window=16", chunk)).dense);
}

TEST_CASE("forced: a text is as likely as a dense pass under the lifetimes that were told", "[engine][forced]") {
  const auto [policy, chunk] =
      GENERATE(table<std::string, int>({{"kvpop:budget=40,sinks=4,window=16", 1},
                                        {"kvpop:budget=40,sinks=4,window=16", 16},
                                        {"kvpop:budget=40,sinks=4,window=16,decay=0.9", 7},
                                        {"kvpop:budget=40,sinks=4,window=16,capacity=pooled", 1},
                                        {"kvpop:budget=30,sinks=4,window=16,decay=0.9,capacity=pooled", 16},
                                        {"random:budget=30,sinks=4,window=16,seed=3,capacity=pooled", 7},
                                        {"wg-kv:window=16", 16},
                                        {"wg-kv:window=16,pool=12,observe=8,drop=0.25", 1},
                                        {"wg-kv:window=16,pool=12,observe=8,drop=0.25", 16},
                                        {"hybrid:heads=c,full=0.5,on=threshold,threshold=0.02,window=16", 16},
                                        {"duo:full=0.5,sinks=4,window=16", 16},
                                        {"random:budget=40,sinks=4,window=16,seed=3", 16}}));
  CAPTURE(policy, chunk);
  const RunRecord run = engine::record_run(model(), engine::forced_request(model(), reading(policy, chunk)));
  bool anything_left = false;
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < 2; ++head) {
      for (const auto& [token, at] : test::evictions(run, layer, head, kTokens)) {
        CHECK((at % chunk == 0 || at == kTokens));
        anything_left = true;
      }
    }
  }
  CHECK(anything_left);
  check_logprobs(run.logprobs, plain_logprobs([&](const PlainLayer&, int layer, int kv_head, int q) {
                   std::vector<int> keys;
                   for (int t = 0; t <= q; ++t) {
                     if (visible(q, t, run.evict_at.row(layer, kv_head)[static_cast<std::size_t>(t)]))
                       keys.push_back(t);
                   }
                   return keys;
                 }));
}

TEST_CASE("forced: in every family a text is as likely as a dense pass under the lifetimes of every policy",
          "[engine][forced][conformance][family]") {
  const ModelFamily& family = test::some_family();
  const std::string policy = test::policy_cases()[GENERATE(range(std::size_t{0}, test::policy_cases().size()))].policy;
  if (policy.find("read=") != policy.npos) return;  // what a query reads is no lifetime
  CAPTURE(family.architecture, policy);
  const engine::LoadedModel& of = test::family_model_of_every_policy(family);
  const RunRecord run = engine::record_run(of, engine::forced_request(of, reading(policy)));
  check_logprobs(run.logprobs, plain_logprobs(
                                   [&](const PlainLayer&, int layer, int kv_head, int q) {
                                     const int window = of.config().layers[static_cast<std::size_t>(layer)].window;
                                     std::vector<int> keys;
                                     for (int t = window > 0 ? std::max(0, q - window + 1) : 0; t <= q; ++t) {
                                       const std::int32_t at =
                                           run.evict_at.row(layer, kv_head)[static_cast<std::size_t>(t)];
                                       if (window > 0 || visible(q, t, at)) keys.push_back(t);
                                     }
                                     return keys;
                                   },
                                   of));
}

TEST_CASE("forced: with chunks the decisions are those of the rule, and hold from the first query behind the chunk",
          "[engine][forced]") {
  constexpr int kChunk = 16;
  const PolicySpec spec = PolicySpec::parse("kvpop:budget=40,sinks=4,window=16");
  const RunRecord run = engine::record_run(model(), engine::forced_request(model(), reading(spec.to_string(), kChunk)));
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < 2; ++head) {
      std::vector<std::int32_t> by_rule(kTokens);
      std::vector<float> scores = run.scores.row(layer, head);
      scores.resize(kTokens);
      policy_lifetimes(spec, kTokens, scores, kTokens, by_rule, nullptr);
      Evictions expected;
      for (int t = 0; t < kTokens; ++t) {
        if (by_rule[static_cast<std::size_t>(t)] >= kTokens) continue;
        expected[t] = std::min(kTokens, (by_rule[static_cast<std::size_t>(t)] + kChunk - 1) / kChunk * kChunk);
      }
      CHECK(test::evictions(run, layer, head, kTokens) == expected);
      CHECK(expected.size() > 30);
    }
  }
}

TEST_CASE("forced: a share of the budget is of the text's final length, from its first token on", "[engine][forced]") {
  ScoreRequest request = reading("tova:keep=20%");
  const RunRecord run = engine::record_run(model(), engine::forced_request(model(), request));
  CHECK(test::evictions(run, 0, 0, kTokens - 1) ==
        test::evictions(engine::record_run(model(), engine::forced_request(model(), reading("tova:budget=18"))), 0, 0,
                        kTokens - 1));
  request.n_positions = 2 * kTokens;
  const ScoreFacts longer = engine::forced_pass(model(), request),
                   tokens = engine::forced_pass(model(), reading("tova:budget=36"));
  CHECK(longer.nll == tokens.nll);
  CHECK(longer.density == tokens.density);
}

}  // namespace
}  // namespace kvscope
