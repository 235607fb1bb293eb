#include "engine/jobs/train/checkpoint_writer.h"

#include <ATen/ATen.h>

#include <nlohmann/json.hpp>

#include "engine/core/files/weights/safetensors.h"
#include "engine/core/support/json_file.h"
#include "engine/jobs/train/corpus.h"

namespace kvscope::engine {
namespace {

void write_json(const std::filesystem::path& path, const nlohmann::ordered_json& json) {
  write_file_atomic(path, json.dump(2) + "\n");
}

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

nlohmann::ordered_json config_json(const ModelConfig& c) {
  return {{"architectures", {c.family->architecture}},
          {"model_type", "qwen3"},
          {"vocab_size", c.vocab_size},
          {"hidden_size", c.hidden_size},
          {"intermediate_size", c.intermediate_size},
          {"num_hidden_layers", c.n_layers},
          {"num_attention_heads", c.n_heads},
          {"num_key_value_heads", c.n_kv_heads},
          {"head_dim", c.head_dim},
          {"hidden_act", "silu"},
          {"max_position_embeddings", c.max_positions},
          {"rms_norm_eps", 1e-6},
          {"rope_theta", c.layers.front().rope_theta},
          {"rope_scaling", nullptr},
          {"attention_bias", false},
          {"tie_word_embeddings", true},
          {"torch_dtype", "bfloat16"},
          {"bos_token_id", nullptr},
          {"eos_token_id", 0},
          {"use_sliding_window", false}};
}

}  // namespace

void write_parameters(const std::filesystem::path& path, const FlatParameters& parameters, at::ScalarType type) {
  std::vector<at::Tensor> values;  // alive until written
  std::vector<TensorToWrite> tensors;
  for (const auto& spec : parameters.specs()) {
    values.push_back(parameters.master(spec.name).to(at::kCPU).to(type).contiguous());
    tensors.push_back({.name = spec.name,
                       .type = type == at::kBFloat16 ? TensorType::bf16 : TensorType::f32,
                       .shape = spec.shape,
                       .bytes = bytes_of(values.back())});
  }
  write_safetensors(path, tensors, {{"format", "pt"}});
}

GateTensor gate_tensor(const at::Tensor& tensor) {
  const at::Tensor values = tensor.to(at::kCPU).to(at::kFloat).contiguous();
  const float* data = values.const_data_ptr<float>();
  return {values.sizes().vec(), std::vector<float>(data, data + values.numel())};
}

void write_model(const std::filesystem::path& folder, const DecoderModule& model,
                 const std::filesystem::path& tokenizer) {
  std::filesystem::create_directories(folder);
  write_json(folder / "config.json", config_json(model.config()));
  write_json(folder / "generation_config.json", {{"eos_token_id", 0}, {"do_sample", false}});
  write_json(folder / "tokenizer_config.json", {{"tokenizer_class", "Qwen2Tokenizer"},
                                                {"eos_token", "<|endoftext|>"},
                                                {"pad_token", "<|endoftext|>"},
                                                {"model_max_length", model.config().max_positions},
                                                {"add_bos_token", false}});
  write_file_atomic(folder / "tokenizer.json", read_file(tokenizer, kMaxTokenizerBytes));
  write_parameters(folder / "model.safetensors", model.parameters(), at::kBFloat16);
}

void write_model_like(const std::filesystem::path& from, const std::filesystem::path& folder,
                      const DecoderModule& model) {
  std::filesystem::create_directories(folder);
  for (const char* name : {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
                           "special_tokens_map.json", "chat_template.jinja"}) {
    if (std::filesystem::exists(from / name))
      write_file_atomic(folder / name, read_file(from / name, kMaxTokenizerBytes));
  }
  write_parameters(folder / "model.safetensors", model.parameters(), at::kBFloat16);
}

void read_model(const std::filesystem::path& folder, DecoderModule& model) {
  const WeightFiles files = WeightFiles::open(folder);
  FlatParameters& parameters = model.parameters();
  for (const auto& spec : parameters.specs()) {
    const auto [file, entry] = files.find(spec.name, spec.shape);
    const auto type = entry->type == TensorType::f32   ? at::kFloat
                      : entry->type == TensorType::f16 ? at::kHalf
                                                       : at::kBFloat16;
    at::Tensor values = at::empty(spec.shape, at::TensorOptions(type));
    file->read(*entry, {static_cast<std::byte*>(values.mutable_data_ptr()), values.nbytes()});
    parameters.master(spec.name).copy_(values);
  }
  parameters.publish();
}

void write_scorer(const std::filesystem::path& folder, const ScorerModule& scorer, const ScorerOptions& options) {
  std::filesystem::create_directories(folder);
  write_parameters(folder / "kvpop_scorer.safetensors", scorer.parameters(), at::kFloat);
  write_json(folder / "kvpop_scorer.json",
             {{"format_version", 1},
              {"method", "kvpop"},
              {"scorer", "mlstm"},
              {"delay", options.delay},
              {"n_sink", options.n_sink},
              {"window", options.window},
              {"soft_cap", options.soft_cap == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(options.soft_cap)},
              {"note",
               "tensors per layer and KV head: wq wk [L,HK,2D,D/2], wv [L,HK,2D,D], gi gf [L,HK,2D,1] with bi bf; "
               "score = silu(h).out[:D] + [k;v].out[D:] + b, h the delayed read of the mLSTM"}});
}

}  // namespace kvscope::engine
