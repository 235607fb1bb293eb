#include "engine/jobs/train/lora_adapter.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"
#include "engine/jobs/train/checkpoint_writer.h"

namespace kvscope::engine {
namespace {

constexpr char kBefore[] = "base_model.model.", kA[] = ".lora_A.weight", kB[] = ".lora_B.weight";

/// "q_proj" of "self_attn.q_proj".
std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

std::vector<FlatParameters::Spec> parameter_specs(const LoraOptions& options, const ModelConfig& c) {
  const TensorNames& names = c.family->names;
  const std::int64_t hidden = c.hidden_size, q = c.n_heads * c.head_dim, kv = c.n_kv_heads * c.head_dim;
  struct Matrix {
    const char* part;
    std::int64_t outputs, inputs;
  };
  const std::vector<Matrix> matrices = {{names.q, q, hidden},
                                        {names.k, kv, hidden},
                                        {names.v, kv, hidden},
                                        {names.o, hidden, q},
                                        {names.gate, c.intermediate_size, hidden},
                                        {names.up, c.intermediate_size, hidden},
                                        {names.down, hidden, c.intermediate_size}};
  std::string there;
  for (const Matrix& matrix : matrices) there += (there.empty() ? "" : ", ") + last_part(matrix.part);
  for (const std::string& target : options.targets) {
    const bool found = std::ranges::any_of(matrices, [&](const Matrix& m) { return last_part(m.part) == target; });
    if (!found) throw Error({.where = "adapter.targets", .found = in_quotes(target), .expected = "some of " + there});
  }
  std::vector<FlatParameters::Spec> specs;
  for (int layer = 0; layer < c.n_layers; ++layer) {
    for (const Matrix& matrix : matrices) {
      if (!options.targets.empty() &&
          std::ranges::find(options.targets, last_part(matrix.part)) == options.targets.end())
        continue;
      const std::string name = kBefore + names.in_layer(layer, matrix.part, "");
      specs.push_back({name + kA, {options.rank, matrix.inputs}, true});
      specs.push_back({name + kB, {matrix.outputs, options.rank}, true});
    }
  }
  return specs;
}

/// The adapted parts, each once, in the order of the first layer.
std::vector<std::string> targets_of(const FlatParameters& parameters) {
  std::vector<std::string> targets;
  for (const auto& spec : parameters.specs()) {
    const std::string part = last_part(spec.name.substr(0, spec.name.find(".lora_")));
    if (std::ranges::find(targets, part) == targets.end()) targets.push_back(part);
  }
  return targets;
}

}  // namespace

LoraAdapter::LoraAdapter(const LoraOptions& options, const ModelConfig& model, at::Device device,
                         at::ScalarType compute_type)
    : options_(options), parameters_(parameter_specs(options, model), device, compute_type) {}

void LoraAdapter::initialise(std::uint64_t seed) {
  parameters_.initialise(seed, [](const FlatParameters::Spec& spec) -> FlatParameters::Start {
    if (spec.name.ends_with(kB)) return {};
    return {.deviation = 1 / std::sqrt(3 * static_cast<double>(spec.shape[1]))};  // that of PEFT's uniform
  });
}

LoraAdapter::Pair LoraAdapter::of(const std::string& weight_name) const {
  const std::string name = kBefore + weight_name.substr(0, weight_name.rfind(".weight"));
  const auto& specs = parameters_.specs();
  const bool adapted = std::ranges::find(specs, name + kA, &FlatParameters::Spec::name) != specs.end();
  return adapted ? Pair{parameters_[name + kA], parameters_[name + kB]} : Pair{};
}

void LoraAdapter::save(const std::filesystem::path& folder, const std::string& base) const {
  std::filesystem::create_directories(folder);
  write_parameters(folder / "adapter_model.safetensors", parameters_, at::kBFloat16);
  const nlohmann::ordered_json config = {{"base_model_name_or_path", base},
                                         {"bias", "none"},
                                         {"fan_in_fan_out", false},
                                         {"inference_mode", true},
                                         {"lora_alpha", options_.alpha},
                                         {"lora_dropout", 0.0},
                                         {"modules_to_save", nullptr},
                                         {"peft_type", "LORA"},
                                         {"r", options_.rank},
                                         {"target_modules", targets_of(parameters_)},
                                         {"task_type", "CAUSAL_LM"},
                                         {"use_dora", false},
                                         {"use_rslora", false}};
  write_file_atomic(folder / "adapter_config.json", config.dump(2) + "\n");
}

}  // namespace kvscope::engine
