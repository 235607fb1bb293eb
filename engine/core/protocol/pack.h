#pragma once
// Numbers and bytes of messages as CBOR byte strings of little-endian int32 or float32.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <vector>

#include "engine/core/record/run_record.h"

namespace kvscope::protocol {

nlohmann::json pack(std::span<const std::int32_t> values);
nlohmann::json pack(std::span<const float> values);
/// {bytes, offsets: i32}
nlohmann::json pack(const BytePool& pool);

/// They throw Error that names message and field.
std::vector<std::int32_t> unpack_i32(const nlohmann::json& message, const char* key);
std::vector<float> unpack_f32(const nlohmann::json& message, const char* key);
BytePool unpack_pool(const nlohmann::json& message, const char* key);

}  // namespace kvscope::protocol
