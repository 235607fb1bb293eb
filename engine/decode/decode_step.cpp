#include "engine/decode/decode_step.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "engine/core/support/seconds_since.h"
#include "engine/model/decoder_layer.h"
#include "engine/model/ops.h"
#include "kernels/add_norm.h"
#include "kernels/decode_attention.h"
#include "kernels/embed_row.h"
#include "kernels/expert_mlp.h"
#include "kernels/rms_norm.h"
#include "kernels/round_floats.h"
#include "kernels/route_experts.h"

namespace kvscope::engine {

/// A layer of a step (decoder_layer.h) in six launches for all sequences: QKV; norm, rotation, score, decision and cache;
/// attention; output; and two of the MLP. A norm is part of the product that reads it (a launch by itself for many
/// sequences), an addition of the product that it adds. A norm after a product is a launch more, with its addition; so are
/// an input without a norm, and each norm over all heads.
class DecodeStep::LayerLaunches {
 public:
  struct Normed {
    const at::Tensor &x, &weight;
  };
  struct Product {
    const at::Tensor &x, &matrix, &bias;
  };
  struct NormedProduct {
    Product product;
    const at::Tensor& weight;
  };
  struct Heads {};  // in the buffers
  struct Experts {  // chosen, in the buffers
    const at::Tensor& norm_weight;
  };

  LayerLaunches(DecodeStep& step, int index, kernels::Place place)
      : step_(step), buffers_(step.buffers_), index_(index), place_(place) {}

