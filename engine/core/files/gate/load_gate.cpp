#include <algorithm>
#include <bit>
#include <cmath>

#include "engine/core/files/gate/gate_config.h"
#include "engine/core/files/gate/gate_file.h"
#include "engine/core/files/gate/gate_formats.h"
#include "engine/core/files/gate/gate_kinds.h"
#include "engine/core/files/weights/safetensors.h"
#include "engine/core/support/hash.h"
#include "engine/core/support/refuse.h"

namespace kvscope {
namespace {

namespace fs = std::filesystem;

struct Format {
  const char* name;
  const char* file;  // names the format by being there; null: found otherwise
  GateFile (*read)(const fs::path&, const GateDims&);
  bool own_config = false;  // its folder's config.json is not a model's
  bool one_file = false;    // its reader takes a file of weights
};
/// In the order of gate_file.h; kvscope-heads is a .json file that says so (heads_json.cpp).
constexpr Format kFormats[] = {
    {"kvscope", kGateJson, read_kvscope_gate},
    {"kvscope-mapping", kMappingJson, read_gate_mapping},
    {"kvpop-scorer", kKvpopJson, read_kvpop_scorer},
    {"duo", kDuoTable, read_duo_gate, true},
    {"kvscope-heads", nullptr, read_heads_gate, false, true},
    {"dms", kDmsMetadata, read_dms_gate},
    {"kvzap", nullptr, read_kvzap_gate, true},
    {"wg-kv", nullptr, read_wg_kv_gate, false, true},
    {"wg-kv-stacked", nullptr, read_stacked_wg_kv_gate, false, true},
};

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

bool is_weights(const fs::path& path) {
  return path.extension() == ".pt" || path.extension() == ".pth" || path.extension() == ".safetensors";
}

/// The .pt and .safetensors files of a folder, sorted; not those of an adapter (lora_file.h), which may stand beside a gate or alone.
std::vector<fs::path> weights_of(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code error;
  for (const auto& item : fs::directory_iterator(folder, error)) {
    if (is_weights(item.path()) && !item.path().filename().string().starts_with("adapter_")) out.push_back(item.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::optional<std::string> format_of_file(const fs::path& path) {
  for (const Format& format : kFormats) {
    if (format.file && path.filename() == format.file) return format.name;
  }
  if (path.extension() == ".json")
    return is_heads_json(path) ? std::optional<std::string>("kvscope-heads") : std::nullopt;
  if (path.extension() == ".pt" || path.extension() == ".pth") return "wg-kv";
  if (path.extension() != ".safetensors") return std::nullopt;
  const SafetensorsFile file = SafetensorsFile::open(path);
  const auto& tensors = file.tensors();
  if (is_stacked_wg_kv(tensors)) return "wg-kv-stacked";
  const bool gate = std::any_of(tensors.begin(), tensors.end(), [](const auto& item) {
    return item.first.find(".g_predictors.") != std::string::npos;
  });
  return gate ? std::optional<std::string>("wg-kv") : std::nullopt;
}

std::optional<std::string> format_of_folder(const fs::path& folder) {
  for (const Format& format : kFormats) {
    if (format.file && is_there(folder / format.file)) return format.name;
  }
  if (is_there(folder / kConfigJson)) {
    const nlohmann::json config = read_json(folder / kConfigJson);
    if (is_dms_config(config)) return "dms";
    if (is_kvzap_config(config)) return "kvzap";
    return std::nullopt;
  }
  const auto files = weights_of(folder);
  if (files.size() == 1) return format_of_file(files[0]).value_or("wg-kv");
  return files.empty() ? std::nullopt : std::optional<std::string>("wg-kv");
}

[[noreturn]] void fail_no_gate(const fs::path& path) {
  throw Error({.file = path.string(),
               .found = is_there(path) ? "no gate" : "no such file or folder",
               .expected =
                   "gate.json, gate_mapping.json, kvpop_scorer.json, full_attention_heads.tsv, a head file of "
                   "kvscope heads, a model with dms_* in config.json, a KVzap folder, or a .pt or .safetensors file of "
                   "WG-KV"});
}

/// What stands at `path`, and the folder or file that its reader takes.
std::pair<const Format*, fs::path> find_format(const fs::path& path) {
  std::error_code error;
  const bool folder = fs::is_directory(path, error);
  auto name = folder ? format_of_folder(path) : is_there(path) ? format_of_file(path) : std::nullopt;
  // Its reader can say better what is not there.
  if (!name && !folder && is_there(path) && path.extension() == ".safetensors") name = "wg-kv";
  if (!name) fail_no_gate(path);
  const auto* format =
      std::find_if(std::begin(kFormats), std::end(kFormats), [&](const Format& f) { return *name == f.name; });
  if (!format->one_file) return {format, folder ? path : path.parent_path()};
  if (!folder) return {format, path};
  const auto files = weights_of(path);
  if (files.size() == 1) return {format, files[0]};
  refuse(path.string(), "", std::to_string(files.size()) + " files of weights",
         "one, or the path of one: " + files[0].filename().string() + ", ...");
}

/// Keeps the sizes on which the kind depends.
GateDims own_dims(const GateFile& gate) {
  std::string letters = gate_tensor_specs(gate.config).empty() ? "LH" : "";
  for (const GateTensorSpec& spec : gate_tensor_specs(gate.config)) letters += spec.shape;
  const auto keep = [&](char letter, std::int64_t size) { return letters.find(letter) == letters.npos ? 0 : size; };
  const GateDims& d = gate.dims;
  return {keep('L', d.n_layers), keep('H', d.n_kv_heads), keep('D', d.head_dim), keep('F', d.hidden_size)};
}

void check_finite(const GateFile& gate) {
  for (const auto& [name, tensor] : gate.tensors) {
    const auto odd =
        std::count_if(tensor.values.begin(), tensor.values.end(), [](float x) { return !std::isfinite(x); });
    if (odd == 0) continue;
    refuse(gate.path.string(), name,
           std::to_string(odd) + " of " + std::to_string(tensor.values.size()) + " values are not finite", "numbers");
  }
}

/// KVpop eq. 21: a token can only lose by its age.
void check_decay(const GateFile& gate) {
  const auto found = gate.tensors.find("log_gamma");
  if (found == gate.tensors.end()) return;
  for (const float x : found->second.values) {
    if (x > 0) refuse(gate.path.string(), "log_gamma", number_text(x, 6), "0 or less, the logarithm of a decay");
  }
}

/// Over the numbers as text and the tensors by 32-bit words.
std::string hash_of(const GateFile& gate) {
  Fnv1a hash;
  hash.add(gate_config_json(gate.config).dump());
  for (const auto& [name, tensor] : gate.tensors) {
    hash.add(name);
    for (const std::int64_t size : tensor.shape) hash.add_word(static_cast<std::uint64_t>(size));
    for (const float x : tensor.values) hash.add_word(std::bit_cast<std::uint32_t>(x));
  }
  return hash.hex();
}

constexpr const char* kWeightless = "weightless";

GateFile read(const fs::path& path, const GateDims& known) {
  GateFile gate;
  if (const std::optional<GateKind> kind = weightless_gate(path)) {
    gate.config = default_gate_config(*kind);
    gate.format = kWeightless;
    return gate;
  }
  const auto [format, at] = find_format(path);
  gate = format->read(at, known);
  gate.format = format->name;
  return gate;
}

GateFile load(const fs::path& path, const GateDims& known) {
  GateFile gate = read(path, known);
  gate.path = path;
  if (!has_hidden_layer(gate.config))
    gate.config.activation = Activation::identity;  // it has no say: the hash must not have one
  gate.dims = own_dims(gate);
  check_finite(gate);
  check_decay(gate);
  if (gate.description.empty()) gate.description = gate_description(gate);
  gate.hash = hash_of(gate);
  return gate;
}

}  // namespace

std::int64_t GateFile::n_parameters() const {
  std::int64_t n = 0;
  for (const auto& [name, tensor] : tensors) n += static_cast<std::int64_t>(tensor.values.size());
  return n;
}

std::string gate_description(const GateFile& gate) {
  const GateConfig& c = gate.config;
  std::string text = name_of(c.kind);
  if (gate.dims.n_layers > 0) {
    text +=
        " of " + std::to_string(gate.dims.n_layers) + " layers x " + std::to_string(gate.dims.n_kv_heads) + " KV heads";
  }
  if (c.n_hidden > 0) text += ", " + std::to_string(c.n_hidden) + " hidden units";
  if (c.kernel > 1) text += ", kernel of " + std::to_string(c.kernel) + " tokens";
  if (c.delay > 0) text += ", delay " + std::to_string(c.delay);
  if (c.mlstm.feature_map == FeatureMap::softmax) text += ", softmax feature map";
  if (c.mlstm.head_norm) text += ", head-wise norm";
  if (c.mlstm.cached_values) text += ", cached values";
  if (!c.mlstm.skip) text += ", no skip connection";
  return text + ", kept if score " + (c.strict ? "> " : ">= ") + number_text(c.threshold, 6);
}

std::optional<std::string> gate_format(const fs::path& path) {
  if (weightless_gate(path)) return kWeightless;
  std::error_code error;
  try {
    return fs::is_directory(path, error) ? format_of_folder(path)
           : is_there(path)              ? format_of_file(path)
                                         : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;  // damaged: whoever reads it will say how
  }
}

bool has_own_config(std::string_view format) {
  const auto* found =
      std::find_if(std::begin(kFormats), std::end(kFormats), [&](const Format& f) { return format == f.name; });
  return found != std::end(kFormats) && found->own_config;
}

GateFile load_gate(const fs::path& path, const ModelConfig& model) {
  return load(path, {model.n_layers, model.n_kv_heads, model.head_dim, model.hidden_size});
}

GateFile load_gate(const fs::path& path) { return load(path, {}); }

}  // namespace kvscope
