// kvscope models: what this machine has, by the names that are taken wherever MODEL stands.

#include <cstdio>

#include "app/catalog/gates.h"
#include "app/catalog/models.h"
#include "app/cli/arguments.h"
#include "app/cli/output.h"
#include "engine/core/files/weights/model_config.h"
#include "engine/core/support/error.h"

namespace kvscope::app {
namespace {

using nlohmann::ordered_json;

constexpr OptionSpec kModelsOptions[] = {{"json", "", "one object per model"}};

ordered_json to_json(const KnownModel& model) {
  ordered_json json = {{"name", model.name}, {"origin", model.origin}};
  if (model.path.empty()) {
    json["path"] = nullptr;
    json["how"] = model.how;
    return json;
  }
  json["path"] = model.path.string();
  try {
    const ModelConfig config = ModelConfig::load(model.path);
    json.update({{"architecture", config.family->architecture},
                 {"layers", config.n_layers},
                 {"kv_heads", config.n_kv_heads},
                 {"head_dim", config.head_dim},
                 {"max_positions", config.max_positions}});
  } catch (const Error& error) {
    json["cannot_be_read"] = error.what();
  }
  ordered_json gates = ordered_json::array();
  for (const KnownGate& gate : known_gates(model.name, model.path))
    gates.push_back({{"name", gate.name}, {"path", gate.path.string()}});
  json["gates"] = std::move(gates);
  return json;
}

std::vector<std::string> model_row(const ordered_json& model) {
  if (model["path"].is_null())
    return {model["name"].get<std::string>(), "not found", "", model["how"].get<std::string>()};
  std::string shape = "cannot be read";
  if (model.contains("layers")) {
    shape = model["architecture"].get<std::string>() + ", " + model["layers"].dump() + " x " +
            model["kv_heads"].dump() + " heads of " + model["head_dim"].dump() + ", context " +
            model["max_positions"].dump();
  }
  return {escape_for_terminal(model["name"].get<std::string>()), shape, std::to_string(model["gates"].size()),
          escape_for_terminal(model["path"].get<std::string>())};
}

int models(const Arguments& arguments) {
  std::vector<std::vector<std::string>> rows = {{"name", "model", "gates", "path"}};
  for (const KnownModel& model : known_models()) {
    const ordered_json json = to_json(model);
    if (arguments.has("json")) {
      write_json_line(json);
    } else {
      rows.push_back(model_row(json));
    }
  }
  if (!arguments.has("json")) std::fputs(format_table(rows).c_str(), stdout);
  return 0;
}

}  // namespace

extern const CommandSpec models_command = {
    "models",
    "[--json]",
    "list the models on this machine",
    "You can give one of these names as MODEL: the models that ./setup fetches, the tiny sample, and those in the "
    "Hugging Face cache ($HF_HUB_CACHE, $HUGGINGFACE_HUB_CACHE, $HF_HOME/hub or ~/.cache/huggingface/hub). If a "
    "folder of that name exists, the folder is used.",
    "  kvscope models\n"
    "  kvscope run smollm2-135m --chat --prompt \"What is a key-value cache?\"",
    {0, 0},
    kModelsOptions,
    models};

}  // namespace kvscope::app
