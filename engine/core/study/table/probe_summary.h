#pragma once
// What the probes of a training (gate_probe.h) show: how much of the text each head would keep, and how high each token is scored, at
// every probe.

#include <string>
#include <string_view>
#include <vector>

#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/study/table/study_table.h"

namespace kvscope {

enum class ProbeQuantity : std::uint8_t { kept, score };

/// Of one training. NaN: no score, or no threshold.
struct ProbeSummary {
  std::string source;
  int n_layers = 0, n_kv_heads = 0, n_tokens = 0;
  std::vector<double> steps = {};        // ascending
  std::vector<float> threshold = {};     // [step]
  std::vector<std::string> pieces = {};  // [token]
  std::vector<float> kept =
      {};  // [step, layer, kv_head] tokens with a score of the threshold or more / tokens with a score
  std::vector<float> score = {};        // [step, layer, kv_head] mean over tokens with a score
  std::vector<float> token_score = {};  // [step, token] mean over heads with a score of it

  bool has_threshold() const;
  /// The last probe of this step or earlier; the first where all are later, the last for a step below 0.
  std::size_t probe_at(double step) const;
  HeadMap map(std::size_t probe, ProbeQuantity quantity) const;
  /// Mean over the layer's heads; NaN in a local layer.
  float of_layer(std::size_t probe, int layer, ProbeQuantity quantity) const;
};

/// Trainings of the table that have probes, by their name in the column `source`.
std::vector<std::string> probed_sources(const StudyTable& table);
/// `source`: one of them, empty: the first. One pass over all its scores. Throws Error (bad input) if there are none.
ProbeSummary summarise_probes(const StudyTable& table, std::string_view source);

inline constexpr std::string_view kKeptOfProbeDefinition =
    "Kept share: tokens of the held-out text whose score is at least the gate's threshold / tokens with a score. Sinks and window are not "
    "added.";
inline constexpr std::string_view kScoreOfProbeDefinition =
    "Mean score: mean over tokens of the held-out text that have a score.";

}  // namespace kvscope
