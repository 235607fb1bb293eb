#include "engine/decode/decode_step.h"

#include <algorithm>
#include <stdexcept>

#include "engine/model/ops.h"
#include "kernels/decode_attention.h"
#include "kernels/embed_row.h"

namespace kvscope::engine {
namespace {

std::int64_t attention_scratch(const std::vector<SequenceState*>& sequences) {
  std::int64_t floats = 0;
  for (SequenceState* sequence : sequences) {
    floats = std::max(
        floats, kernels::decode_attention_scratch_floats(sequence->model.config().n_heads, sequence->cache.view(0)));
  }
  return floats;
}

}  // namespace

DecodeStep::DecodeStep(const std::vector<SequenceState*>& sequences)
    : model_(sequences.front()->model),
      buffers_(model_, static_cast<int>(sequences.size()), attention_scratch(sequences)) {
  for (SequenceState* sequence : sequences) lanes_.emplace_back(*sequence);
}

int DecodeStep::row_of(int sequence) const {
  for (int row = 0; row < n_rows(); ++row) {
    if (inputs_[static_cast<std::size_t>(row)].sequence == sequence) return row;
  }
  throw std::logic_error("DecodeStep: sequence " + std::to_string(sequence) + " was not in the last step");
}

void DecodeStep::run(std::span<const DecodeInput> inputs) {
  inputs_.assign(inputs.begin(), inputs.end());
  for (int row = 0; row < n_rows(); ++row) {
    lane_of(row).prepare();
    buffers_.set_input(row, inputs[row].id, inputs[row].position);
  }
  if (is_cuda()) {
    run_graph();
  } else {
    enqueue({});
  }
  for (int row = 0; row < n_rows(); ++row) lane_of(row).note_step(inputs[row].position, buffers_.decided_on_host(row));
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

void DecodeStep::enqueue(kernels::Place place) {
  const ModelConfig& config = model_.config();
  const Weights& weights = model_.weights();
  buffers_.enqueue_inputs(place);
  for (int row = 0; row < n_rows(); ++row) {
    kernels::embed_row({.table = weights.embed.data_ptr(),
                        .id = buffers_.id(row),
                        .out = static_cast<float*>(row_of_tensor(buffers_.x, row)),
                        .n_rows = config.vocab_size,
                        .dim = config.hidden_size,
                        .dtype = kernel_dtype(weights.dtype)},
                       place);
  }
  for (int layer = 0; layer < config.n_layers; ++layer) enqueue_layer(layer, place);
  enqueue_logits(place);
  for (int row = 0; row < n_rows(); ++row) {
    for (const auto& method : lane_of(row).sequence().methods) method->end_step(place);
  }
  buffers_.enqueue_outputs(place);
}

/// Six launches for one sequence: QKV; norm, rotation, score, decision and cache; attention; output; and two of the
/// MLP.
void DecodeStep::enqueue_layer(int index, kernels::Place place) {
  const LayerWeights& layer = model_.weights().layers[index];
  const auto project = [&](const at::Tensor& weight, const at::Tensor& x, const at::Tensor& norm, const at::Tensor& out,
                           kernels::Epilogue epilogue, const at::Tensor& bias = {}) {
    enqueue_project({.weight = weight.data_ptr(),
                     .bias = data_or_null(bias),
                     .x = x.data_ptr(),
                     .norm_weight = data_or_null(norm),
                     .out = out.data_ptr(),
                     .n_rows = weight.size(0),
                     .dim = static_cast<int>(weight.size(1)),
                     .eps = model_.config().layers[index].norm_eps,
                     .epilogue = epilogue,
                     .dtype = kernel_dtype(model_.weights().dtype)},
                    out.size(1), place);
  };
  project(layer.qkv_proj, buffers_.x, layer.input_norm, buffers_.qkv, kernels::Epilogue::store, layer.qkv_bias);
  for (int row = 0; row < n_rows(); ++row) {
    lane_of(row).enqueue_score(index, row, buffers_, place);
    kernels::admit_step(lane_of(row).admit_args(index, row, buffers_), place);
  }
  for (int row = 0; row < n_rows(); ++row) lane_of(row).enqueue_attention(index, row, buffers_, place);
  project(layer.o_proj, buffers_.o, {}, buffers_.x, kernels::Epilogue::add);
  project(layer.gate_up, buffers_.x, layer.post_norm, buffers_.activation, kernels::Epilogue::swiglu);
  project(layer.down, buffers_.activation, {}, buffers_.x, kernels::Epilogue::add);
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
                   .epilogue = kernels::Epilogue::logits,
                   .dtype = kernel_dtype(weights.dtype)},
                  config.vocab_size, place);
  for (int row = 0; row < n_rows(); ++row) {
    kernels::logit_summary({.logits = static_cast<const float*>(row_of_tensor(buffers_.logits, row)),
                            .out = buffers_.decided(row).summary,
                            .n = config.vocab_size,
                            .scratch = buffers_.summary_scratch.data_ptr()},
                           place);
  }
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
    kernels::project(args, place);
  }
}

std::vector<float> DecodeStep::logits(int sequence) const {
  const at::Tensor host = buffers_.logits[row_of(sequence)].cpu();
  return {host.data_ptr<float>(), host.data_ptr<float>() + host.numel()};
}

void DecodeStep::gather(int sequence, StepFacts& facts) const {
  const int row = row_of(sequence);
  lanes_[static_cast<std::size_t>(sequence)].gather(row, inputs_[static_cast<std::size_t>(row)].position, buffers_,
                                                    facts);
}

}  // namespace kvscope::engine
