#pragma once
// Checked fields of messages; private to engine/core/protocol. Every function throws Error that names message and
// field.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "engine/core/record/run_record.h"

namespace kvscope::protocol {

/// Positions and counts in messages are below this; it keeps products of sizes far from overflow.
inline constexpr std::int64_t kMaxPositions = 1 << 24;

[[noreturn]] void bad_field(const nlohmann::json& message, std::string_view key, std::string found,
                            std::string expected);

/// The field, which must be there and of that type.
const nlohmann::json& field(const nlohmann::json& message, const char* key, nlohmann::json::value_t type);
std::int64_t integer(const nlohmann::json& message, const char* key, std::int64_t min, std::int64_t max);
std::uint64_t unsigned_integer(const nlohmann::json& message, const char* key);  // all 64 bits
double number(const nlohmann::json& message, const char* key);
double number(const nlohmann::json& message, const char* key, double min, double max);  // finite
bool boolean(const nlohmann::json& message, const char* key);
std::string text(const nlohmann::json& message, const char* key);
/// The inverse of pack(BytePool).
BytePool unpack_pool(const nlohmann::json& message, const char* key);

}  // namespace kvscope::protocol
