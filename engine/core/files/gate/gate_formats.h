#pragma once
// One reader a format. Each fills config, dims, tensors and, if the file has one, description; load_gate does the rest.
// `known` are the sizes of the model where it is given: a tensor of another shape is refused by its own name.

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/core/files/gate/gate_file.h"
#include "engine/core/files/gate/gate_source.h"
#include "engine/core/files/weights/safetensors.h"
#include "engine/core/support/json_file.h"

namespace kvscope {

GateFile read_kvscope_gate(const std::filesystem::path& folder, const GateDims& known);
GateFile read_gate_mapping(const std::filesystem::path& folder, const GateDims& known);
GateFile read_kvpop_scorer(const std::filesystem::path& folder, const GateDims& known);
GateFile read_duo_gate(const std::filesystem::path& folder, const GateDims& known);
/// `file` is a head file of our own (heads_json.cpp), of which is_heads_json() holds.
GateFile read_heads_gate(const std::filesystem::path& file, const GateDims& known);
bool is_heads_json(const std::filesystem::path& file);
GateFile read_dms_gate(const std::filesystem::path& folder, const GateDims& known);
GateFile read_kvzap_gate(const std::filesystem::path& folder, const GateDims& known);
/// `file` is a .pt or a .safetensors file.
GateFile read_wg_kv_gate(const std::filesystem::path& file, const GateDims& known);
/// `file` is a .safetensors file of which is_stacked_wg_kv() holds.
GateFile read_stacked_wg_kv_gate(const std::filesystem::path& file, const GateDims& known);
bool is_stacked_wg_kv(const std::map<std::string, TensorEntry>& tensors);

/// What the readers share. read_stacked takes the tensors of gate.config.kind, stacked over layers under their own
/// names, and refuses any other; check_version the "format" and "version" of our own JSON files.
void read_stacked(const GateSource& source, GateSizes& sizes, GateFile& gate);
void check_version(const JsonObject& json, const char* format);
std::string gate_description(const GateFile& gate);

/// Whether config.json, already read, is that of a DMS model or of KVzap.
bool is_dms_config(const nlohmann::json& config);
bool is_kvzap_config(const nlohmann::json& config);

inline constexpr char kGateJson[] = "gate.json";
inline constexpr char kGateTensors[] = "gate.safetensors";
inline constexpr char kMappingJson[] = "gate_mapping.json";
inline constexpr char kKvpopJson[] = "kvpop_scorer.json";
inline constexpr char kKvpopTensors[] = "kvpop_scorer.safetensors";
inline constexpr char kDuoTable[] = "full_attention_heads.tsv";
inline constexpr char kDmsMetadata[] = "dms_metadata.json";
inline constexpr char kConfigJson[] = "config.json";

}  // namespace kvscope