  const LayerWeights& weights() const { return step_.model_.weights().layers[index_]; }
  const at::Tensor& residual() const { return buffers_.x; }
  Normed norm(const at::Tensor& x, const at::Tensor& weight) const { return {x, weight}; }
  Normed without_norm(const at::Tensor& x) {
    kernels::round_floats({.x = x.data_ptr<float>(),
                           .out = buffers_.rounded.data_ptr(),
                           .n = step_.n_rows() * x.size(1),
                           .dtype = dtype()},
                          place_);
    return {buffers_.rounded, no_tensor_};
  }
  NormedProduct norm(const Product& product, const at::Tensor& weight) const { return {product, weight}; }
  Heads project_heads(const Normed& n) {
    launch(weights().qkv_proj, n.x, n.weight, buffers_.qkv, kernels::Epilogue::store, weights().qkv_bias);
    return {};
  }
  /// Norms per head are computed by the launch of rotate(), which finds them.
  void norm_heads(Heads) {
    if (layer().qk_norm != QkNorm::whole) return;
    norm_in_place(0, weights().whole_q_norm);
    norm_in_place(weights().whole_q_norm.size(0), weights().whole_k_norm);
  }
  void rotate(Heads) {
    std::vector<kernels::GateScoreArgs> gates;
    std::vector<kernels::AdmitStepArgs> admitted;
    for (int row = 0; row < step_.n_rows(); ++row) {
      step_.lane_of(row).enqueue_score(index_, row, buffers_, place_, gates);
      admitted.push_back(step_.lane_of(row).admit_args(index_, row, buffers_));
    }
    if (!gates.empty()) kernels::gate_score(gates, place_);
    kernels::admit_step(admitted, place_);
  }
  void attend(Heads) {
    launch_attention();
    for (int row = 0; row < step_.n_rows(); ++row) step_.lane_of(row).after_attention(index_, row, buffers_, place_);
  }
  void launch_attention() {
    std::vector<kernels::DecodeAttentionArgs> attentions;
    for (int row = 0; row < step_.n_rows(); ++row)
      attentions.push_back(step_.lane_of(row).attention_args(index_, row, buffers_, place_));
    kernels::decode_attention(attentions, place_);
  }
  Product project_out(const at::Tensor& attended) const { return {attended, weights().o_proj, weights().o_bias}; }
  Product project(const at::Tensor& x, const at::Tensor& matrix) const { return {x, matrix, no_tensor_}; }
  const at::Tensor& gated(const Normed& n) {
    launch(weights().gate_up, n.x, n.weight, buffers_.activation,
           layer().activation == MlpActivation::silu ? kernels::Epilogue::swiglu : kernels::Epilogue::geglu);
    return buffers_.activation;
  }
  /// Two launches before those of the sum: the router, and its choice.
  Experts experts(const Normed& n) {
    const ExpertConfig& experts = layer().experts;
    launch(weights().router, n.x, n.weight, buffers_.router_logits, kernels::Epilogue::logits, weights().router_bias);
    kernels::route_experts({.logits = buffers_.router_logits.data_ptr<float>(),
                            .expert = buffers_.chosen_experts.data_ptr<std::int32_t>(),
                            .weight = buffers_.expert_weights.data_ptr<float>(),
                            .n_tokens = step_.n_rows(),
                            .n_experts = experts.n,
                            .n_chosen = experts.per_token,
                            .normalised = experts.normalised},
                           place_);
    return {n.weight};
  }
  void add(const Experts& chosen) {
    const ModelConfig& config = step_.model_.config();
    for (int first = 0; first < step_.n_rows(); first += kernels::kMaxExpertTokens) {
      kernels::expert_mlp({.x = static_cast<const float*>(row_of_tensor(buffers_.x, first)),
                           .norm_weight = chosen.norm_weight.data_ptr(),
                           .gate_up = weights().gate_up.data_ptr(),
                           .down = weights().down.data_ptr(),
                           .expert = static_cast<const std::int32_t*>(row_of_tensor(buffers_.chosen_experts, first)),
                           .weight = static_cast<const float*>(row_of_tensor(buffers_.expert_weights, first)),
                           .activation = row_of_tensor(buffers_.expert_activation, first),
                           .out = static_cast<float*>(row_of_tensor(buffers_.x, first)),
                           .n_tokens = std::min(kernels::kMaxExpertTokens, step_.n_rows() - first),
                           .n_chosen = layer().experts.per_token,
                           .dim = config.hidden_size,
                           .ff = layer().experts.intermediate,
                           .eps = layer().norm_eps,
                           .dtype = dtype(),
                           .gate = ops::glu_activation(layer().activation),
                           .gate_up_bias = data_or_null(weights().gate_up_bias),
                           .down_bias = data_or_null(weights().down_bias)},
                          place_);
    }
  }
  void add(const Product& branch) {
    launch(branch.matrix, branch.x, {}, buffers_.x, kernels::Epilogue::add, branch.bias);
  }
  /// A launch by itself: the norm needs all of the product.
  void add(const NormedProduct& branch) {
    launch(branch.product.matrix, branch.product.x, {}, buffers_.branch, kernels::Epilogue::logits,
           branch.product.bias);
    kernels::add_norm({.x = buffers_.branch.data_ptr<float>(),
                       .weight = branch.weight.data_ptr(),
                       .residual = buffers_.x.data_ptr<float>(),
                       .n_rows = step_.n_rows(),
                       .dim = step_.model_.config().hidden_size,
                       .eps = layer().norm_eps,
                       .weight_offset = step_.model_.weights().norm_offset,
                       .dtype = dtype()},
                      place_);
  }

 private:
  /// Of all rows of buffers_.qkv, the columns from `first` on that `weight` has.
  void norm_in_place(std::int64_t first, const at::Tensor& weight) {
    const at::Tensor& qkv = buffers_.qkv;
    void* columns = static_cast<char*>(qkv.data_ptr()) + first * static_cast<std::int64_t>(qkv.element_size());
    kernels::rms_norm({.x = columns,
                       .weight = weight.data_ptr(),
                       .out = columns,
                       .n_rows = step_.n_rows(),
                       .x_stride = qkv.size(1),
                       .out_stride = qkv.size(1),
                       .dim = static_cast<int>(weight.size(0)),
                       .eps = layer().norm_eps,
                       .weight_offset = step_.model_.weights().norm_offset,
                       .dtype = dtype()},
                      place_);
  }
  kernels::DType dtype() const { return kernel_dtype(step_.model_.weights().dtype); }
  const LayerConfig& layer() const { return step_.model_.config().layers[static_cast<std::size_t>(index_)]; }
  void launch(const at::Tensor& weight, const at::Tensor& x, const at::Tensor& norm, const at::Tensor& out,
              kernels::Epilogue epilogue, const at::Tensor& bias = {}) {
    step_.enqueue_project({.weight = weight.data_ptr(),
                           .bias = data_or_null(bias),
                           .x = x.data_ptr(),
                           .norm_weight = data_or_null(norm),
                           .out = out.data_ptr(),
                           .n_rows = weight.size(0),
                           .dim = static_cast<int>(weight.size(1)),
                           .eps = layer().norm_eps,
                           .norm_offset = step_.model_.weights().norm_offset,
                           .epilogue = epilogue,
                           .dtype = dtype()},
                          out.size(1), place_);
  }

