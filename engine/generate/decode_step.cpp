#include "engine/generate/decode_step.h"

#include <cmath>

#include "engine/core/support/error.h"
#include "engine/model/ops.h"
#include "kernels/decode_attention.h"
#include "kernels/embed_row.h"
#include "kernels/project.h"

namespace kvscope::engine {
namespace {

using kernels::RetainDecision;
constexpr std::size_t kDecisionInts = sizeof(RetainDecision) / sizeof(std::int32_t);
constexpr std::size_t kSummaryInts = sizeof(kernels::LogitSummary) / sizeof(std::int32_t);
static_assert(sizeof(RetainDecision) == 7 * sizeof(std::int32_t), "outputs_ is laid out for seven words a decision");

/// What one head decided at query position q, as facts. `newcomer` is -1 while sinks or nobody leave the window.
void note_decision(const RetainDecision& decision, int layer, int head, std::int32_t q, protocol::StepFacts& facts) {
  if (decision.evicted >= 0) facts.lifetimes.push_back({layer, head, decision.evicted, q});
  if (decision.boundary < 0) return;
  facts.contests.push_back({.q = q,
                            .layer = static_cast<std::int16_t>(layer),
                            .kv_head = static_cast<std::int16_t>(head),
                            .newcomer = decision.newcomer,
                            .boundary = decision.boundary,
                            .newcomer_effective = decision.newcomer_effective,
                            .boundary_effective = decision.boundary_effective,
                            .evicted = decision.evicted});
}

const void* data_or_null(const at::Tensor& tensor) { return tensor.defined() ? tensor.data_ptr() : nullptr; }

/// A kernel of the project where the tensors are: on `stream`, or here and now without one.
template <typename Args>
void call(bool on_device, kernels::Stream stream, const Args& args, void (*on_cuda)(const Args&, kernels::Stream),
          void (*on_cpu)(const Args&)) {
  if (on_device) {
    on_cuda(args, stream);
  } else {
    on_cpu(args);
  }
}

}  // namespace

DecodeStep::DecodeStep(SequenceState& state) : state_(state) {
  const ModelConfig& config = state.model.config();
  const Weights& weights = state.model.weights();
  const auto options = at::TensorOptions().device(weights.device);
  const auto zeros = [&](std::int64_t n, at::ScalarType dtype) { return at::zeros({n}, options.dtype(dtype)); };
  const std::int64_t head_dim = config.head_dim, q_rows = config.n_heads * head_dim;
  x_ = zeros(config.hidden_size, at::kFloat);
  qkv_ = zeros(q_rows + 2 * config.n_kv_heads * head_dim, weights.dtype);
  q_ = zeros(q_rows, weights.dtype);
  o_ = zeros(q_rows, weights.dtype);
  activation_ = zeros(config.intermediate_size, weights.dtype);
  logits_ = zeros(config.vocab_size, at::kFloat);
  inputs_ = zeros(2, at::kInt);
  const std::size_t heads = n_heads_in_all(), words = heads * (kDecisionInts + 1) + kSummaryInts;
  outputs_ = zeros(static_cast<std::int64_t>(words), at::kInt);
  const kernels::SlotCacheView cache = state.cache.view(0);
  attention_scratch_ = zeros(kernels::decode_attention_scratch_floats(config.n_heads, cache), at::kFloat);
  summary_scratch_ = zeros(kernels::kLogitSummaryScratchBytes / 4, at::kInt);
  if (const float log_gamma = static_cast<float>(state.policy->geometry().log_gamma); log_gamma != 0) {
    log_gamma_ = at::full({config.n_kv_heads}, log_gamma, options.dtype(at::kFloat));
  }
  std::int32_t* host = is_cuda() ? nullptr : outputs_.data_ptr<std::int32_t>();
  if (is_cuda()) {
    host_inputs_ = std::make_unique<kernels::PinnedMemory>(2 * sizeof(std::int32_t));
    host_outputs_ = std::make_unique<kernels::PinnedMemory>(words * sizeof(std::int32_t));
    host = static_cast<std::int32_t*>(host_outputs_->data());
  }
  decisions_ = reinterpret_cast<const RetainDecision*>(host);
  scores_ = reinterpret_cast<const float*>(host + heads * kDecisionInts);
  summary_ = reinterpret_cast<const kernels::LogitSummary*>(host + heads * (kDecisionInts + 1));
}

std::size_t DecodeStep::n_heads_in_all() const {
  return static_cast<std::size_t>(state_.model.config().n_layers) * state_.model.config().n_kv_heads;
}

void DecodeStep::run(std::int32_t id, std::int32_t position) {
  const ModelConfig& config = state_.model.config();
  state_.cache.reserve_next();
  position_ = position;
  if (is_cuda()) {
    const kernels::Stream stream = ops::current_stream(state_.model.weights().device);
    auto* inputs = static_cast<std::int32_t*>(host_inputs_->data());
    inputs[0] = id;
    inputs[1] = position;
    if (const void* pool = state_.cache.view(0).k_pool; !graph_.is_captured() || pool != captured_pool_) {
      graph_.capture([this](kernels::Stream recording) { enqueue(recording); });
      captured_pool_ = pool;
    }
    graph_.launch(stream);
    kernels::wait_for(stream);
  } else {
    inputs_.data_ptr<std::int32_t>()[0] = id;
    inputs_.data_ptr<std::int32_t>()[1] = position;
    enqueue(nullptr);
  }
  for (ScorerState& scoring : state_.scoring) ++scoring.n_tokens;
  for (int layer = 0; layer < config.n_layers; ++layer) {
    for (int head = 0; head < config.n_kv_heads; ++head) {
      state_.cache.note_slot(layer, head, decisions_[layer * config.n_kv_heads + head].slot);
    }
  }
}

void DecodeStep::enqueue(kernels::Stream stream) {
  const ModelConfig& config = state_.model.config();
  const Weights& weights = state_.model.weights();
  const kernels::DType dtype = kernel_dtype(weights.dtype);
  if (is_cuda()) kernels::copy_async(inputs_.data_ptr(), host_inputs_->data(), 2 * sizeof(std::int32_t), stream);
  call(is_cuda(), stream,
       kernels::EmbedRowArgs{.table = weights.embed.data_ptr(),
                             .id = inputs_.data_ptr<std::int32_t>(),
                             .out = x_.data_ptr<float>(),
                             .n_rows = config.vocab_size,
                             .dim = config.hidden_size,
                             .dtype = dtype},
       kernels::embed_row, kernels::cpu::embed_row);
  for (int layer = 0; layer < config.n_layers; ++layer) enqueue_layer(layer, stream);
  call(is_cuda(), stream,
       kernels::ProjectArgs{.weight = weights.lm_head.data_ptr(),
                            .x = x_.data_ptr(),
                            .norm_weight = weights.final_norm.data_ptr(),
                            .out = logits_.data_ptr(),
                            .n_rows = config.vocab_size,
                            .dim = config.hidden_size,
                            .eps = config.rms_norm_eps,
                            .epilogue = kernels::Epilogue::logits,
                            .dtype = dtype},
       kernels::project, kernels::cpu::project);
  std::int32_t* outputs = outputs_.data_ptr<std::int32_t>();
  call(is_cuda(), stream,
       kernels::LogitSummaryArgs{
           .logits = logits_.data_ptr<float>(),
           .out = reinterpret_cast<kernels::LogitSummary*>(outputs + n_heads_in_all() * (kDecisionInts + 1)),
           .n = config.vocab_size,
           .scratch = summary_scratch_.data_ptr()},
       kernels::logit_summary, kernels::cpu::logit_summary);
  if (is_cuda()) kernels::copy_async(host_outputs_->data(), outputs, outputs_.nbytes(), stream);
}

/// Five launches: QKV; norm, rotation, score, decision and cache; attention; output; and two of the MLP.
void DecodeStep::enqueue_layer(int index, kernels::Stream stream) {
  const ModelConfig& config = state_.model.config();
  const LayerWeights& layer = state_.model.weights().layers[index];
  const kernels::DType dtype = kernel_dtype(state_.model.weights().dtype);
  const auto project = [&](const at::Tensor& weight, const at::Tensor& x, const at::Tensor& norm, const at::Tensor& out,
                           kernels::Epilogue epilogue, const at::Tensor& bias = {}) {
    call(is_cuda(), stream,
         kernels::ProjectArgs{.weight = weight.data_ptr(),
                              .bias = data_or_null(bias),
                              .x = x.data_ptr(),
                              .norm_weight = data_or_null(norm),
                              .out = out.data_ptr(),
                              .n_rows = weight.size(0),
                              .dim = static_cast<int>(weight.size(1)),
                              .eps = config.rms_norm_eps,
                              .epilogue = epilogue,
                              .dtype = dtype},
         kernels::project, kernels::cpu::project);
  };
  project(layer.qkv_proj, x_, layer.input_norm, qkv_, kernels::Epilogue::store, layer.qkv_bias);
  const kernels::AdmitStepArgs admit = admit_args(index);
  call(is_cuda(), stream, admit, kernels::admit_step, kernels::cpu::admit_step);
  call(is_cuda(), stream,
       kernels::DecodeAttentionArgs{
           .cache = admit.cache,
           .q = q_.data_ptr(),
           .o = o_.data_ptr(),
           .lse = nullptr,
           .n_heads = config.n_heads,
           .scale = 1.0f / std::sqrt(static_cast<float>(config.head_dim)),
           .scratch = attention_scratch_.numel() > 0 ? attention_scratch_.data_ptr<float>() : nullptr},
       kernels::decode_attention, kernels::cpu::decode_attention);
  project(layer.o_proj, o_, {}, x_, kernels::Epilogue::add);
  project(layer.gate_up, x_, layer.post_norm, activation_, kernels::Epilogue::swiglu);
  project(layer.down, activation_, {}, x_, kernels::Epilogue::add);
}

kernels::AdmitStepArgs DecodeStep::admit_args(int index) {
  const ModelConfig& config = state_.model.config();
  const Weights& weights = state_.model.weights();
  const LayerWeights& layer = weights.layers[index];
  const RetentionGeometry& geometry = state_.policy->geometry();
  const std::int64_t first_head = static_cast<std::int64_t>(index) * config.n_kv_heads;
  std::int32_t* outputs = outputs_.data_ptr<std::int32_t>();
  kernels::AdmitStepArgs args = {
      .cache = state_.cache.view(index),
      .qkv = qkv_.data_ptr(),
      .q_norm = data_or_null(layer.q_norm),
      .k_norm = data_or_null(layer.k_norm),
      .inv_freq = weights.inv_freq.data_ptr<float>(),
      .position = inputs_.data_ptr<std::int32_t>() + 1,
      .q = q_.data_ptr(),
      .n_heads = config.n_heads,
      .eps = config.rms_norm_eps,
      .attention_scaling = weights.attention_scaling,
      .rule = state_.policy->rule(),
      .log_gamma = log_gamma_.defined() ? log_gamma_.data_ptr<float>() : nullptr,
      .threshold = state_.policy->threshold(),
      .n_sink = geometry.n_sink,
      .window = geometry.window,
      .top_k = geometry.top_k,
      .decay_stride = geometry.decay_stride,
      .decision = reinterpret_cast<RetainDecision*>(outputs + first_head * static_cast<int>(kDecisionInts))};
  if (state_.scorer != nullptr) {
    args.scorer = state_.scorer->view(index, state_.scoring[index]);
    args.score = reinterpret_cast<float*>(outputs + n_heads_in_all() * kDecisionInts) + first_head;
  }
  return args;
}

std::vector<float> DecodeStep::logits() const {
  const at::Tensor host = logits_.cpu();
  return {host.data_ptr<float>(), host.data_ptr<float>() + host.numel()};
}

void DecodeStep::gather(protocol::StepFacts& facts) const {
  const int layers = state_.model.config().n_layers, heads = state_.model.config().n_kv_heads;
  const std::int32_t scored = position_ - (state_.scorer != nullptr ? state_.scorer->config().delay : 0);
  for (int layer = 0; layer < layers; ++layer) {
    for (int head = 0; head < heads; ++head) {
      const int i = layer * heads + head;
      note_decision(decisions_[i], layer, head, position_, facts);
      if (state_.scorer != nullptr && scored >= 0) facts.scores.push_back({layer, head, scored, scores_[i]});
    }
  }
}

}  // namespace kvscope::engine
