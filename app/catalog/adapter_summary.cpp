#include "app/catalog/adapter_summary.h"

#include <algorithm>
#include <map>
#include <set>

#include "engine/core/files/weights/lora_file.h"
#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"

namespace kvscope::app {
namespace {

using nlohmann::ordered_json;

/// The key's value as the file has it, cut short; null if it has none.
ordered_json value_of(const nlohmann::json& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end()) return nullptr;
  const std::string text = found->is_string() ? found->get<std::string>() : found->dump();
  if (found->is_string() || text.size() > 200) return escape_for_terminal(text);
  return ordered_json::parse(text);
}

/// "self_attn.q_proj" with the layers that have a change of it, and its rank and scale; those of "3 to 5" if they differ.
void add_modules(const LoraFile& adapter, ordered_json& result) {
  std::map<std::string, ordered_json> modules;
  std::set<int> layers;
  std::int64_t parameters = 0;
  for (const auto& [matrix, pair] : adapter.pairs()) {
    std::string name = matrix.substr(0, matrix.size() - std::string_view(".weight").size());
    constexpr std::string_view kLayers = "model.layers.";
    if (name.starts_with(kLayers)) {
      layers.insert(std::atoi(name.c_str() + kLayers.size()));
      name = name.substr(name.find('.', kLayers.size()) + 1);
    }
    ordered_json& module = modules[name];
    if (module.is_null())
      module = {{"matrices", 0}, {"ranks", ordered_json::array()}, {"scales", ordered_json::array()}};
    module["matrices"] = module["matrices"].get<int>() + 1;
    for (const auto& [key, value] :
         {std::pair("ranks", ordered_json(pair.a->shape[0])), std::pair("scales", ordered_json(pair.scale))}) {
      if (std::ranges::find(module[key], value) == module[key].end()) module[key].push_back(value);
    }
    parameters += pair.a->n_elements() + pair.b->n_elements();
  }
  result["layers"] = std::vector<int>(layers.begin(), layers.end());
  result["parameters"] = parameters;
  result["dtype"] = adapter.pairs().begin()->second.a->type_name;
  result["modules"] = modules;
}

}  // namespace

ordered_json adapter_summary(const std::filesystem::path& folder) {
  const nlohmann::json config = read_json(folder / "adapter_config.json");
  const SafetensorsFile tensors = SafetensorsFile::open(folder / "adapter_model.safetensors");
  if (!config.is_object())
    throw Error(
        {.file = (folder / "adapter_config.json").string(), .found = config.type_name(), .expected = "an object"});
  ordered_json result = {{"kind", "adapter"},
                         {"method", value_of(config, "peft_type")},
                         {"base", value_of(config, "base_model_name_or_path")},
                         {"rank", value_of(config, "r")},
                         {"alpha", value_of(config, "lora_alpha")},
                         {"target_modules", value_of(config, "target_modules")},
                         {"tensors", tensors.tensors().size()},
                         {"bytes", tensors.file_size()},
                         {"refused", nullptr}};
  try {
    const LoraFile adapter = LoraFile::open(folder);
    add_modules(adapter, result);
    adapter.check_values();
    result["hash"] = adapter.hash();
  } catch (const Error& error) {
    result["refused"] = error.what();
  }
  return result;
}

}  // namespace kvscope::app
