#pragma once
// The header of a safetensors file: JSON text to checked entries.

#include <cstdint>
#include <map>
#include <string>

#include "engine/core/files/weights/safetensors.h"

namespace kvscope {

/// Bits of one element of a type by its name in the format, 0 for a name the format does not have.
int safetensors_bits(const std::string& type_name);

struct SafetensorsHeader {
  std::map<std::string, TensorEntry> tensors;  // begin and end from the start of the data
  std::map<std::string, std::string> metadata;
};

/// Checks everything that can be checked of one entry alone: its keys, type, shape, size.
SafetensorsHeader parse_safetensors_header(const std::string& json, const std::string& file);

/// Checks that the tensors tile the data: no hole, no overlap, the last one ends where the data ends.
void check_tiling(const std::map<std::string, TensorEntry>& tensors, std::uint64_t data_bytes, const std::string& file);

}  // namespace kvscope
