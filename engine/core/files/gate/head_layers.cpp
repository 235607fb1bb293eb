// Formats that know whole layers alone: layer_types of Hugging Face's configurations, which vLLM reads too, and the
// block_configs of DeciLM.
//
//     {"layer_types": ["full_attention", "sliding_attention"], "sliding_window": 64, "use_sliding_window": true}
//     {"block_configs": [{"attention": {"n_heads_in_group": 2, "window_length": 64, "num_sink_tokens": 4, ...}}]}
//
// Qwen's configurations drop the window unless use_sliding_window is true. Key k is visible to query q if q - k is less
// than sliding_window, as in our window.

#include <limits>

#include "engine/core/files/gate/head_formats.h"
#include "engine/core/support/refuse.h"

namespace kvscope {
namespace {

using nlohmann::json;

constexpr int kMaxTokens = 1 << 30;
constexpr int kMaxHeads = 4096;
constexpr char kFull[] = "full_attention", kSliding[] = "sliding_attention";

/// One flag a layer. Throws Error (usage) at the first layer that has both kinds of heads.
std::vector<bool> whole_layers(const HeadSelection& heads, std::string_view format) {
  std::vector<bool> full;
  for (int layer = 0; layer < heads.n_layers; ++layer) {
    int n = 0;
    for (int head = 0; head < heads.n_kv_heads; ++head)
      n += heads.full[static_cast<std::size_t>(layer) * heads.n_kv_heads + head] >= 0.5f;
    if (n != 0 && n != heads.n_kv_heads)
      throw Error({.code = ExitCode::usage,
                   .file = std::string(format),
                   .where = "layer " + std::to_string(layer),
                   .found = std::to_string(n) + " of " + std::to_string(heads.n_kv_heads) + " heads are global",
                   .expected = "all or none: this format stores whole layers only",
                   .hint = "use strategy a or b, or duo:, headkv: or json:, which store single heads"});
    full.push_back(n != 0);
  }
  return full;
}

void check_window(const HeadChoice& choice, std::string_view format) {
  if (choice.sizes.window >= 1) return;
  throw Error({.code = ExitCode::usage,
               .file = std::string(format),
               .where = "window",
               .found = std::to_string(choice.sizes.window),
               .expected = "1 or more tokens"});
}

HeadSelection of_layers(const std::vector<bool>& full, int n_kv_heads) {
  HeadSelection heads{.n_layers = static_cast<int>(full.size()),
                      .n_kv_heads = n_kv_heads,
                      .coverage = std::numeric_limits<double>::quiet_NaN(),
                      .rule = "file"};
  for (const bool layer : full) heads.full.insert(heads.full.end(), static_cast<std::size_t>(n_kv_heads), layer);
  return heads;
}

int kv_heads(const JsonObject& config, const HeadShape& model) {
  if (config.has("num_key_value_heads")) return static_cast<int>(config.integer("num_key_value_heads", 1, kMaxHeads));
  if (model.n_kv_heads > 0) return model.n_kv_heads;
  refuse(config.file(), "num_key_value_heads", "missing", "the number of KV heads", "name the model");
}

const json& list_of(const json& config, const std::string& file, const char* key) {
  const auto found = config.is_object() ? config.find(key) : config.end();
  if (found == config.end() || !found->is_array()) refuse(file, key, "missing, or not a list", "one entry per layer");
  return *found;
}

}  // namespace

std::vector<FileToWrite> write_layer_types(const HeadChoice& choice, const std::filesystem::path& path) {
  check_window(choice, "hf");
  nlohmann::ordered_json types = nlohmann::ordered_json::array();
  for (const bool full : whole_layers(choice.selection, "hf")) types.push_back(full ? kFull : kSliding);
  const nlohmann::ordered_json fragment = {
      {"layer_types", types}, {"sliding_window", choice.sizes.window}, {"use_sliding_window", true}};
  return {{path, fragment.dump(2) + "\n"}};
}

std::vector<std::string> layer_types_losses(const HeadChoice& choice) {
  if (choice.sizes.n_sink == 0) return {};
  return {"sliding layers of Hugging Face have no sinks: the first " + std::to_string(choice.sizes.n_sink) +
          " tokens are not kept there"};
}

HeadFile read_layer_types(const std::filesystem::path& path, const HeadShape& model) {
  const json found = read_json(path);
  const std::string file = path.string();
  const json& types = list_of(found, file, "layer_types");
  check_layers(types.size(), model, file, "layer_types");
  std::vector<bool> full;
  for (const json& type : types) {
    const std::string name = type.is_string() ? type.get<std::string>() : type.dump();
    if (name != kFull && name != kSliding)
      refuse(file, "layer_types[" + std::to_string(full.size()) + "]", in_quotes(name, 40),
             std::string(kFull) + " or " + kSliding);
    full.push_back(name == kFull);
  }
  const JsonObject config(found, file);
  if (!config.boolean_or("use_sliding_window", true))
    refuse(file, "use_sliding_window", "false", "true: otherwise there is no window and every layer is full");
  HeadFile heads{.selection = of_layers(full, kv_heads(config, model)),
                 .threshold = 0.5,
                 .n_sink = 0,
                 .window = static_cast<int>(config.integer("sliding_window", 1, kMaxTokens)),
                 .group_size = model.group_size(),
                 .files = {path}};
  check_shape(heads, model, file);
  return heads;
}

std::vector<FileToWrite> write_block_configs(const HeadChoice& choice, const std::filesystem::path& path) {
  check_window(choice, "block");
  if (choice.group_size < 1)
    throw Error({.code = ExitCode::usage,
                 .file = "block",
                 .where = "n_heads_in_group",
                 .found = "a model with an unknown number of query heads",
                 .expected = "runs or a model that give the number"});
  const int n_sink = choice.sizes.n_sink;
  nlohmann::ordered_json blocks = nlohmann::ordered_json::array();
  for (const bool full : whole_layers(choice.selection, "block")) {
    const bool sinks = !full && n_sink > 0;
    const auto number = [](bool there, int value) {
      return there ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
    };
    // A window with sinks is a mask of its own, in the prefill too, only if the sinks keep their positions.
    blocks.push_back({{"attention",
                       {{"no_op", false},
                        {"replace_with_linear", false},
                        {"sparsify", nullptr},
                        {"n_heads_in_group", choice.group_size},
                        {"window_length", number(!full, choice.sizes.window)},
                        {"num_sink_tokens", number(sinks, n_sink)},
                        {"use_prefill_window_in_sink_attention", false},
                        {"unshifted_sink", sinks}}}});
  }
  return {{path, nlohmann::ordered_json{{"block_configs", blocks}}.dump(2) + "\n"}};
}

namespace {

struct Block {
  int group_size = 0, window = 0, n_sink = 0;  // window 0: full
};

Block read_block(const json& entry, const std::string& file, const std::string& where) {
  const auto found = entry.is_object() ? entry.find("attention") : entry.end();
  if (found == entry.end()) refuse(file, where, "no \"attention\"", "its configuration");
  const JsonObject attention(*found, file, where + ".attention");
  for (const char* other : {"no_op", "replace_with_linear"})
    if (attention.boolean_or(other, false))
      refuse(file, where + ".attention." + other, "true", "a layer with KV heads");
  if (attention.has("sparsify"))
    refuse(file, where + ".attention.sparsify", "set", "null: KVScope does not compute sparse attention of this kind");
  return {.group_size = static_cast<int>(attention.integer("n_heads_in_group", 1, kMaxHeads)),
          .window = static_cast<int>(attention.integer_or("window_length", 0, 1, kMaxTokens)),
          .n_sink = static_cast<int>(attention.integer_or("num_sink_tokens", 0, 0, kMaxTokens))};
}

}  // namespace

HeadFile read_block_configs(const std::filesystem::path& path, const HeadShape& model) {
  const json found = read_json(path);
  const std::string file = path.string();
  const json& blocks = list_of(found, file, "block_configs");
  check_layers(blocks.size(), model, file, "block_configs");
  const JsonObject config(found, file);
  const int n_heads = static_cast<int>(config.integer_or("num_attention_heads", model.n_heads, 1, kMaxHeads));
  std::vector<bool> full;
  Block common;
  for (const json& entry : blocks) {
    const std::string where = "block_configs[" + std::to_string(full.size()) + "]";
    const Block block = read_block(entry, file, where);
    if (common.group_size != 0 && block.group_size != common.group_size)
      refuse(file, where + ".attention.n_heads_in_group", std::to_string(block.group_size),
             std::to_string(common.group_size) +
                 ", as in the layers before: all layers must have the same number of KV heads");
    common.group_size = block.group_size;
    full.push_back(block.window == 0);
    if (block.window == 0) continue;
    if (common.window != 0 && (block.window != common.window || block.n_sink != common.n_sink))
      refuse(file, where + ".attention.window_length",
             std::to_string(block.window) + " with " + std::to_string(block.n_sink) + " sinks",
             std::to_string(common.window) + " with " + std::to_string(common.n_sink) +
                 ", as in the layers before: all local heads must have the same window");
    common.window = block.window, common.n_sink = block.n_sink;
  }
  if (n_heads % common.group_size != 0)
    refuse(file, "n_heads_in_group", std::to_string(common.group_size),
           "a divisor of " + std::to_string(n_heads) + " query heads");
  const int n_kv_heads = n_heads > 0 ? n_heads / common.group_size : model.n_kv_heads;
  if (n_kv_heads == 0) refuse(file, "num_attention_heads", "missing", "the number of query heads", "name the model");
  HeadFile heads{
      .selection = of_layers(full, n_kv_heads), .threshold = 0.5, .group_size = common.group_size, .files = {path}};
  if (common.window > 0) heads.n_sink = common.n_sink, heads.window = common.window;
  check_shape(heads, model, file);
  return heads;
}

}  // namespace kvscope
