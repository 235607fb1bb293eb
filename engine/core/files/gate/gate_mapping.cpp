// gate_mapping.json: a gate under names that nobody has told us yet, beside its weights.
//
//     {"format": "kvscope-gate-mapping", "version": 1, "kind": "sp_kv", "threshold": 0.5, ...,
//      "files": ["x.safetensors"],
//      "tensors": {"w1": "model.layers.{layer}.predictor.up.weight", ...}, "transpose": ["w1"]}
//
// A name with {layer} is one tensor a layer; one without is stacked over layers. b1 and b2 may be left out: zeros.
// Axes of size 1 at a shape's end do not count ([H, M, 1] of a convolution is [H, M]).

#include <algorithm>
#include <set>

#include "engine/core/files/gate/gate_config.h"
#include "engine/core/files/gate/gate_formats.h"
#include "engine/core/files/gate/gate_source.h"
#include "engine/core/support/error.h"

namespace kvscope {
namespace {

constexpr std::string_view kLayer = "{layer}";

class Mapping {
 public:
  Mapping(const std::filesystem::path& folder, const GateDims& known)
      : folder_(folder),
        file_((folder / kMappingJson).string()),
        json_(read_json(folder / kMappingJson)),
        object_(json_, file_),
        known_(known) {}

  GateFile read() {
    check_version(object_, "kvscope-gate-mapping");
    GateFile gate{.config =
                      read_gate_config(object_, {"format", "version", "description", "files", "tensors", "transpose"})};
    gate.description = object_.text_or("description", "");
    read_names();
    sizes_ = GateSizes(known_, gate.config.n_hidden, gate.config.kernel);
    // Where a hidden layer is optional it follows from the tensors, how wide it is from their shapes.
    if (info_of(gate.config.kind).hidden == GateKindInfo::Hidden::optional)
      gate.config.n_hidden = names_.contains("w1") ? 1 : 0;
    check_kernel(gate.config, file_);
    std::vector<GateTensorSpec> specs = gate_tensor_specs(gate.config);
    for (const GateTensorSpec& spec : info_of(gate.config.kind).may_have) {
      if (names_.contains(spec.name)) specs.push_back(spec);
    }
    if (specs.empty()) fail("kind", "a kind without tensors", "one with tensors to map");
    check_names(specs);

    const GateSource source(files());
    sizes_.check_layers(count(source), source.file());
    // Biases last: by then the sizes of those that are left out are known.
    for (const bool biases : {false, true}) {
      for (const GateTensorSpec& spec : specs) {
        if ((spec.name[0] == 'b') == biases) gate.tensors[spec.name] = read_tensor(source, spec);
      }
    }
    gate.config.n_hidden = has_hidden_layer(gate.config) ? static_cast<int>(sizes_.n_hidden()) : 0;
    gate.dims = sizes_.dims();
    gate.warnings = source.warnings();
    return gate;
  }

 private:
  [[noreturn]] void fail(std::string where, std::string found, std::string expected) const {
    throw Error({.file = file_, .where = std::move(where), .found = std::move(found), .expected = std::move(expected)});
  }

  std::vector<std::string> list(const char* key) const {
    std::vector<std::string> out;
    if (!json_.contains(key)) return out;
    if (!json_[key].is_array()) fail(key, "not a list", "a list of texts");
    for (const auto& item : json_[key]) {
      if (!item.is_string()) fail(key, "an item that is not a text", "a list of texts");
      out.push_back(item.get<std::string>());
    }
    return out;
  }

  void read_names() {
    if (!json_.contains("tensors")) fail("tensors", "missing", "an object of names");
    const JsonObject tensors(json_["tensors"], file_, "tensors");
    for (const auto& [key, value] : json_["tensors"].items()) names_[key] = tensors.text(key);
    for (const std::string& name : list("transpose")) transpose_.insert(name);
  }

  void check_names(std::span<const GateTensorSpec> specs) const {
    const auto in_specs = [&](const std::string& name) {
      return std::any_of(specs.begin(), specs.end(), [&](const GateTensorSpec& spec) { return name == spec.name; });
    };
    for (const auto& [key, value] : names_) {
      if (!in_specs(key)) fail("tensors." + escape_for_terminal(key, 40), "no tensor of this kind", list_of(specs));
    }
    for (const std::string& name : transpose_) {
      if (!names_.contains(name)) fail("transpose", in_quotes(name, 40), "names listed in \"tensors\"");
    }
    for (const GateTensorSpec& spec : specs) {
      if (spec.name[0] != 'b' && !names_.contains(spec.name)) {
        fail(std::string("tensors.") + spec.name, "missing",
             "its name in the file, of shape [" + layer_shape(spec) + "]");
      }
    }
  }

  static std::string list_of(std::span<const GateTensorSpec> specs) {
    std::string text;
    for (const GateTensorSpec& spec : specs) text += (text.empty() ? "" : ", ") + std::string(spec.name);
    return text;
  }

  /// Inside the folder: a mapping could otherwise have any file of the machine read.
  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> out;
    for (const std::string& name : list("files")) {
      const std::filesystem::path path(name);
      bool leads_out = name.empty() || path.is_absolute() || name.find('\0') != name.npos;
      for (const auto& part : path) leads_out = leads_out || part == "..";
      if (leads_out) fail("files", in_quotes(name) + " points outside the folder", "a file inside it");
      out.push_back(folder_ / path);
    }
    if (out.empty()) fail("files", "missing or empty", "the weights' files");
    return out;
  }

  std::int64_t count(const GateSource& source) const {
    for (const auto& [key, name] : names_) {
      const std::size_t at = name.find(kLayer);
      if (at == name.npos) {
        const auto& shape = source.find(name, "L ...").shape;
        if (!shape.empty() && shape[0] > 0) return shape[0];
        continue;
      }
      const std::int64_t n = count_layers(source, name.substr(0, at), name.substr(at + kLayer.size()));
      if (n == 0) {
        throw Error({.file = source.file(), .where = name, .found = "tensor missing in every layer", .expected = key});
      }
      return n;
    }
    fail("tensors", "nothing with layers", "names with {layer}");
  }

  GateTensor read_tensor(const GateSource& source, const GateTensorSpec& spec) {
    if (!names_.contains(spec.name)) return zeros(spec, sizes_);
    const std::string pattern = names_.at(spec.name);
    const TensorLayout layout{.transpose = transpose_.contains(spec.name), .trailing_ones = true};
    const std::size_t at = pattern.find(kLayer);
    if (at == pattern.npos) return kvscope::read_tensor(source, pattern, spec.shape, sizes_, layout);
    const auto name = [&](std::int64_t layer) {
      return pattern.substr(0, at) + std::to_string(layer) + pattern.substr(at + kLayer.size());
    };
    return stack_layers(source, name, layer_shape(spec), spec, sizes_, layout);
  }

  const std::filesystem::path& folder_;
  std::string file_;
  nlohmann::json json_;
  JsonObject object_;
  GateDims known_;
  GateSizes sizes_;
  std::map<std::string, std::string> names_;  // standard name -> pattern
  std::set<std::string> transpose_;
};

}  // namespace

GateFile read_gate_mapping(const std::filesystem::path& folder, const GateDims& known) {
  return Mapping(folder, known).read();
}

}  // namespace kvscope
