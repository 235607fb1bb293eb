#include "views/figure/npz.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "views/figure/checksum.h"
#include "views/figure/token_text.h"

namespace kvscope::views {
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
std::string bytes_of(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

std::u32string decode(std::string_view utf8) {
  std::u32string text;
  for (std::size_t at = 0; at < utf8.size();) text += next_code_point(utf8, at);
  return text;
}

struct Payload {
  std::string descr, bytes;
};
Payload payload(const std::vector<double>& v) { return {"<f8", bytes_of(v)}; }
Payload payload(const std::vector<std::int64_t>& v) { return {"<i8", bytes_of(v)}; }
Payload payload(const std::vector<std::string>& v) {
  std::size_t width = 1;
  std::vector<std::u32string> texts;
  for (const std::string& s : v) {
    texts.push_back(decode(s));
    width = std::max(width, texts.back().size());
  }
  std::string bytes;
  for (std::u32string& text : texts) {
    text.resize(width, U'\0');
    bytes.append(reinterpret_cast<const char*>(text.data()), width * 4);
  }
  return {"<U" + std::to_string(width), bytes};
}

std::string to_npy(const FigureColumn& column) {
  const Payload p = std::visit([](const auto& v) { return payload(v); }, column.values);
  std::string header =
      "{'descr': '" + p.descr + "', 'fortran_order': False, 'shape': (" + std::to_string(column.size()) + ",), }";
  header.append(63 - (10 + header.size()) % 64, ' ');  // data start at a multiple of 64
  header += '\n';
  std::string npy("\x93NUMPY\x01\x00", 8);
  put<std::uint16_t>(npy, static_cast<std::uint16_t>(header.size()));
  return npy + header + p.bytes;
}

constexpr std::uint16_t kDate = 1 << 5 | 1;  // 1980-01-01, the first day a ZIP knows

/// What a local header and the central directory have in common.
std::string entry_fields(const std::string& name, const std::string& bytes) {
  std::string f;
  put<std::uint16_t>(f, 20), put<std::uint16_t>(f, 0), put<std::uint16_t>(f, 0);  // version 2.0, no flags, stored
  put<std::uint16_t>(f, 0), put<std::uint16_t>(f, kDate);
  put<std::uint32_t>(f, crc32(bytes));
  put<std::uint32_t>(f, static_cast<std::uint32_t>(bytes.size())),
      put<std::uint32_t>(f, static_cast<std::uint32_t>(bytes.size()));
  put<std::uint16_t>(f, static_cast<std::uint16_t>(name.size())), put<std::uint16_t>(f, 0);
  return f;
}

}  // namespace

std::string to_npz(const FigureData& data) {
  std::string zip, directory;
  for (const FigureColumn& column : data.columns) {
    const std::string name = column.name + ".npy", bytes = to_npy(column), fields = entry_fields(name, bytes);
    directory += std::string("PK\x01\x02\x14\x00", 6) + fields;
    directory.append(10, '\0');  // no comment, disk 0, attributes 0
    put<std::uint32_t>(directory, static_cast<std::uint32_t>(zip.size()));
    directory += name;
    zip += "PK\x03\x04" + fields + name + bytes;
  }
  const auto n = static_cast<std::uint16_t>(data.columns.size());
  std::string end = std::string("PK\x05\x06\0\0\0\0", 8);
  put<std::uint16_t>(end, n), put<std::uint16_t>(end, n);
  put<std::uint32_t>(end, static_cast<std::uint32_t>(directory.size())),
      put<std::uint32_t>(end, static_cast<std::uint32_t>(zip.size()));
  put<std::uint16_t>(end, 0);
  return zip + directory + end;
}

}  // namespace kvscope::views
