#pragma once
// The gates of all layers and KV heads as something to train: WG-KV's, SP-KV's, DMS's own projection, KVzap's.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "engine/core/files/gate/gate_kinds.h"
#include "engine/jobs/train/decoder_module.h"
#include "engine/jobs/train/flat_parameters.h"

namespace kvscope::engine {

/// What a gate computes is said in gate_file.h by its kind; tensors as there, float32. Kinds: wg_kv, sp_kv, dms_separate, kvzap_linear,
/// kvzap_mlp.
class GateModule {
 public:
  /// n_hidden 0: no hidden layer (sp_kv alone may have none; dms_separate and kvzap_linear have none). kernel: of the convolution over hidden
  /// units, odd, which sp_kv may have (App. C.4); 1: none. Throws Error (usage) for other kinds.
  GateModule(GateKind kind, int n_hidden, const ModelConfig& model, at::Device device, int kernel = 1);

  /// W1 normal with deviation fan_in^-1/2, W2 with 0.01 / scale, norms 1, biases 0 but for that of the output, `bias`: a gate that
  /// begins open. The convolution begins as the identity, so that the gate is the one without it, number for number.
  void initialise(std::uint64_t seed, double bias);

  using Layer = std::map<std::string, at::Tensor>;  // of one layer, by name
  /// All layers' parameters, to be taken apart once a pass: the gradient of a slice taken by itself is a tensor of all layers,
  /// filled and added, 540 launches a step for 30 layers of WG-KV.
  std::vector<Layer> layers() const;
  /// The network's output before scale, offset and sigmoid, [B, n_kv_heads, T] float32. `x` is what enters the layer. Of these no
  /// more is read than info_of() says of the kind. A row of
  /// the batch is one sequence, and a convolution sees nothing outside it: zeros before its first token and behind its last.
  at::Tensor output(const Layer& layer, const DecoderModule::Heads& heads, const at::Tensor& x) const;
  /// Whether output() reads heads.k_unrotated.
  bool reads_unrotated() const { return info_of(config_.kind).reads == GateReads::key_pair; }

  /// As gate.json and gate.safetensors (bfloat16) in `folder`, replaced whole or not at all. `config` has the numbers of the run that
  /// the gate was trained for (window, sinks, threshold).
  void save(const std::filesystem::path& folder, GateConfig config, const std::string& description) const;

  /// Of a new gate: the published numbers of its kind, with this one's sizes.
  const GateConfig& config() const { return config_; }
  FlatParameters& parameters() { return parameters_; }
  const FlatParameters& parameters() const { return parameters_; }

 private:
  GateConfig config_;
  ModelConfig model_;
  FlatParameters parameters_;
};

}  // namespace kvscope::engine
