#include "engine/jobs/train/gate_module.h"

#include <ATen/ATen.h>

#include <cmath>

#include "engine/core/files/gate/gate_kinds.h"
#include "engine/core/support/error.h"
#include "engine/jobs/train/checkpoint_writer.h"

namespace kvscope::engine {
namespace {

GateConfig gate_config(GateKind kind, int n_hidden, int kernel) {
  GateConfig config = default_gate_config(kind);
  config.kind = kind;
  config.n_hidden = info_of(kind).hidden == GateKindInfo::Hidden::none ? 0 : n_hidden;
  if (config.n_hidden == 0) config.activation = Activation::identity;
  if (kernel > 1) config.kernel = kernel, config.delay = kernel / 2;
  return config;
}

std::vector<FlatParameters::Spec> parameter_specs(const GateConfig& gate, const ModelConfig& model) {
  const std::int64_t L = model.n_layers, H = model.n_kv_heads, D = model.head_dim, F = model.hidden_size,
                     M = gate.n_hidden;
  switch (info_of(gate.kind).reads) {
    case GateReads::key_pair:
      return {{"w1", {L, H, M, 2 * D}, true}, {"b1", {L, H, M}, false},    {"w2", {L, H, M}, true},
              {"b2", {L, H}, false},          {"pre_norm", {L, D}, false}, {"post_norm", {L, D}, false}};
    case GateReads::attention_input:
      if (M == 0) return {{"w2", {L, H, F}, true}, {"b2", {L, H}, false}};
      if (gate.kernel == 1)
        return {{"w1", {L, M, F}, true}, {"b1", {L, M}, false}, {"w2", {L, H, M}, true}, {"b2", {L, H}, false}};
      // No decay: it would pull a token's own tap, which begins at 1, to 0.
      return {{"w1", {L, M, F}, true},
              {"b1", {L, M}, false},
              {"w2", {L, H, M}, true},
              {"b2", {L, H}, false},
              {"conv", {L, M, gate.kernel}, false}};
    case GateReads::layer_input:
      return {{"norm", {L, F}, false}, {"w2", {L, H, F}, true}, {"b2", {L, H}, false}};
    default:
      throw Error({.code = ExitCode::usage,
                   .where = "gate.method",
                   .found = name_of(gate.kind),
                   .expected = "wg-kv, sp-kv, dms or kvzap"});
  }
}

at::Tensor activate(const at::Tensor& x, Activation activation) {
  return activation == Activation::gelu ? at::gelu(x) : activation == Activation::silu ? at::silu(x) : x;
}

}  // namespace

GateModule::GateModule(GateKind kind, int n_hidden, const ModelConfig& model, at::Device device, int kernel)
    : config_(gate_config(kind, n_hidden, kernel)),
      model_(model),
      parameters_(parameter_specs(config_, model), device, at::kFloat) {}

void GateModule::initialise(std::uint64_t seed, double bias) {
  parameters_.initialise(seed, [&](const FlatParameters::Spec& spec) -> FlatParameters::Start {
    if (spec.name == "w1") return {.deviation = 1 / std::sqrt(static_cast<double>(spec.shape.back()))};
    if (spec.name == "w2") return {.deviation = 0.01 / config_.scale};
    return {.constant = spec.name == "b2" ? bias : spec.name.ends_with("norm") ? 1 : 0};
  });
  if (config_.kernel == 1) return;
  parameters_.master("conv").select(2, config_.kernel / 2).fill_(1);
  parameters_.publish();
}

std::vector<GateModule::Layer> GateModule::layers() const {
  std::vector<Layer> all(static_cast<std::size_t>(model_.n_layers));
  for (const auto& spec : parameters_.specs()) {
    const auto parts = parameters_[spec.name].unbind();
    for (std::size_t i = 0; i < all.size(); ++i) all[i][spec.name] = parts[i];
  }
  return all;
}

at::Tensor GateModule::output(const Layer& layer, const DecoderModule::Heads& heads, const at::Tensor& x) const {
  const auto normed = [&](const at::Tensor& y, const char* gain) {
    return at::rms_norm(y.to(at::kFloat), {y.size(-1)}, layer.at(gain), config_.norm_eps);
  };
  const at::Tensor w2 = layer.at("w2"), b2 = layer.at("b2");
  at::Tensor y;
  if (reads_unrotated()) {
    at::Tensor in = at::cat({normed(heads.k_unrotated, "pre_norm"), normed(heads.k, "post_norm")}, -1);
    in = in.flatten(0, 1).transpose(0, 1);  // [HK, B * T, 2D]
    in = at::baddbmm(layer.at("b1").unsqueeze(1), in, layer.at("w1").transpose(1, 2));
    y = at::bmm(activate(in, config_.activation), w2.unsqueeze(2)).squeeze(2) + b2.unsqueeze(1);  // [HK, B * T]
    return y.view({-1, heads.k.size(0), heads.k.size(1)}).transpose(0, 1);
  }
  at::Tensor in =
      info_of(config_.kind).reads == GateReads::layer_input ? normed(x, "norm") : heads.input.to(w2.scalar_type());
  if (config_.n_hidden > 0) {
    in = activate(at::linear(in, layer.at("w1"), layer.at("b1")), config_.activation);
  }
  if (config_.kernel > 1) {
    in = at::conv1d(in.transpose(1, 2), layer.at("conv").unsqueeze(1), {}, /*stride=*/1,
                    /*padding=*/at::IntArrayRef{config_.kernel / 2}, /*dilation=*/1, /*groups=*/config_.n_hidden)
             .transpose(1, 2);
  }
  return at::linear(in, w2, b2).transpose(1, 2);
}

void GateModule::save(const std::filesystem::path& folder, GateConfig config, const std::string& description) const {
  GateFile gate{.config = config,
                .dims = {.n_layers = model_.n_layers,
                         .n_kv_heads = model_.n_kv_heads,
                         .head_dim = reads_unrotated() ? model_.head_dim : 0,
                         .hidden_size = reads_unrotated() ? 0 : model_.hidden_size},
                .format = "kvscope",
                .description = description};
  for (const auto& spec : parameters_.specs()) gate.tensors[spec.name] = gate_tensor(parameters_.master(spec.name));
  std::filesystem::create_directories(folder);
  save_gate(folder, gate, /*replace=*/true, GateTensorType::bf16);
}

}  // namespace kvscope::engine
