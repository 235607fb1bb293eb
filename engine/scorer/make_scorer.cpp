#include "engine/scorer/make_scorer.h"

#include "engine/core/support/error.h"
#include "engine/scorer/kvpop_scorer.h"

namespace kvscope::engine {

at::Tensor gate_tensor(const GateFile& gate, const char* name, const Weights& weights) {
  const GateTensor& tensor = gate.tensors.at(name);
  return at::from_blob(const_cast<float*>(tensor.values.data()), tensor.shape, at::kFloat)
      .to(weights.device, /*non_blocking=*/false, /*copy=*/true);
}

at::Tensor activate(const at::Tensor& x, Activation activation) {
  return activation == Activation::gelu ? at::gelu(x) : activation == Activation::silu ? at::silu(x) : x;
}

std::string describe(const GateFile& gate, int delay) {
  std::string kind = name_of(gate.config.kind);
  for (char& c : kind) c = c == '_' ? ' ' : c;
  return kind + ", delay " + std::to_string(delay);
}

std::unique_ptr<TokenScorer> make_scorer(const GateFile& gate, const ModelConfig& config, const Weights& weights) {
  switch (gate.config.kind) {
    case GateKind::kvpop_mlstm: {
      const TensorSource source = [&](const std::string& name, const std::vector<std::int64_t>& shape) {
        return gate_tensor(gate, name.c_str(), weights).view(shape);
      };
      const KvpopScorerConfig numbers{
          .delay = gate.config.delay, .soft_cap = gate.config.soft_cap, .guarded = gate.config.guarded};
      return std::make_unique<KvpopScorer>(numbers, config, source, weights.device);
    }
    case GateKind::kvpop_mlp:
    case GateKind::kvpop_linear:
    case GateKind::wg_kv:
    case GateKind::dms:
      return make_head_scorer(gate, config, weights);
    case GateKind::sp_kv:
    case GateKind::dms_separate:
    case GateKind::kvzap_linear:
    case GateKind::kvzap_mlp:
      return make_input_scorer(gate, config, weights);
    case GateKind::duo:
      break;
  }
  throw Error({.file = gate.path.string(), .found = "values of heads", .expected = "a gate that scores tokens"});
}

}  // namespace kvscope::engine