  DecodeStep& step_;
  StepBuffers& buffers_;
  int index_;
  kernels::Place place_;
  at::Tensor no_tensor_;
};

DecodeStep::DecodeStep(const LoadedModel& model, int max_sequences)
    : model_(model), lanes_(static_cast<std::size_t>(max_sequences)), buffers_(model, max_sequences) {}

int DecodeStep::join(SequenceState& sequence) {
  const auto free = std::find(lanes_.begin(), lanes_.end(), nullptr);
  if (free == lanes_.end()) throw std::logic_error("DecodeStep: no room for another sequence");
  buffers_.reserve_attention_scratch(
      kernels::decode_attention_scratch_floats(model_.config().n_heads, sequence.cache.view(0)));
  *free = std::make_unique<Lane>(sequence);
  captured_for_.clear();  // another sequence may have been where this one is, and the same addresses
  return static_cast<int>(free - lanes_.begin());
}

void DecodeStep::leave(int sequence) {
  lanes_[static_cast<std::size_t>(sequence)].reset();
  failed_.erase(sequence);
}

void DecodeStep::check(int sequence) const {
  const auto found = failed_.find(sequence);
  if (found != failed_.end()) std::rethrow_exception(found->second);
}

template <typename Work>
void DecodeStep::attempt(int sequence, const Work& work) {
  try {
    work();
  } catch (...) {
    failed_.emplace(sequence, std::current_exception());
  }
}

int DecodeStep::row_of(int sequence) const {
  for (int row = 0; row < n_rows(); ++row) {
    if (inputs_[static_cast<std::size_t>(row)].sequence == sequence) return row;
  }
  throw std::logic_error("DecodeStep: sequence " + std::to_string(sequence) + " was not in the last step");
}

void DecodeStep::run(std::span<const DecodeInput> inputs) {
  inputs_.clear();
  failed_.clear();
  for (const DecodeInput& input : inputs) {
    attempt(input.sequence, [&] {
      lane(input.sequence).prepare(input.position);
      buffers_.set_input(n_rows(), input.id, input.position);
      inputs_.push_back(input);
    });
  }
  if (inputs_.empty()) return;
  if (is_cuda()) {
    run_graph();
  } else {
    enqueue({});
  }
  for (int row = 0; row < n_rows(); ++row) {
    const DecodeInput& input = inputs_[static_cast<std::size_t>(row)];
    attempt(input.sequence, [&] { lane_of(row).note_step(input.position, buffers_.decided_on_host(row)); });
  }
}

void DecodeStep::run_graph() {
  std::vector<std::uintptr_t> wanted;
  for (int row = 0; row < n_rows(); ++row) lane_of(row).append_identity(wanted);
  if (!graph_.is_captured() || wanted != captured_for_) {
    graph_.capture([this](kernels::Place recording) { enqueue(recording); });
    captured_for_ = std::move(wanted);
  }
  const kernels::Stream stream = ops::place_of(model_.weights().device).stream;
  graph_.launch(stream);
  kernels::wait_for(stream);
}

double DecodeStep::attention_seconds(int repeats) {
  const auto enqueue_attention = [this](kernels::Place place) {
    for (int layer = 0; layer < model_.config().n_layers; ++layer)
      LayerLaunches(*this, layer, place).launch_attention();
  };
  kernels::StepGraph graph;
  kernels::Stream stream{};
  if (is_cuda()) {
    stream = ops::place_of(model_.weights().device).stream;
    graph.capture(enqueue_attention);
    graph.launch(stream);  // the first is slower
    kernels::wait_for(stream);
  }
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i) is_cuda() ? graph.launch(stream) : enqueue_attention({});
  if (is_cuda()) kernels::wait_for(stream);
  return seconds_since(start) / repeats;
}

