#include "engine/decode/decode_step.h"

#include <algorithm>
#include <stdexcept>

#include "engine/core/support/error.h"
#include "engine/model/ops.h"
#include "kernels/attention_mass.h"
#include "kernels/decode_attention.h"
#include "kernels/embed_row.h"
#include "kernels/project.h"
#include "kernels/ring_store.h"

namespace kvscope::engine {
namespace {

using kernels::RetainDecision;
constexpr std::size_t kDecisionInts = sizeof(RetainDecision) / sizeof(std::int32_t);
constexpr std::size_t kSummaryInts = sizeof(kernels::LogitSummary) / sizeof(std::int32_t);
static_assert(sizeof(RetainDecision) == 7 * sizeof(std::int32_t), "outputs_ is laid out for seven words a decision");

/// What one head decided at query position q, as facts. `newcomer` is -1 while sinks or nobody leave the window.
void note_decision(const RetainDecision& decision, int layer, int head, std::int32_t q, StepFacts& facts) {
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

/// Row `row` of [rows, n], without making a tensor of it: this runs thrice a layer and token.
void* row_of_tensor(const at::Tensor& tensor, int row) {
  return static_cast<char*>(tensor.data_ptr()) +
         row * tensor.stride(0) * static_cast<std::int64_t>(tensor.element_size());
}

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

DecodeStep::DecodeStep(std::vector<SequenceState*> sequences) : sequences_(std::move(sequences)) {
  const ModelConfig& config = model().config();
  const Weights& weights = model().weights();
  const auto options = at::TensorOptions().device(weights.device);
  const std::int64_t n = static_cast<std::int64_t>(sequences_.size());
  const auto zeros = [&](std::int64_t elements, at::ScalarType dtype) {
    return at::zeros({n, elements}, options.dtype(dtype));
  };
  const std::int64_t head_dim = config.head_dim, q_rows = config.n_heads * head_dim;
  x_ = zeros(config.hidden_size, at::kFloat);
  qkv_ = zeros(q_rows + 2 * config.n_kv_heads * head_dim, weights.dtype);
  q_ = zeros(q_rows, weights.dtype);
  o_ = zeros(q_rows, weights.dtype);
  activation_ = zeros(config.intermediate_size, weights.dtype);
  logits_ = zeros(config.vocab_size, at::kFloat);
  inputs_ = at::zeros({2, n}, options.dtype(at::kInt));
  outputs_ = zeros(static_cast<std::int64_t>(words_per_row()), at::kInt);
  lse_ = zeros(config.n_heads, at::kFloat);
  std::int64_t scratch = 0;
  for (SequenceState* sequence : sequences_) {
    scratch = std::max(scratch, kernels::decode_attention_scratch_floats(config.n_heads, sequence->cache.view(0)));
    const bool selects = sequence->policy.plan().selection.tokens > 0;
    selection_.push_back(selects ? std::make_unique<PageSelection>(*sequence) : nullptr);
  }
  policy_.resize(sequences_.size());
  attention_scratch_ = at::zeros({scratch}, options.dtype(at::kFloat));
  summary_scratch_ = at::zeros({kernels::kLogitSummaryScratchBytes / 4}, options.dtype(at::kInt));
  host_inputs_data_ = is_cuda() ? nullptr : inputs_.data_ptr<std::int32_t>();
  host_outputs_data_ = is_cuda() ? nullptr : outputs_.data_ptr<std::int32_t>();
  if (is_cuda()) {
    host_inputs_ = std::make_unique<kernels::PinnedMemory>(inputs_.nbytes());
    host_outputs_ = std::make_unique<kernels::PinnedMemory>(outputs_.nbytes());
    host_inputs_data_ = static_cast<std::int32_t*>(host_inputs_->data());
    host_outputs_data_ = static_cast<const std::int32_t*>(host_outputs_->data());
  }
}

std::size_t DecodeStep::n_heads_in_all() const {
  return static_cast<std::size_t>(model().config().n_layers) * model().config().n_kv_heads;
}

std::size_t DecodeStep::words_per_row() const { return n_heads_in_all() * (kDecisionInts + 1) + kSummaryInts; }

int DecodeStep::row_of(int sequence) const {
  for (int row = 0; row < n_rows(); ++row) {
    if (inputs_of_run_[row].sequence == sequence) return row;
  }
  throw std::logic_error("DecodeStep: sequence " + std::to_string(sequence) + " was not in the last step");
}

std::int32_t* DecodeStep::device_outputs(int row) const {
  return outputs_.data_ptr<std::int32_t>() + row * words_per_row();
}

void DecodeStep::run(std::span<const DecodeInput> inputs) {
  const ModelConfig& config = model().config();
  inputs_of_run_.assign(inputs.begin(), inputs.end());
  for (int row = 0; row < n_rows(); ++row) {
    sequence_of(row).cache.reserve_next();
    update_policy(inputs[row].sequence);
    host_inputs_data_[row] = inputs[row].id;
    host_inputs_data_[sequences_.size() + row] = inputs[row].position;
  }
  if (is_cuda()) {
    run_graph();
  } else {
    enqueue(nullptr);
  }
  for (int row = 0; row < n_rows(); ++row) {
    SequenceState& sequence = sequence_of(row);
    const auto* decisions = reinterpret_cast<const RetainDecision*>(host_outputs(row));
    for (int layer = 0; layer < config.n_layers; ++layer) {
      for (int head = 0; head < config.n_kv_heads; ++head) {
        sequence.cache.note_slot(layer, head, decisions[layer * config.n_kv_heads + head].slot);
      }
    }
  }
}

void DecodeStep::run_graph() {
  std::vector<std::uintptr_t> wanted;
  for (int row = 0; row < n_rows(); ++row) {
    const kernels::SlotCacheView cache = sequence_of(row).cache.view(0);
    wanted.push_back(reinterpret_cast<std::uintptr_t>(&sequence_of(row)));
    wanted.push_back(reinterpret_cast<std::uintptr_t>(cache.k_pool));
    wanted.push_back(reinterpret_cast<std::uintptr_t>(cache.page_table));
    wanted.push_back(static_cast<std::uintptr_t>(sequence_of(row).policy.version()));
  }
  if (!graph_.is_captured() || wanted != captured_for_) {
    graph_.capture([this](kernels::Stream recording) { enqueue(recording); });
    captured_for_ = std::move(wanted);
  }
  const kernels::Stream stream = ops::current_stream(model().weights().device);
  graph_.launch(stream);
  kernels::wait_for(stream);
}

void DecodeStep::enqueue_project(kernels::ProjectArgs args, std::int64_t out_elements, kernels::Stream stream) {
  const auto advance = [](const void* data, std::int64_t bytes) {
    return const_cast<char*>(static_cast<const char*>(data)) + bytes;
  };
  const std::int64_t element = static_cast<std::int64_t>(size_of(args.dtype)), word = sizeof(float);
  const bool is_float = kernels::writes_floats(args.epilogue);
  const void* x = args.x;
  void* out = args.out;
  for (int first = 0; first < n_rows(); first += kernels::kMaxProjectTokens) {
    args.n_tokens = std::min(kernels::kMaxProjectTokens, n_rows() - first);
    args.x = advance(x, first * args.dim * (args.norm_weight != nullptr ? word : element));
    args.out = advance(out, first * out_elements * (is_float ? word : element));
    call(is_cuda(), stream, args, kernels::project, kernels::cpu::project);
  }
}

void DecodeStep::enqueue(kernels::Stream stream) {
  const ModelConfig& config = model().config();
  const Weights& weights = model().weights();
  const kernels::DType dtype = kernel_dtype(weights.dtype);
  if (is_cuda()) kernels::copy_async(inputs_.data_ptr(), host_inputs_data_, inputs_.nbytes(), stream);
  for (int row = 0; row < n_rows(); ++row) {
    call(is_cuda(), stream,
         kernels::EmbedRowArgs{.table = weights.embed.data_ptr(),
                               .id = inputs_.data_ptr<std::int32_t>() + row,
                               .out = x_.data_ptr<float>() + static_cast<std::int64_t>(row) * config.hidden_size,
                               .n_rows = config.vocab_size,
                               .dim = config.hidden_size,
                               .dtype = dtype},
         kernels::embed_row, kernels::cpu::embed_row);
  }
  for (int layer = 0; layer < config.n_layers; ++layer) enqueue_layer(layer, stream);
  enqueue_project({.weight = weights.lm_head.data_ptr(),
                   .x = x_.data_ptr(),
                   .norm_weight = weights.final_norm.data_ptr(),
                   .out = logits_.data_ptr(),
                   .n_rows = config.vocab_size,
                   .dim = config.hidden_size,
                   .eps = config.rms_norm_eps,
                   .epilogue = kernels::Epilogue::logits,
                   .dtype = dtype},
                  config.vocab_size, stream);
  for (int row = 0; row < n_rows(); ++row) {
    std::int32_t* summary = device_outputs(row) + n_heads_in_all() * (kDecisionInts + 1);
    call(is_cuda(), stream,
         kernels::LogitSummaryArgs{
             .logits = logits_.data_ptr<float>() + static_cast<std::int64_t>(row) * config.vocab_size,
             .out = reinterpret_cast<kernels::LogitSummary*>(summary),
             .n = config.vocab_size,
             .scratch = summary_scratch_.data_ptr()},
         kernels::logit_summary, kernels::cpu::logit_summary);
  }
  for (int row = 0; row < n_rows(); ++row) {
    if (const auto& selection = selection_[static_cast<std::size_t>(inputs_of_run_[row].sequence)]) {
      selection->enqueue_copy(stream);
    }
  }
  if (is_cuda()) kernels::copy_async(host_outputs_->data(), outputs_.data_ptr(), outputs_.nbytes(), stream);
}

/// Six launches for one sequence: QKV; norm, rotation, score, decision and cache; attention; output; and two of the
/// MLP.
void DecodeStep::enqueue_layer(int index, kernels::Stream stream) {
  const ModelConfig& config = model().config();
  const LayerWeights& layer = model().weights().layers[index];
  const kernels::DType dtype = kernel_dtype(model().weights().dtype);
  const auto project = [&](const at::Tensor& weight, const at::Tensor& x, const at::Tensor& norm, const at::Tensor& out,
                           kernels::Epilogue epilogue, const at::Tensor& bias = {}) {
    enqueue_project({.weight = weight.data_ptr(),
                     .bias = data_or_null(bias),
                     .x = x.data_ptr(),
                     .norm_weight = data_or_null(norm),
                     .out = out.data_ptr(),
                     .n_rows = weight.size(0),
                     .dim = static_cast<int>(weight.size(1)),
                     .eps = config.layers[index].norm_eps,
                     .epilogue = epilogue,
                     .dtype = dtype},
                    out.size(1), stream);
  };
  project(layer.qkv_proj, x_, layer.input_norm, qkv_, kernels::Epilogue::store, layer.qkv_bias);
  for (int row = 0; row < n_rows(); ++row) {
    enqueue_score(index, row, stream);
    call(is_cuda(), stream, admit_args(index, row), kernels::admit_step, kernels::cpu::admit_step);
  }
  for (int row = 0; row < n_rows(); ++row) enqueue_attention(index, row, stream);
  project(layer.o_proj, o_, {}, x_, kernels::Epilogue::add);
  project(layer.gate_up, x_, layer.post_norm, activation_, kernels::Epilogue::swiglu);
  project(layer.down, activation_, {}, x_, kernels::Epilogue::add);
}

void DecodeStep::update_policy(int sequence) {
  const ActivePolicy& policy = sequences_[static_cast<std::size_t>(sequence)]->policy;
  PolicyTensors& tensors = policy_[static_cast<std::size_t>(sequence)];
  if (tensors.version == policy.version()) return;
  const ModelConfig& config = model().config();
  const auto floats = at::TensorOptions().device(model().weights().device).dtype(at::kFloat);
  const auto log_gamma = static_cast<float>(policy.geometry().log_gamma);
  tensors.log_gamma = log_gamma != 0 ? at::full({config.n_kv_heads}, log_gamma, floats) : at::Tensor();
  if (policy.treats_heads_apart()) {
    std::vector<float> thresholds;
    for (int i = 0; i < config.n_layers * config.n_kv_heads; ++i) thresholds.push_back(policy.threshold(i));
    tensors.head_threshold =
        at::tensor(at::ArrayRef<float>(thresholds)).to(floats.device()).view({config.n_layers, config.n_kv_heads});
  }
  tensors.version = policy.version();
}

const kernels::RetainDecision* DecodeStep::decisions(int layer, int row) const {
  return reinterpret_cast<const RetainDecision*>(device_outputs(row)) +
         static_cast<std::int64_t>(layer) * model().config().n_kv_heads;
}

float* DecodeStep::scores(int layer, int row) const {
  return reinterpret_cast<float*>(device_outputs(row) + n_heads_in_all() * kDecisionInts) +
         static_cast<std::int64_t>(layer) * model().config().n_kv_heads;
}

const std::int32_t* DecodeStep::position_of(int row) const {
  return inputs_.data_ptr<std::int32_t>() + sequences_.size() + row;
}

void DecodeStep::enqueue_score(int index, int row, kernels::Stream stream) {
  const TokenScorer* scorer = sequence_of(row).policy.scorer();
  if (scorer == nullptr || scorer->mlstm(index, sequence_of(row).memory.get()).project != nullptr) return;
  scorer->enqueue({.layer = index,
                   .x = row_of_tensor(x_, row),
                   .input_norm = model().weights().layers[index].input_norm.data_ptr(),
                   .qkv = row_of_tensor(qkv_, row),
                   .position = position_of(row),
                   .score = scores(index, row)},
                  stream);
}

kernels::AdmitStepArgs DecodeStep::admit_args(int index, int row) {
  SequenceState& sequence = sequence_of(row);
  const ModelConfig& config = model().config();
  const Weights& weights = model().weights();
  const LayerWeights& layer = weights.layers[index];
  const RetentionGeometry& geometry = sequence.policy.geometry();
  const RetentionPlan& plan = sequence.policy.plan();
  const PolicyTensors& tensors = policy_[static_cast<std::size_t>(inputs_of_run_[row].sequence)];
  kernels::AdmitStepArgs args = {.cache = sequence.cache.view(index),
                                 .qkv = row_of_tensor(qkv_, row),
                                 .q_norm = data_or_null(layer.q_norm),
                                 .k_norm = data_or_null(layer.k_norm),
                                 .inv_freq = layer.inv_freq.data_ptr<float>(),
                                 .position = position_of(row),
                                 .q = row_of_tensor(q_, row),
                                 .n_heads = config.n_heads,
                                 .eps = config.layers[index].norm_eps,
                                 .attention_scaling = layer.attention_scaling,
                                 .zero_channel = weights.gate_channel,
                                 .rule = sequence.policy.rule(),
                                 .log_gamma = static_cast<const float*>(data_or_null(tensors.log_gamma)),
                                 .threshold = plan.threshold,
                                 .strict = plan.strict,
                                 .n_sink = geometry.n_sink,
                                 .window = geometry.window,
                                 .top_k = geometry.top_k,
                                 .protect = plan.protect,
                                 .decay_stride = geometry.decay_stride,
                                 .decision = const_cast<RetainDecision*>(decisions(index, row))};
  if (tensors.head_threshold.defined()) args.head_threshold = tensors.head_threshold[index].data_ptr<float>();
  args.score = scores(index, row);  // zeros where nobody writes them, which a hybrid's thresholds tell apart
  if (const TokenScorer* scorer = sequence.policy.scorer()) {
    args.scorer = scorer->mlstm(index, sequence.memory.get());
    if (sequence.score_ring.defined()) {
      args.score_ring = sequence.score_ring[index].data_ptr<float>();
      args.score_delay = scorer->delay();
    }
  }
  return args;
}

void DecodeStep::enqueue_attention(int index, int row, kernels::Stream stream) {
  SequenceState& sequence = sequence_of(row);
  const ModelConfig& config = model().config();
  const RetentionPlan& plan = sequence.policy.plan();
  const kernels::SlotCacheView cache = sequence.cache.view(index);
  const bool counts = plan.eviction != StepEviction::none;
  const auto scale = static_cast<float>(config.attention_scale(index));
  const void* q = row_of_tensor(q_, row);
  auto* lse = static_cast<float*>(row_of_tensor(lse_, row));
  PageSelection* selection = selection_[static_cast<std::size_t>(inputs_of_run_[row].sequence)].get();
  const bool selects = selection != nullptr && !selection->is_dense(index);
  call(is_cuda(), stream,
       kernels::DecodeAttentionArgs{
           .cache = selects ? selection->select(index, q, decisions(index, row), position_of(row), stream) : cache,
           .q = q,
           .o = row_of_tensor(o_, row),
           .lse = counts ? lse : nullptr,
           .n_heads = config.n_heads,
           .scale = scale,
           .scratch = attention_scratch_.numel() > 0 ? attention_scratch_.data_ptr<float>() : nullptr},
       kernels::decode_attention, kernels::cpu::decode_attention);
  if (counts) {
    call(is_cuda(), stream,
         kernels::AttentionMassArgs{
             .cache = cache,
             .q = q,
             .lse = lse,
             .position = position_of(row),
             .n_heads = config.n_heads,
             .scale = scale,
             .rule = plan.eviction == StepEviction::attention_sum ? kernels::MassRule::sum : kernels::MassRule::last},
         kernels::attention_mass, kernels::cpu::attention_mass);
  }
  if (plan.compression.kind != Compression::Kind::none) {
    const at::Tensor ring = sequence.query_ring[index];
    call(is_cuda(), stream,
         kernels::RingStoreArgs{.row = q,
                                .ring = ring.data_ptr(),
                                .position = position_of(row),
                                .row_bytes = ring.stride(0) * static_cast<std::int64_t>(ring.element_size()),
                                .n_rows = static_cast<int>(ring.size(0))},
         kernels::ring_store, kernels::cpu::ring_store);
  }
}

const kernels::LogitSummary& DecodeStep::summary(int sequence) const {
  const std::int32_t* words = host_outputs(row_of(sequence)) + n_heads_in_all() * (kDecisionInts + 1);
  return *reinterpret_cast<const kernels::LogitSummary*>(words);
}

std::vector<float> DecodeStep::logits(int sequence) const {
  const at::Tensor host = logits_[row_of(sequence)].cpu();
  return {host.data_ptr<float>(), host.data_ptr<float>() + host.numel()};
}

void DecodeStep::gather(int sequence, StepFacts& facts) const {
  const int layers = model().config().n_layers, heads = model().config().n_kv_heads, row = row_of(sequence);
  const TokenScorer* scorer = sequence_of(row).policy.scorer();
  const std::int32_t position = inputs_of_run_[row].position;
  const std::int32_t scored = position - (scorer != nullptr ? scorer->delay() : 0);
  const auto* decisions = reinterpret_cast<const RetainDecision*>(host_outputs(row));
  const auto* scores = reinterpret_cast<const float*>(host_outputs(row) + n_heads_in_all() * kDecisionInts);
  for (int layer = 0; layer < layers; ++layer) {
    for (int head = 0; head < heads; ++head) {
      const int i = layer * heads + head;
      note_decision(decisions[i], layer, head, position, facts);
      if (scorer != nullptr && scored >= 0) facts.scores.push_back({layer, head, scored, scores[i]});
    }
  }
  if (const auto& selection = selection_[static_cast<std::size_t>(sequence)]) selection->gather(position, facts);
}

}  // namespace kvscope::engine
