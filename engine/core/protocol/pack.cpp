// Numbers and bytes as CBOR byte strings.
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/core/protocol/fields.h"
#include "engine/core/protocol/protocol.h"

namespace kvscope::protocol {

static_assert(std::endian::native == std::endian::little, "numbers travel as they lie in memory: little-endian");
static_assert(sizeof(float) == 4 && std::numeric_limits<float>::is_iec559);

namespace {

template <typename T>
nlohmann::json pack_numbers(std::span<const T> values) {
  std::vector<std::uint8_t> bytes(values.size_bytes());
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return nlohmann::json::binary(std::move(bytes));
}

template <typename T>
std::vector<T> unpack_numbers(const nlohmann::json& message, const char* key) {
  const std::vector<std::uint8_t>& bytes = field(message, key, nlohmann::json::value_t::binary).get_binary();
  if (bytes.size() % sizeof(T) != 0) {
    bad_field(message, key, std::to_string(bytes.size()) + " bytes", "a multiple of " + std::to_string(sizeof(T)));
  }
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace

nlohmann::json pack(std::span<const std::int32_t> values) { return pack_numbers(values); }
nlohmann::json pack(std::span<const float> values) { return pack_numbers(values); }

nlohmann::json pack(const BytePool& pool) {
  const std::vector<std::int32_t> offsets(pool.offsets().begin(), pool.offsets().end());
  return {{"bytes", nlohmann::json::binary({pool.bytes().begin(), pool.bytes().end()})}, {"offsets", pack(offsets)}};
}

std::vector<std::int32_t> unpack_i32(const nlohmann::json& message, const char* key) {
  return unpack_numbers<std::int32_t>(message, key);
}

std::vector<float> unpack_f32(const nlohmann::json& message, const char* key) {
  return unpack_numbers<float>(message, key);
}

BytePool unpack_pool(const nlohmann::json& message, const char* key) {
  const nlohmann::json& object = field(message, key, nlohmann::json::value_t::object);
  const std::vector<std::uint8_t>& raw = field(object, "bytes", nlohmann::json::value_t::binary).get_binary();
  const std::string_view bytes(reinterpret_cast<const char*>(raw.data()), raw.size());
  const std::vector<std::int32_t> offsets = unpack_i32(object, "offsets");
  if (offsets.empty() || offsets.front() != 0 || offsets.back() != static_cast<std::int64_t>(bytes.size())) {
    bad_field(message, key, "offsets that do not span the bytes", "offsets from 0 to " + std::to_string(bytes.size()));
  }
  BytePool pool;
  for (std::size_t i = 1; i < offsets.size(); ++i) {
    // The last is the size, but one between may be beyond it before they fall again.
    if (offsets[i] < offsets[i - 1] || offsets[i] > offsets.back())
      bad_field(message, key, "offsets that fall", "offsets that rise");
    pool.push_back(bytes.substr(offsets[i - 1], offsets[i] - offsets[i - 1]));
  }
  return pool;
}

nlohmann::json pack_rows(const HeadSeries<float>& series) {
  std::vector<float> all;
  for (int layer = 0; layer < series.n_layers(); ++layer) {
    for (int head = 0; head < series.n_kv_heads(); ++head) {
      const std::vector<float>& row = series.row(layer, head);
      all.insert(all.end(), row.begin(), row.end());
    }
  }
  return pack(all);
}

HeadSeries<float> unpack_rows(const nlohmann::json& message, const char* key, int n_layers, int n_kv_heads,
                              std::int64_t n) {
  const std::vector<float> all = unpack_f32(message, key);
  const std::int64_t rows = static_cast<std::int64_t>(n_layers) * n_kv_heads;
  if (std::ssize(all) != rows * n) {
    bad_field(message, key, std::to_string(all.size()) + " numbers",
              std::to_string(rows * n) + ", " + std::to_string(rows) + " rows of " + std::to_string(n));
  }
  HeadSeries<float> series(n_layers, n_kv_heads);
  auto from = all.begin();
  for (int layer = 0; layer < n_layers; ++layer) {
    for (int head = 0; head < n_kv_heads; ++head, from += n) series.row(layer, head).assign(from, from + n);
  }
  return series;
}

}  // namespace kvscope::protocol
