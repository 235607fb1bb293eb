#pragma once
// One batch of KVzap's regression: what the gates predict and what KVzip+ is, and how well they agree on held-out text.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "engine/jobs/tasks/repeat_sequences.h"
#include "engine/jobs/train/decoder_module.h"
#include "engine/jobs/train/gate_module.h"

namespace kvscope::engine {

/// [global layers, B, n_kv_heads, n] float32, n: positions of the first copy. The loss is the mean of the squared difference.
struct KvzapLesson {
  at::Tensor predicted;  // with the gate's gradients
  at::Tensor target;     // log_kvzip_plus(), without
};

/// `ids` int64 [B, at least what both copies take]; `chosen` int64 [n]: positions of the first copy, counted from its first token.
KvzapLesson kvzap_lesson(const DecoderModule& base, const GateModule& gate, const at::Tensor& ids,
                         const RepeatSpan& span, const at::Tensor& chosen);

/// How well gates predict, from lessons without gradients.
class KvzapFit {
 public:
  void add(const KvzapLesson& lesson);
  /// [global layers, n_kv_heads] float64: mean squared error, and the share of the target's variance in this head that is explained.
  at::Tensor error() const;
  at::Tensor explained() const;
  /// The threshold that this share of all predictions reaches.
  double threshold_of(double density) const;

 private:
  std::vector<at::Tensor> predicted_, target_;  // [global layers, n_kv_heads, n] each, on the CPU
};

}  // namespace kvscope::engine
