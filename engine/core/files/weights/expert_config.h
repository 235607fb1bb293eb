#pragma once
// The experts of a layer, as config.json describes them.

namespace kvscope {

class JsonObject;
struct ModelConfig;

/// A router chooses `per_token` of `n` gated MLPs for each token. After Shazeer et al., 2017, and Qwen3 (Yang et al., 2025);
/// in transformers: modeling_qwen3_moe.py.
///
///     p = softmax(W_router n)                          over all experts, float32
///     y = sum of w_e MLP_e(n) over the chosen e        the per_token greatest p_e; of equal ones the lowest index
///     w_e = p_e, or p_e / sum of the chosen p          normalised
///
/// biased: W_router n and the products of the MLPs have a bias (gpt-oss; in transformers: modeling_gpt_oss.py).
struct ExpertConfig {
  int n = 0;                // 1 ... kMaxExperts; 0: the layer has none
  int per_token = 0;        // 1 ... min(n, kMaxExpertsPerToken)
  int intermediate = 0;     // channels of each expert's MLP, moe_intermediate_size or intermediate_size
  bool normalised = false;  // norm_topk_prob
  bool biased = false;
  bool operator==(const ExpertConfig&) const = default;
};

/// Gives experts to the layers of `model` that have them, all or, of a family with these keys, each decoder_sparse_step-th but
/// for mlp_only_layers. What config.json leaves out is as in the family's row. Throws Error naming the key for what is out of
/// range, and for shared experts, which are not computed.
void read_experts(const JsonObject& config, ModelConfig& model);

}  // namespace kvscope
