#include "engine/core/files/weights/lora_file.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/core/support/error.h"
#include "engine/core/support/hash.h"
#include "engine/core/support/json_file.h"
#include "engine/core/support/text.h"

namespace kvscope {
namespace {

namespace fs = std::filesystem;

constexpr char kConfig[] = "adapter_config.json", kTensors[] = "adapter_model.safetensors";
constexpr std::string_view kBefore = "base_model.model.", kA = ".lora_A.weight", kB = ".lora_B.weight";
constexpr int kMaxRank = 4096;

/// Keys under which PEFT says that an adapter is more than a sum, with the values under which it is not.
void check_plain(const JsonObject& config) {
  const auto refuse = [&](const char* key, const std::string& expected) {
    throw Error({.file = config.file(), .where = key, .found = config.raw().at(key).dump(), .expected = expected});
  };
  if (config.text("peft_type") != "LORA") refuse("peft_type", "\"LORA\"");
  if (config.text_or("bias", "none") != "none") refuse("bias", "\"none\"");
  for (const char* key : {"use_dora", "fan_in_fan_out", "lora_bias", "use_qalora"}) {
    if (config.has(key) && config.raw().at(key) != false) refuse(key, "false");
  }
  for (const char* key : {"modules_to_save", "rank_pattern", "alpha_pattern", "target_parameters", "layer_replication",
                          "trainable_token_indices"}) {
    if (config.has(key) && !config.raw().at(key).empty()) refuse(key, "nothing");
  }
}

}  // namespace

bool LoraFile::is_there(const fs::path& folder) {
  std::error_code none;
  return fs::exists(folder / kConfig, none);
}

LoraFile LoraFile::open(const fs::path& folder) {
  const nlohmann::json json = read_json(folder / kConfig);
  if (!json.is_object()) {
    throw Error({.file = (folder / kConfig).string(), .found = json.type_name(), .expected = "an object"});
  }
  const JsonObject config(json, (folder / kConfig).string());
  check_plain(config);
  LoraFile adapter(SafetensorsFile::open(folder / kTensors));
  adapter.rank_ = static_cast<int>(config.integer("r", 1, kMaxRank));
  const double alpha = config.number_or("lora_alpha", adapter.rank_, 0, 1e6);
  adapter.scale_ = alpha / (config.boolean_or("use_rslora", false) ? std::sqrt(adapter.rank_) : adapter.rank_);
  const fs::path whole = fs::absolute(folder).lexically_normal();
  adapter.name_ = (whole.has_filename() ? whole : whole.parent_path()).filename().string();
  adapter.find_pairs();
  return adapter;
}

std::string LoraFile::hash() const {
  Fnv1a hash;
  hash.add(number_text(scale_, 17));
  hash.add(file_.header());
  std::vector<std::byte> bytes;
  for (const auto& [name, entry] : file_.tensors()) {
    bytes.resize(entry.end - entry.begin);
    file_.read(entry, bytes);
    hash.add({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  return hash.hex();
}

void LoraFile::find_pairs() {
  const auto refuse = [&](const std::string& where, std::string found, std::string expected) {
    throw Error(
        {.file = file_.path().string(), .where = where, .found = std::move(found), .expected = std::move(expected)});
  };
  for (const auto& [name, entry] : file_.tensors()) {
    const bool is_a = name.ends_with(kA), is_b = name.ends_with(kB);
    if (!name.starts_with(kBefore) || (!is_a && !is_b)) {
      refuse(name, "a tensor of another kind", std::string(kBefore) + "NAME" + std::string(kA) + " and lora_B alone");
    }
    if (entry.type == TensorType::other) refuse(name, entry.type_name, "F32, F16 or BF16");
    if (entry.shape.size() != 2 || entry.shape[is_a ? 0 : 1] != rank_) {
      refuse(name, "a shape of another rank",
             is_a ? "[" + std::to_string(rank_) + ", inputs]" : "[outputs, " + std::to_string(rank_) + "]");
    }
    const std::string matrix =
        name.substr(kBefore.size(), name.size() - kBefore.size() - (is_a ? kA : kB).size()) + ".weight";
    (is_a ? pairs_[matrix].a : pairs_[matrix].b) = &entry;
  }
  if (pairs_.empty()) refuse("", "no tensors", "lora_A and lora_B of some matrix");
  for (const auto& [matrix, pair] : pairs_) {
    if (pair.a == nullptr || pair.b == nullptr) {
      refuse(matrix, pair.a == nullptr ? "lora_B without lora_A" : "lora_A without lora_B", "both");
    }
  }
}

}  // namespace kvscope
