#include "engine/jobs/train/scorer_module.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cmath>

#include "engine/jobs/train/checkpoint_writer.h"
#include "engine/jobs/train/pooled_cutoff.h"

namespace kvscope::engine {
namespace {

std::vector<FlatParameters::Spec> parameter_specs(const ScorerOptions& options, const ModelConfig& model) {
  const std::int64_t dim = model.head_dim, hidden = options.hidden;
  std::vector<FlatParameters::Spec> specs;
  const auto add = [&](const char* name, std::vector<std::int64_t> tail, bool decayed = true) {
    tail.insert(tail.begin(), {model.n_layers, model.n_kv_heads});
    specs.push_back({name, std::move(tail), decayed});
  };
  if (options.kind == GateKind::kvpop_mlstm) {
    const MlstmVariant& variant = options.mlstm;
    const std::int64_t map = variant.feature_map == FeatureMap::softmax ? dim : dim / 2;
    add("wq", {2 * dim, map});
    add("wk", {2 * dim, map});
    if (!variant.cached_values) add("wv", {2 * dim, dim});
    add("gi", {2 * dim, 1});
    add("gf", {2 * dim, 1});
    add("bi", {1});
    add("bf", {1});
    add("out", {variant.skip ? 3 * dim : dim});
    add("b", {});
    if (variant.head_norm) add("norm", {dim}, false);
  } else if (options.kind == GateKind::kvpop_mlp) {
    add("w1", {hidden, 2 * dim});
    add("b1", {hidden}, false);
    add("w2", {hidden});
    add("b2", {}, false);
  } else {
    add("w2", {2 * dim});
    add("b2", {}, false);
  }
  if (options.decay) add("alpha", {}, false);
  return specs;
}

}  // namespace

ScorerModule::ScorerModule(const ScorerOptions& options, const ModelConfig& model, at::Device device)
    : options_(options), model_(model), parameters_(parameter_specs(options, model), device, at::kFloat) {}

void ScorerModule::initialise(std::uint64_t seed) {
  const double deviation = 1 / std::sqrt(2.0 * model_.head_dim);
  parameters_.initialise(seed, [&](const FlatParameters::Spec& spec) -> FlatParameters::Start {
    const bool last = spec.name == "w2";  // zero, as the mLSTM's `out`
    if (!last && (spec.name.starts_with("w") || spec.name.starts_with("g"))) return {.deviation = deviation};
    if (spec.name == "norm") return {.constant = 1};
    return {.constant = spec.name == "bf" ? 4.0 : 0.0};  // sigmoid(4) = 0.98: the memory starts out long
  });
}

at::Tensor ScorerModule::of_layers(const char* name, LayerRange layers) const {
  return parameters_[name].narrow(0, layers.first, layers.count).flatten(0, 1);
}

at::Tensor ScorerModule::scores(LayerRange layers, const at::Tensor& k, const at::Tensor& v,
                                const at::Tensor& tokens) const {
  const at::Tensor x =
      at::cat({k, v}, -1).detach().to(at::kFloat).permute({2, 0, 1, 3}).contiguous();  // [HK, B, T, 2D]
  const auto p = [&](const char* name) { return of_layers(name, layers); };
  if (kind() == GateKind::kvpop_mlstm) {
    const MlstmLayer memory{.wq = p("wq"),
                            .wk = p("wk"),
                            .wv = options_.mlstm.cached_values ? at::Tensor() : p("wv"),
                            .gi = p("gi"),
                            .gf = p("gf"),
                            .bi = p("bi"),
                            .bf = p("bf"),
                            .out = p("out"),
                            .b = p("b"),
                            .norm = options_.mlstm.head_norm ? p("norm") : at::Tensor()};
    return mlstm_scores(memory, x, tokens, {options_.delay, options_.soft_cap, options_.mlstm.feature_map});
  }
  at::Tensor rows = x.gather(2, tokens.unsqueeze(-1).expand({-1, -1, -1, x.size(3)})).flatten(1, 2);  // [HK, B R, 2D]
  if (kind() == GateKind::kvpop_mlp) rows = at::silu(at::baddbmm(p("b1").unsqueeze(1), rows, p("w1").transpose(1, 2)));
  return (at::bmm(rows, p("w2").unsqueeze(2)).squeeze(2) + p("b2").unsqueeze(1)).view(tokens.sizes());
}

at::Tensor ScorerModule::scores(LayerRange layers, const at::Tensor& k, const at::Tensor& v) const {
  const auto index = at::TensorOptions(k.device()).dtype(at::kLong);
  return scores(layers, k, v, at::arange(k.size(1), index).expand({k.size(2), k.size(0), -1}).contiguous());
}

at::Tensor ScorerModule::log_gamma(LayerRange layers) const {
  if (!options_.decay) return {};
  const double least = std::log(options_.decay->least), most = std::log(options_.decay->most);
  return least + of_layers("alpha", layers).sigmoid() * (most - least);
}

at::Tensor ScorerModule::priorities(LayerRange layers, const at::Tensor& scores, const at::Tensor& tokens) const {
  if (!options_.decay) return scores;
  return scores - tokens.to(at::kFloat) * log_gamma(layers).unsqueeze(1).unsqueeze(1);
}

void ScorerModule::save(const std::filesystem::path& folder, const std::string& description) const {
  const c10::NoGradGuard no_grad;
  GateConfig config = default_gate_config(kind());
  config.delay = options_.delay;
  config.window = options_.window;
  config.pool_interval = options_.pooled ? kPooledStride : 0;
  config.n_sink = options_.n_sink;
  config.soft_cap = options_.soft_cap;
  config.mlstm = options_.mlstm;
  if (kind() == GateKind::kvpop_mlp) {
    config.n_hidden = options_.hidden;
    config.activation = Activation::silu;
  }
  GateFile gate{.config = config,
                .dims = {.n_layers = model_.n_layers, .n_kv_heads = model_.n_kv_heads, .head_dim = model_.head_dim},
                .format = "kvscope",
                .description = description};
  for (const auto& spec : parameters_.specs())
    if (spec.name != "alpha") gate.tensors[spec.name] = gate_tensor(parameters_.master(spec.name));
  if (options_.decay) {
    std::vector<at::Tensor> layers;
    for (int layer = 0; layer < model_.n_layers; ++layer) layers.push_back(log_gamma(layer));
    gate.tensors["log_gamma"] = gate_tensor(at::stack(layers));
  }
  std::filesystem::create_directories(folder);
  save_gate(folder, gate, /*replace=*/true, GateTensorType::bf16);
}

}  // namespace kvscope::engine
