// Our own format: gate.json with the numbers, gate.safetensors with the tensors under the names of gate_file.h.

#include <bit>
#include <deque>
#include <optional>
#include <set>

#include "engine/core/files/gate/gate_config.h"
#include "engine/core/files/gate/gate_formats.h"
#include "engine/core/files/gate/gate_source.h"
#include "engine/core/files/weights/safetensors.h"
#include "engine/core/support/file.h"
#include "engine/core/support/output_folder.h"
#include "engine/core/support/refuse.h"

namespace kvscope {
namespace {

constexpr std::int64_t kVersion = 1, kMaxSize = 1 << 20;
constexpr const char* kDimNames[] = {"n_layers", "n_kv_heads", "head_dim", "hidden_size"};

GateDims read_dims(const JsonObject& json) {
  const auto size = [&](const char* key) { return json.integer_or(key, 0, 1, kMaxSize); };
  return {size(kDimNames[0]), size(kDimNames[1]), size(kDimNames[2]), size(kDimNames[3])};
}

/// Ties to even, as every library rounds; gates are finite.
std::vector<std::uint16_t> nearest_bf16(const std::vector<float>& values) {
  std::vector<std::uint16_t> out;
  out.reserve(values.size());
  for (const float value : values) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    out.push_back(static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16));
  }
  return out;
}

[[noreturn]] void fail_to_save(const std::filesystem::path& folder, std::string found) {
  throw Error({.code = ExitCode::internal, .file = folder.string(), .found = std::move(found)});
}

}  // namespace

void check_version(const JsonObject& json, const char* format) {
  if (const std::string found = json.text("format"); found != format) {
    throw Error({.file = json.file(), .where = "format", .found = in_quotes(found, 40), .expected = format});
  }
  if (const std::int64_t version = json.integer("version", 1, 1 << 30); version != kVersion) {
    refuse(json.file(), "version", std::to_string(version), std::to_string(kVersion),
           "the file was written by a newer program");
  }
}

void read_stacked(const GateSource& source, GateSizes& sizes, GateFile& gate) {
  const auto specs = gate_tensor_specs(gate.config);
  for (const GateTensorSpec& spec : specs) {
    const GateSource::Item& item = source.find(spec.name, spec.shape);
    if (!item.shape.empty() && item.shape[0] > 0) sizes.check_layers(item.shape[0], item.file);
    gate.tensors[spec.name] = read_tensor(source, spec.name, spec.shape, sizes);
  }
  for (const GateTensorSpec& spec : info_of(gate.config.kind).may_have) {
    if (source.items().contains(spec.name)) gate.tensors[spec.name] = read_tensor(source, spec.name, spec.shape, sizes);
  }
  for (const auto& [name, item] : source.items()) {
    if (gate.tensors.contains(name)) continue;
    refuse(item.file, name, "a tensor that " + std::string(name_of(gate.config.kind)) + " does not have",
           std::to_string(specs.size()) + " tensors; see docs/reference/gates.md");
  }
  gate.config.n_hidden = has_hidden_layer(gate.config) ? static_cast<int>(sizes.n_hidden()) : 0;
  gate.dims = sizes.dims();
}

GateFile read_kvscope_gate(const std::filesystem::path& folder, const GateDims& known) {
  const std::filesystem::path path = folder / kGateJson;
  const nlohmann::json json = read_json(path);
  const JsonObject object(json, path.string());
  check_version(object, "kvscope-gate");
  std::set<std::string> others = {"format", "version", "description"};
  others.insert(std::begin(kDimNames), std::end(kDimNames));
  GateFile gate{.config = read_gate_config(object, others)};
  gate.description = object.text_or("description", "");
  gate.dims = read_dims(object);
  check_dims(gate.dims, known, path.string());
  if (gate_tensor_specs(gate.config).empty()) return gate;
  check_kernel(gate.config, path.string());
  GateSizes sizes(merge(gate.dims, known), gate.config.n_hidden, gate.config.kernel);
  read_stacked(GateSource(folder / kGateTensors), sizes, gate);
  return gate;
}

void save_gate(const std::filesystem::path& folder, const GateFile& gate, bool replace, GateTensorType type) {
  std::vector<GateTensorSpec> specs = gate_tensor_specs(gate.config);
  for (const GateTensorSpec& spec : info_of(gate.config.kind).may_have) {
    if (gate.tensors.contains(spec.name)) specs.push_back(spec);
  }
  if (gate.tensors.size() != specs.size()) {
    fail_to_save(folder, "a gate of " + std::to_string(gate.tensors.size()) + " tensors to save");
  }
  GateSizes sizes(gate.dims, gate.config.n_hidden, gate.config.kernel);
  std::vector<TensorToWrite> tensors;
  std::deque<std::vector<std::uint16_t>> rounded;  // alive until written
  for (const GateTensorSpec& spec : specs) {
    const auto tensor = gate.tensors.find(spec.name);
    if (tensor == gate.tensors.end()) fail_to_save(folder, std::string("a gate without ") + spec.name + " to save");
    sizes.check(spec.shape, tensor->second.shape, folder.string(), spec.name);
    const auto& [shape, values] = tensor->second;
    if (type == GateTensorType::f32) {
      tensors.push_back({spec.name, TensorType::f32, shape, std::as_bytes(std::span(values))});
    } else {
      rounded.push_back(nearest_bf16(values));
      tensors.push_back({spec.name, TensorType::bf16, shape, std::as_bytes(std::span(rounded.back()))});
    }
  }
  nlohmann::ordered_json json = {{"format", "kvscope-gate"}, {"version", kVersion}};
  json.update(gate_config_json(gate.config));
  const std::int64_t dims[] = {gate.dims.n_layers, gate.dims.n_kv_heads, gate.dims.head_dim, gate.dims.hidden_size};
  for (std::size_t i = 0; i < std::size(dims); ++i) {
    if (dims[i] > 0) json[kDimNames[i]] = dims[i];
  }
  json["description"] = gate.description;

  const OutputFolder made(folder);
  // The tensors first: whoever finds gate.json finds them too. Half of another gate would be a damaged one.
  std::vector<AtomicFile*> files;
  std::optional<AtomicFile> weights;
  if (!tensors.empty()) {
    files.push_back(&weights.emplace(folder / kGateTensors, replace));
    write_safetensors(*weights, tensors, {{"kind", std::string(name_of(gate.config.kind))}});
  }
  AtomicFile numbers(folder / kGateJson, replace);
  numbers.write(json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  files.push_back(&numbers);
  commit_together(files);
}

}  // namespace kvscope