void DecodeStep::enqueue(kernels::Place place) {
  const ModelConfig& config = model_.config();
  const Weights& weights = model_.weights();
  buffers_.enqueue_inputs(place);
  std::vector<kernels::EmbedRowArgs> embedded;
  for (int row = 0; row < n_rows(); ++row) {
    embedded.push_back({.table = weights.embed.data_ptr(),
                        .id = buffers_.id(row),
                        .out = static_cast<float*>(row_of_tensor(buffers_.x, row)),
                        .n_rows = config.vocab_size,
                        .dim = config.hidden_size,
                        .dtype = kernel_dtype(weights.dtype),
                        .scale = weights.embed_scale});
  }
  kernels::embed_row(embedded, place);
  for (int layer = 0; layer < config.n_layers; ++layer) {
    LayerLaunches launches(*this, layer, place);
    launches.attend(before_attention(config.layers[layer], launches));
    after_attention(config.layers[layer], launches, buffers_.o);
  }
  enqueue_logits(place);
  for (int row = 0; row < n_rows(); ++row) {
    for (const auto& method : lane_of(row).sequence().methods) method->end_step(place);
  }
  buffers_.enqueue_outputs(n_rows(), place);
}

void DecodeStep::enqueue_logits(kernels::Place place) {
  const ModelConfig& config = model_.config();
  const Weights& weights = model_.weights();
  enqueue_project({.weight = weights.lm_head.data_ptr(),
                   .x = buffers_.x.data_ptr(),
                   .norm_weight = weights.final_norm.data_ptr(),
                   .out = buffers_.logits.data_ptr(),
                   .n_rows = config.vocab_size,
                   .dim = config.hidden_size,
                   .eps = config.rms_norm_eps,
                   .norm_offset = weights.norm_offset,
                   .epilogue = kernels::Epilogue::logits,
                   .dtype = kernel_dtype(weights.dtype)},
                  config.vocab_size, place);
  std::vector<kernels::LogitSummaryArgs> summaries;
  for (int row = 0; row < n_rows(); ++row) {
    summaries.push_back({.logits = static_cast<const float*>(row_of_tensor(buffers_.logits, row)),
                         .out = buffers_.decided(row).summary,
                         .n = config.vocab_size,
                         .scratch = row_of_tensor(buffers_.summary_scratch, row)});
  }
  kernels::logit_summary(summaries, place);
}

void DecodeStep::enqueue_project(kernels::ProjectArgs args, std::int64_t out_elements, kernels::Place place) {
  const std::int64_t element = static_cast<std::int64_t>(size_of(args.dtype)), word = sizeof(float);
  const std::int64_t x_bytes = args.dim * (args.norm_weight != nullptr ? word : element);
  const std::int64_t out_bytes = out_elements * (kernels::writes_floats(args.epilogue) ? word : element);
  const auto* x = static_cast<const char*>(args.x);
  auto* out = static_cast<char*>(args.out);
  for (int first = 0; first < n_rows(); first += kernels::kMaxProjectTokens) {
    args.n_tokens = std::min(kernels::kMaxProjectTokens, n_rows() - first);
    args.x = x + first * x_bytes;
    args.out = out + first * out_bytes;
    if (args.norm_weight != nullptr) args.scratch = row_of_tensor(buffers_.normed, first);
    kernels::project(args, place);
  }
}

std::vector<float> DecodeStep::logits(int sequence) const {
  const at::Tensor host = buffers_.logits[row_of(sequence)].cpu();
  return {host.data_ptr<float>(), host.data_ptr<float>() + host.numel()};
}

void DecodeStep::gather(int sequence, StepFacts& facts) const {
  const int row = row_of(sequence);
  lane(sequence).gather(row, inputs_[static_cast<std::size_t>(row)].position, buffers_, facts);
}

}  // namespace kvscope::engine
