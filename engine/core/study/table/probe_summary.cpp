#include "engine/core/study/table/probe_summary.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/core/study/table/gate_probe.h"
#include "engine/core/support/refuse.h"

namespace kvscope {
namespace {

constexpr float kNoProbeValue = std::numeric_limits<float>::quiet_NaN();

std::string source_of_probe(const StudyTable& table, std::size_t probe) {
  const StudyArray* row = table.array(kProbeSource);
  const StudyColumn* column = table.column("source");
  if (row == nullptr || column == nullptr || !column->is_text || row->values.size() <= probe) return "";
  const double at = row->values[probe];
  return at >= 0 && at < static_cast<double>(column->texts.size()) ? column->texts[static_cast<std::size_t>(at)] : "";
}

/// As many as there are tokens; ids where the facts have no texts.
std::vector<std::string> probe_pieces(const StudyTable& table, int n_tokens) {
  std::vector<std::string> pieces;
  const auto facts = nlohmann::json::parse(table.facts, nullptr, false);
  if (facts.is_object() && facts.contains("probe") && facts["probe"].is_object()) {
    const auto list = facts["probe"].value("pieces", nlohmann::json::array());
    for (const auto& piece : list) pieces.push_back(piece.is_string() ? piece.get<std::string>() : "");
  }
  if (std::ssize(pieces) == n_tokens) return pieces;
  pieces.clear();
  for (const double id : table.array(kProbeToken)->values)
    pieces.push_back("<" + std::to_string(static_cast<std::int64_t>(id)) + ">");
  return pieces;
}

/// Sum and number of what has a score.
struct ProbeMean {
  double sum = 0;
  int n = 0;
  void add(double value) { sum += value, ++n; }
  float value() const { return n == 0 ? kNoProbeValue : static_cast<float>(sum / n); }
};

void add_probe_to(ProbeSummary& out, const double* scores, float threshold) {
  std::vector<ProbeMean> of_token(static_cast<std::size_t>(out.n_tokens));
  for (int head = 0; head < out.n_layers * out.n_kv_heads; ++head) {
    ProbeMean of_head, kept;
    for (int t = 0; t < out.n_tokens; ++t) {
      const double score = *scores++;
      if (std::isnan(score)) continue;
      of_head.add(score);
      of_token[static_cast<std::size_t>(t)].add(score);
      if (!std::isnan(threshold)) kept.add(score >= threshold ? 1 : 0);
    }
    out.score.push_back(of_head.value());
    out.kept.push_back(kept.value());
  }
  for (const ProbeMean& mean : of_token) out.token_score.push_back(mean.value());
}

}  // namespace

bool ProbeSummary::has_threshold() const {
  return std::ranges::any_of(threshold, [](float t) { return !std::isnan(t); });
}

std::size_t ProbeSummary::probe_at(double step) const {
  const auto after = step < 0 ? steps.end() : std::ranges::upper_bound(steps, step);
  return after == steps.begin() ? 0 : static_cast<std::size_t>(after - steps.begin()) - 1;
}

HeadMap ProbeSummary::map(std::size_t probe, ProbeQuantity quantity) const {
  const std::vector<float>& all = quantity == ProbeQuantity::kept ? kept : score;
  const auto n = static_cast<std::ptrdiff_t>(n_layers) * n_kv_heads;
  const auto first = all.begin() + static_cast<std::ptrdiff_t>(probe) * n;
  return {n_layers, n_kv_heads, std::vector<float>(first, first + n)};
}

float ProbeSummary::of_layer(std::size_t probe, int layer, ProbeQuantity quantity) const {
  const std::vector<float>& all = quantity == ProbeQuantity::kept ? kept : score;
  const std::size_t first = (probe * static_cast<std::size_t>(n_layers) + static_cast<std::size_t>(layer)) *
                            static_cast<std::size_t>(n_kv_heads);
  ProbeMean mean;
  for (std::size_t head = 0; head < static_cast<std::size_t>(n_kv_heads); ++head)
    if (!std::isnan(all[first + head])) mean.add(all[first + head]);
  return mean.value();
}

std::vector<std::string> probed_sources(const StudyTable& table) {
  std::vector<std::string> sources;
  for (std::size_t probe = 0; probe < n_probes(table); ++probe) {
    std::string source = source_of_probe(table, probe);
    if (sources.empty() || sources.back() != source) sources.push_back(std::move(source));
  }
  return sources;
}

ProbeSummary summarise_probes(const StudyTable& table, std::string_view source) {
  const std::vector<std::string> sources = probed_sources(table);
  if (sources.empty())
    refuse("", "probe_score", "no scores of a held-out text", "the training of a recipe with \"probe\": true");
  const std::string wanted = source.empty() ? sources[0] : std::string(source);
  if (std::ranges::find(sources, wanted) == sources.end()) {
    std::string list;
    for (const std::string& name : sources) list += (list.empty() ? "" : ", ") + name;
    refuse("", "source", "\"" + wanted + "\"", "one of " + list);
  }
  const StudyArray& scores = *table.array(kProbeScore);
  ProbeSummary out{.source = wanted,
                   .n_layers = static_cast<int>(scores.shape[1]),
                   .n_kv_heads = static_cast<int>(scores.shape[2]),
                   .n_tokens = static_cast<int>(scores.shape[3])};
  out.pieces = probe_pieces(table, out.n_tokens);
  const std::size_t each = static_cast<std::size_t>(scores.shape[1] * scores.shape[2] * scores.shape[3]);
  for (std::size_t probe = 0; probe < n_probes(table); ++probe) {
    if (source_of_probe(table, probe) != wanted) continue;
    out.steps.push_back(table.array(kProbeStep)->values[probe]);
    out.threshold.push_back(static_cast<float>(table.array(kProbeThreshold)->values[probe]));
    add_probe_to(out, scores.values.data() + probe * each, out.threshold.back());
  }
  return out;
}

}  // namespace kvscope
