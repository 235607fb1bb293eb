#include "engine/decode/step_buffers.h"

#include <algorithm>

namespace kvscope::engine {
namespace {

using kernels::LogitSummary;
using kernels::RetainDecision;
constexpr std::int64_t kDecisionInts = sizeof(RetainDecision) / sizeof(std::int32_t);
constexpr std::int64_t kSummaryInts = sizeof(LogitSummary) / sizeof(std::int32_t);
static_assert(sizeof(RetainDecision) == 7 * sizeof(std::int32_t), "outputs_ is laid out for seven words a decision");

}  // namespace

StepBuffers::StepBuffers(const LoadedModel& model, int max_rows) : max_rows_(max_rows) {
  const ModelConfig& config = model.config();
  const Weights& weights = model.weights();
  n_heads_in_all_ = static_cast<std::int64_t>(config.n_layers) * config.n_kv_heads;
  words_ = n_heads_in_all_ * (kDecisionInts + 1) + kSummaryInts;
  const auto options = at::TensorOptions().device(weights.device);
  const auto rows = [&](std::int64_t elements, at::ScalarType dtype) {
    return at::zeros({max_rows, elements}, options.dtype(dtype));
  };
  const std::int64_t head_dim = config.head_dim, q_rows = config.n_heads * head_dim;
  x = rows(config.hidden_size, at::kFloat);
  qkv = rows(q_rows + 2 * config.n_kv_heads * head_dim, weights.dtype);
  q = rows(q_rows, weights.dtype);
  o = rows(q_rows, weights.dtype);
  activation = rows(config.intermediate_size, weights.dtype);
  logits = rows(config.vocab_size, at::kFloat);
  lse = rows(config.n_heads, at::kFloat);
  attention_scratch = rows(0, at::kFloat);
  summary_scratch = rows(kernels::kLogitSummaryScratchBytes / 4, at::kInt);
  normed = rows(config.hidden_size, weights.dtype);
  const auto has = [&](NormPlacement norms) {
    return std::ranges::any_of(config.layers, [&](const LayerConfig& layer) { return layer.norms == norms; });
  };
  if (has(NormPlacement::around) || has(NormPlacement::after)) branch = rows(config.hidden_size, at::kFloat);
  if (has(NormPlacement::after)) rounded = rows(config.hidden_size, weights.dtype);
  ExpertConfig experts;  // those of all layers that have any
  for (const LayerConfig& layer : config.layers) {
    if (layer.mlp == MlpKind::experts) experts = layer.experts;
  }
  router_logits = rows(experts.n, at::kFloat);
  chosen_experts = rows(experts.per_token, at::kInt);
  expert_weights = rows(experts.per_token, at::kFloat);
  expert_activation = rows(static_cast<std::int64_t>(experts.per_token) * experts.intermediate, weights.dtype);
  inputs_ = at::zeros({2, max_rows}, options.dtype(at::kInt));
  outputs_ = rows(words_, at::kInt);
  if (weights.device.is_cuda()) {
    host_inputs_ = std::make_unique<kernels::PinnedMemory>(inputs_.nbytes());
    host_outputs_ = std::make_unique<kernels::PinnedMemory>(outputs_.nbytes());
  }
  host_inputs_data_ = static_cast<std::int32_t*>(host_inputs_ ? host_inputs_->data() : inputs_.data_ptr());
  host_outputs_data_ = static_cast<std::int32_t*>(host_outputs_ ? host_outputs_->data() : outputs_.data_ptr());
}

void StepBuffers::reserve_attention_scratch(std::int64_t floats) {
  floats = (floats + 3) / 4 * 4;  // a row begins at a multiple of 16 bytes
  if (floats > attention_scratch.size(1))
    attention_scratch = at::zeros({max_rows_, floats}, attention_scratch.options());
}

void StepBuffers::set_input(int row, std::int32_t id, std::int32_t position) {
  host_inputs_data_[row] = id;
  host_inputs_data_[max_rows_ + row] = position;
}

void StepBuffers::enqueue_inputs(kernels::Place place) {
  if (host_inputs_) kernels::copy_async(inputs_.data_ptr(), host_inputs_data_, inputs_.nbytes(), place.stream);
}

void StepBuffers::enqueue_outputs(int n_rows, kernels::Place place) {
  const std::size_t bytes = static_cast<std::size_t>(n_rows * words_) * sizeof(std::int32_t);
  if (host_outputs_) kernels::copy_async(host_outputs_->data(), outputs_.data_ptr(), bytes, place.stream);
}

StepBuffers::Decided StepBuffers::decided(std::int32_t* outputs, int row) const {
  std::int32_t* words = outputs + row * words_;
  return {reinterpret_cast<RetainDecision*>(words), reinterpret_cast<float*>(words + n_heads_in_all_ * kDecisionInts),
          reinterpret_cast<LogitSummary*>(words + n_heads_in_all_ * (kDecisionInts + 1))};
}

}  // namespace kvscope::engine
