#pragma once
// Probes: the scores of one held-out text by a gate, every so many steps of its training (study/table/gate_probe.h).

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/files/gate/gate_file.h"
#include "engine/jobs/train/decoder_module.h"
#include "engine/jobs/train/gate_module.h"
#include "engine/jobs/train/scorer_module.h"

namespace kvscope::engine {

struct PhaseSteps;
struct Training;

/// Scores [n_layers, n_kv_heads, T] of ids [1, T] under a full cache, float32 on the CPU, as gate_scores() has them of the gate in a
/// file: NaN in local layers, and where the text's end comes before the token can be scored. Without gradients.
at::Tensor probe_scores(const DecoderModule& model, const GateModule& gate, const at::Tensor& ids);
/// `delay`: the scorer's.
at::Tensor probe_scores(const DecoderModule& model, const ScorerModule& scorer, int delay, const at::Tensor& ids);

/// While it lives, these parameters are rounded to bfloat16, as the files have them that a training writes.
class AsSaved {
 public:
  explicit AsSaved(std::vector<FlatParameters*> parameters);
  ~AsSaved();
  AsSaved(const AsSaved&) = delete;
  AsSaved& operator=(const AsSaved&) = delete;

 private:
  std::vector<std::pair<FlatParameters*, at::Tensor>> kept_;
};

/// Of this score and above a token is kept: where `strict`, the next float above the threshold.
float keeps_from(const GateConfig& config);

/// Told to the job's curve of the phase. Does nothing where the recipe has no probe, and for members that do not lead.
class HeldoutProbe {
 public:
  /// Throws Error (bad input) for a text that is too short for the gate.
  HeldoutProbe(const Training& training, const PhaseSteps& steps);
  /// After `step` steps; `at_end`: of the phase.
  void tell(std::int64_t step, bool at_end) const;

 private:
  const Training& training_;
  const PhaseSteps& steps_;
  at::Tensor ids_;
  nlohmann::json text_;  // "tokens", "pieces"
};

/// A threshold that is known when the training is over.
void tell_probe_threshold(const Training& training, const std::string& name, float threshold);

}  // namespace kvscope::engine
