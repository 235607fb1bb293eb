#include "engine/jobs/train/kvzap_lesson.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "engine/jobs/train/kvzip_score.h"

namespace kvscope::engine {

KvzapLesson kvzap_lesson(const DecoderModule& base, const GateModule& gate, const at::Tensor& ids,
                         const RepeatSpan& span, const at::Tensor& chosen) {
  const auto networks = gate.layers();
  const int n_layers = base.config().n_layers;
  std::vector<at::Tensor> predicted, target;
  at::Tensor x;
  for (int layer = 0; layer < n_layers; ++layer) {
    const bool is_local = base.config().is_local(layer);
    DecoderModule::Heads read;
    {
      const c10::NoGradGuard no_grad;
      if (layer == 0) x = base.embed(ids.narrow(1, 0, span.repetition + span.n));
      const DecoderModule::Heads heads = base.project(layer, x);
      if (!is_local) {
        const double scale = base.config().attention_scale(layer);
        target.push_back(log_kvzip_plus(heads, base.output_projection(layer), scale, span).index_select(2, chosen));
      }
      read.input = heads.input.index_select(1, chosen + span.text);
      if (layer + 1 < n_layers) x = base.finish(layer, x, base.attend(layer, heads));
    }
    if (is_local) continue;
    predicted.push_back(gate.output(networks[static_cast<std::size_t>(layer)], read, {}));
  }
  return {at::stack(predicted), at::stack(target)};
}

void KvzapFit::add(const KvzapLesson& lesson) {
  const auto kept = [](const at::Tensor& x) { return x.transpose(1, 2).flatten(2).to(at::kCPU); };
  predicted_.push_back(kept(lesson.predicted));
  target_.push_back(kept(lesson.target));
}

at::Tensor KvzapFit::error() const {
  return (at::cat(predicted_, 2) - at::cat(target_, 2)).to(at::kDouble).square().mean(2);
}

at::Tensor KvzapFit::explained() const {
  return 1 - error() / at::cat(target_, 2).to(at::kDouble).var(2, /*unbiased=*/false).clamp_min(1e-12);
}

double KvzapFit::threshold_of(double density) const {
  const at::Tensor all = at::cat(predicted_, 2).flatten();
  const auto n = all.numel(), reach = static_cast<std::int64_t>(density * static_cast<double>(n));
  return std::get<0>(all.kthvalue(n + 1 - std::clamp<std::int64_t>(reach, 1, n))).item<double>();
}

}  // namespace kvscope::engine
