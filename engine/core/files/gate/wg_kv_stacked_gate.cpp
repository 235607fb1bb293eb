// WG-KV's gates as an experiment in PyTorch saves them in one go, stacked over layers and as x @ w takes them:
//
//     w1 [L, H, 2D, M]    b1 [L, H, 1, M]    w2 [L, H, M, 1]    b2 [L, H, 1]
//
// in a .safetensors file without any number. The two norms of k have no weights, and their epsilon is the one that
// torch's rms_norm takes where none is given, 2^-23; threshold, window and activation are those of the released code.

#include <limits>

#include "engine/core/files/gate/gate_formats.h"
#include "engine/core/files/gate/gate_source.h"

namespace kvscope {
namespace {

GateTensor ones(const GateSizes& sizes, const char* letters) {
  GateTensor tensor = zeros({"", letters}, sizes);
  tensor.values.assign(tensor.values.size(), 1.0f);
  return tensor;
}

}  // namespace

bool is_stacked_wg_kv(const std::map<std::string, TensorEntry>& tensors) {
  const auto rank = [&](const char* name) {
    const auto found = tensors.find(name);
    return found == tensors.end() ? 0 : found->second.shape.size();
  };
  // The kinds that stand as [outputs, inputs] have axes fewer.
  return tensors.size() == 4 && rank("w1") == 4 && rank("b1") == 4 && rank("w2") == 4 && rank("b2") == 3;
}

GateFile read_stacked_wg_kv_gate(const std::filesystem::path& path, const GateDims& known) {
  const GateSource source(path);
  GateSizes sizes(known);
  GateFile gate{.config = default_gate_config(GateKind::wg_kv)};
  gate.config.norm_eps = std::numeric_limits<float>::epsilon();
  gate.tensors["w1"] = read_tensor(source, "w1", "L H M 2D", sizes, {.transpose = true});
  gate.tensors["w2"] = read_tensor(source, "w2", "L H M", sizes, {.trailing_ones = true});
  gate.tensors["b2"] = read_tensor(source, "b2", "L H", sizes, {.trailing_ones = true});
  GateTensor b1 = read_tensor(source, "b1", "L H 1 M", sizes);
  b1.shape = sizes.shape("L H M");
  gate.tensors["b1"] = std::move(b1);
  for (const char* norm : {"pre_norm", "post_norm"}) gate.tensors[norm] = ones(sizes, "L D");
  gate.config.n_hidden = static_cast<int>(sizes.n_hidden());
  gate.dims = sizes.dims();
  return gate;
}

}  // namespace kvscope
