#pragma once
// What the kernels take of a model's shape: the one place that readers of config.json ask, so that a model that cannot
// run is refused before its weights are read. tests/kernels/limits_test.cpp holds it against the kernels.

#include <array>
#include <string>

namespace kvscope {

struct ModelConfig;

/// rms_norm takes rows of this many features; project (a row of a matrix product) of kMaxProductRow.
inline constexpr int kMaxNormRow = 1 << 14, kMaxProductRow = 56 * 1024;
/// Heads of any kernel: a multiple of kHeadDimStep up to kMaxHeadDim on the CPU, one of kCudaHeadDims on CUDA.
inline constexpr int kMaxHeadDim = 256, kHeadDimStep = 8;
inline constexpr std::array<int, 6> kCudaHeadDims = {64, 80, 96, 128, 192, 256};
/// Query heads and KV heads. A KV head may have any number of query heads.
inline constexpr int kMaxHeads = 1024;
/// Experts of a layer, those that a token goes through, and layers from one layer with experts to the next.
inline constexpr int kMaxExperts = 1024, kMaxExpertsPerToken = 64, kMaxExpertStep = 1024;
/// What to do with a model that is refused: the engine in Python runs what transformers runs.
inline constexpr const char* kOtherEngine = "--engine hf (python3 -m kvscope.engine) runs other models of transformers";

/// Throws Error (bad input) that names the layer of `file` and what no kernel computes of its LayerConfig.
void check_layers(const ModelConfig& config, const std::string& file);
/// Throws Error (usage) for a model whose attention has a soft cap or sink logits; `use` is what computes neither.
void require_plain_attention(const ModelConfig& config, const std::string& use);
/// The same for a model whose attention has a soft cap.
void require_no_soft_cap(const ModelConfig& config, const std::string& use);
/// The same for a model whose queries and keys have their channels in another order than its files (channel_order()).
void require_whole_rotation(const ModelConfig& config, const std::string& use);
/// The same for a model with layers of experts; `use` is what takes none.
void require_no_experts(const ModelConfig& config, const std::string& use);
/// Throws Error (bad input) that names the field of `file`, a config.json, which no kernel takes. Calls check_layers().
void check_kernels(const ModelConfig& config, const std::string& file);
/// The same of the kernels on CUDA, which take less.
void check_cuda_kernels(const ModelConfig& config, const std::string& file);
/// "cpu, cuda" or "cpu".
std::string devices_of(const ModelConfig& config);

}  // namespace kvscope
