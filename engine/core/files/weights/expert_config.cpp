#include "engine/core/files/weights/expert_config.h"

#include <algorithm>

#include "engine/core/files/weights/kernel_limits.h"
#include "engine/core/files/weights/model_config.h"
#include "engine/core/support/json_file.h"
#include "engine/core/support/refuse.h"

namespace kvscope {
namespace {

using nlohmann::json;

/// Experts that every token goes through, under the names that families give their size or number.
void refuse_shared(const JsonObject& config) {
  for (const char* key : {"shared_expert_intermediate_size", "num_shared_experts", "n_shared_experts"}) {
    if (!config.has(key) || config.raw()[key] == 0) continue;
    refuse(config.file(), key, "shared experts are not supported", "routed experts alone", kOtherEngine);
  }
}

/// [n_layers], whether a layer is listed in mlp_only_layers.
std::vector<bool> dense_layers(const JsonObject& config, int n_layers) {
  constexpr const char* kKey = "mlp_only_layers";
  std::vector<bool> dense(static_cast<std::size_t>(n_layers));
  if (!config.has(kKey)) return dense;
  const json& list = config.raw()[kKey];
  const std::string expected = "indices of layers, 0 to " + std::to_string(n_layers - 1);
  if (!list.is_array()) refuse(config.file(), kKey, "not a list", expected);
  for (const json& index : list) {
    const bool fits = index.is_number_integer() && index >= 0 && index < n_layers;
    if (!fits) refuse(config.file(), kKey, index.is_number() ? index.dump() : "no number", expected);
    dense[index.get<std::size_t>()] = true;
  }
  return dense;
}

}  // namespace

void read_experts(const JsonObject& config, ModelConfig& model) {
  constexpr const char *kNumber = "num_experts", *kOtherNumber = "num_local_experts", *kWidth = "moe_intermediate_size",
                       *kNormalised = "norm_topk_prob", *kStep = "decoder_sparse_step";
  refuse_shared(config);
  const ModelFamily& family = *model.family;
  // transformers writes the second name and reads both, the second one first.
  const char* number_key = config.has(kOtherNumber) || !family.reads(kNumber) ? kOtherNumber : kNumber;
  ExpertConfig experts = family.layer.experts;
  experts.n = static_cast<int>(config.integer_or(number_key, experts.n, 1, kMaxExperts));
  experts.per_token =
      static_cast<int>(config.integer_or("num_experts_per_tok", experts.per_token, 1, kMaxExpertsPerToken));
  if (experts.per_token > experts.n)
    refuse(config.file(), "num_experts_per_tok", std::to_string(experts.per_token),
           "at most " + std::string(number_key) + " " + std::to_string(experts.n));
  experts.intermediate = family.reads(kWidth)
                             ? static_cast<int>(config.integer_or(kWidth, experts.intermediate, 1, kMaxProductRow))
                             : model.intermediate_size;
  if (family.reads(kNormalised)) experts.normalised = config.boolean_or(kNormalised, false);
  const bool has_dense = family.reads(kStep);
  const std::int64_t step = has_dense ? config.integer_or(kStep, 1, 1, kMaxExpertStep) : 1;
  const std::vector<bool> dense =
      has_dense ? dense_layers(config, model.n_layers) : std::vector<bool>(model.layers.size());
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const bool has_some = !dense[i] && (static_cast<std::int64_t>(i) + 1) % step == 0;
    model.layers[i].mlp = has_some ? MlpKind::experts : MlpKind::gated;
    model.layers[i].experts = has_some ? experts : ExpertConfig();
  }
}

}  // namespace kvscope
