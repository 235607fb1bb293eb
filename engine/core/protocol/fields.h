#pragma once
// Checked fields of messages; private to engine/core/protocol. Every function throws Error (resource) that names message
// and field: another program wrote it.

#include "engine/core/record/run_fields.h"
#include "engine/core/support/checked_fields.h"

namespace kvscope::protocol {

using fields::bad_field;
using fields::boolean;
using fields::field;
using fields::fields_from_json;
using fields::fields_to_json;
using fields::integer;
using fields::number;
using fields::text;
using fields::text_or_empty;
using fields::texts;
using fields::unsigned_integer;

/// The inverse of pack(BytePool).
BytePool unpack_pool(const nlohmann::json& message, const char* key);
/// The rows of every head one after the other; and back, rows of n each: another number of them is refused.
nlohmann::json pack_rows(const HeadSeries<float>& series);
HeadSeries<float> unpack_rows(const nlohmann::json& message, const char* key, int n_layers, int n_kv_heads,
                              std::int64_t n);

}  // namespace kvscope::protocol
