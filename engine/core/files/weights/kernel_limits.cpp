#include "engine/core/files/weights/kernel_limits.h"

#include <algorithm>
#include <utility>

#include "engine/core/files/weights/model_config.h"
#include "engine/core/support/refuse.h"

namespace kvscope {
namespace {

bool cuda_takes(int head_dim) { return std::ranges::find(kCudaHeadDims, head_dim) != kCudaHeadDims.end(); }

/// What config.json says of it: where head_dim is missing, it follows from the width.
std::string head_dim_of(const ModelConfig& config) {
  return std::to_string(config.head_dim) + " (of hidden_size " + std::to_string(config.hidden_size) + " and " +
         std::to_string(config.n_heads) + " heads)";
}

[[noreturn]] void refuse_use(std::size_t layer, std::string found, std::string expected) {
  throw Error({.code = ExitCode::usage,
               .file = "model",
               .where = "layer " + std::to_string(layer),
               .found = std::move(found),
               .expected = std::move(expected)});
}

}  // namespace

void check_layers(const ModelConfig& config, const std::string& file) {
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    const LayerConfig& layer = config.layers[i];
    const auto refuse_layer = [&](const std::string& found, const std::string& expected) {
      refuse(file, "layer " + std::to_string(i), found + ", which is not supported", expected);
    };
    const std::int64_t q_rows = std::int64_t{config.n_heads} * config.head_dim;
    if (layer.qk_norm == QkNorm::whole && q_rows > kMaxNormRow) {
      refuse_layer("a norm over " + std::to_string(q_rows) + " channels of q",
                   "at most " + std::to_string(kMaxNormRow));
    }
    if (layer.mlp != MlpKind::experts && layer.activation == MlpActivation::clamped)
      refuse_layer("a clamped activation of a single MLP", "one of experts");
    if (layer.mlp != MlpKind::experts) continue;
    if (layer.norms != NormPlacement::before) refuse_layer("experts with a norm after them", "norms before them alone");
    if (layer.activation == MlpActivation::gelu_tanh) refuse_layer("experts with another hidden_act", "\"silu\"");
  }
}

void require_plain_attention(const ModelConfig& config, const std::string& use) {
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    if (config.layers[i].attention.has_sink)
      refuse_use(i, "a sink logit of attention", "attention without it, for " + use);
  }
  require_no_soft_cap(config, use);
}

void require_no_soft_cap(const ModelConfig& config, const std::string& use) {
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    if (config.layers[i].attention.soft_cap != 0)
      refuse_use(i, "a soft cap of attention scores", "attention without it, for " + use);
  }
}

void require_no_experts(const ModelConfig& config, const std::string& use) {
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    if (config.layers[i].mlp == MlpKind::experts) refuse_use(i, "a mixture of experts", "a single MLP, for " + use);
  }
}

void require_whole_rotation(const ModelConfig& config, const std::string& use) {
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    if (channel_order(config.layers[i], config.head_dim).empty()) continue;
    refuse_use(i,
               "a rotation of " + std::to_string(config.layers[i].rotated) + " of " + std::to_string(config.head_dim) +
                   " channels",
               "one of all channels, for " + use);
  }
}

void check_kernels(const ModelConfig& config, const std::string& file) {
  check_layers(config, file);
  if (config.head_dim % kHeadDimStep != 0 || config.head_dim > kMaxHeadDim) {
    refuse(file, "head_dim", head_dim_of(config),
           "a multiple of " + std::to_string(kHeadDimStep) + " up to " + std::to_string(kMaxHeadDim) +
               ": the attention kernels support no other");
  }
  const auto check_row = [&](const char* field, std::int64_t row) {
    if (row <= kMaxProductRow) return;
    refuse(file, field, std::to_string(row) + " numbers per row", "at most " + std::to_string(kMaxProductRow));
  };
  check_row("intermediate_size", config.intermediate_size);
  check_row("num_attention_heads", std::int64_t{config.n_heads} * config.head_dim);
}

void check_cuda_kernels(const ModelConfig& config, const std::string& file) {
  if (cuda_takes(config.head_dim)) return;
  std::string list;
  for (const int dim : kCudaHeadDims) list += (list.empty() ? "" : ", ") + std::to_string(dim);
  refuse(file, "head_dim", head_dim_of(config), "one of " + list + " on CUDA", "use --device cpu");
}

std::string devices_of(const ModelConfig& config) { return cuda_takes(config.head_dim) ? "cpu, cuda" : "cpu"; }

}  // namespace kvscope
