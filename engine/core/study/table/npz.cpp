#include "engine/core/study/table/npz.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>

#include "engine/core/support/crc32.h"
#include "engine/core/support/error.h"
#include "engine/core/support/utf8.h"

namespace kvscope {
namespace {

static_assert(std::endian::native == std::endian::little,
              "arrays are written as they lie in memory, marked little-endian");

template <typename T>
void put(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

template <typename T>
std::string_view bytes_of(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

std::u32string decode(std::string_view utf8) {
  std::u32string text;
  for (std::size_t at = 0; at < utf8.size();) {
    const Utf8Char c = decode_utf8(utf8, at);
    text += c.valid ? c.code_point : U'\uFFFD';
    at += c.length;
  }
  return text;
}

std::string npy_header(const std::string& type, std::span<const std::int64_t> shape) {
  std::string dims;
  for (const auto n : shape) dims += std::to_string(n) + (shape.size() == 1 ? "," : ", ");
  if (shape.size() > 1) dims.resize(dims.size() - 2);
  std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + dims + "), }";
  header.append(63 - (10 + header.size()) % 64, ' ');  // data start at a multiple of 64
  header += '\n';
  std::string npy("\x93NUMPY\x01\x00", 8);
  put<std::uint16_t>(npy, static_cast<std::uint16_t>(header.size()));
  return npy + header;
}

constexpr std::uint16_t kDate = 1 << 5 | 1;  // 1980-01-01, the first day a ZIP knows

/// What a local header and the central directory have in common.
std::string entry_fields(const std::string& name, std::uint32_t crc, std::uint32_t size) {
  std::string f;
  put<std::uint16_t>(f, 20), put<std::uint16_t>(f, 0), put<std::uint16_t>(f, 0);  // version 2.0, no flags, stored
  put<std::uint16_t>(f, 0), put<std::uint16_t>(f, kDate);
  put<std::uint32_t>(f, crc);
  put<std::uint32_t>(f, size), put<std::uint32_t>(f, size);
  put<std::uint16_t>(f, static_cast<std::uint16_t>(name.size())), put<std::uint16_t>(f, 0);
  return f;
}

}  // namespace

void NpzWriter::add_raw(const std::string& name, const std::string& type, std::span<const std::int64_t> shape,
                        std::string_view bytes, std::size_t size_of_value) {
  std::size_t n = 1;
  for (const auto length : shape) n *= static_cast<std::size_t>(length);
  if (bytes.size() != n * size_of_value) throw std::invalid_argument("NpzWriter: " + name + " has another shape");
  const std::string header = npy_header(type, shape), file = name + ".npy";
  const std::uint64_t size = header.size() + bytes.size();
  if (written_ + size + directory_.size() > UINT32_MAX - (1u << 20) || n_ == UINT16_MAX)
    throw Error({.code = ExitCode::resource,
                 .where = name,
                 .found = "more than 4 GiB of arrays",
                 .expected = "at most 4 GiB, the limit of .npz",
                 .hint = "export less at a time"});
  const std::string fields = entry_fields(file, crc32(bytes, crc32(header)), static_cast<std::uint32_t>(size));
  directory_ += std::string("PK\x01\x02\x14\x00", 6) + fields;
  directory_.append(10, '\0');  // no comment, disk 0, attributes 0
  put<std::uint32_t>(directory_, static_cast<std::uint32_t>(written_));
  directory_ += file;
  const std::string local = "PK\x03\x04" + fields + file + header;
  sink_(local);
  sink_(bytes);
  written_ += local.size() + bytes.size();
  ++n_;
}

void NpzWriter::add(const std::string& name, std::span<const std::int64_t> shape, std::span<const float> values) {
  add_raw(name, "<f4", shape, bytes_of(values), sizeof(float));
}
void NpzWriter::add(const std::string& name, std::span<const std::int64_t> shape, std::span<const double> values) {
  add_raw(name, "<f8", shape, bytes_of(values), sizeof(double));
}
void NpzWriter::add(const std::string& name, std::span<const std::int64_t> shape,
                    std::span<const std::int32_t> values) {
  add_raw(name, "<i4", shape, bytes_of(values), sizeof(std::int32_t));
}
void NpzWriter::add(const std::string& name, std::span<const std::int64_t> shape,
                    std::span<const std::int64_t> values) {
  add_raw(name, "<i8", shape, bytes_of(values), sizeof(std::int64_t));
}

void NpzWriter::add(const std::string& name, std::span<const std::string> texts) {
  std::size_t width = 1;
  std::vector<std::u32string> decoded;
  for (const std::string& text : texts) {
    decoded.push_back(decode(text));
    width = std::max(width, decoded.back().size());
  }
  std::string bytes;
  for (std::u32string& text : decoded) {
    text.resize(width, U'\0');
    bytes.append(reinterpret_cast<const char*>(text.data()), width * 4);
  }
  const std::int64_t n = static_cast<std::int64_t>(texts.size());
  add_raw(name, "<U" + std::to_string(width), std::span(&n, 1), bytes, width * 4);
}

void NpzWriter::finish() {
  const auto n = static_cast<std::uint16_t>(n_);
  std::string end = std::string("PK\x05\x06\0\0\0\0", 8);
  put<std::uint16_t>(end, n), put<std::uint16_t>(end, n);
  put<std::uint32_t>(end, static_cast<std::uint32_t>(directory_.size()));
  put<std::uint32_t>(end, static_cast<std::uint32_t>(written_));
  put<std::uint16_t>(end, 0);
  sink_(directory_ + end);
}

}  // namespace kvscope
