#include "tests/core/gate_pt_support.h"

#include <zlib.h>

#include <cstring>

namespace kvscope::test {
namespace {

std::uint64_t given_or(std::int64_t given, std::uint64_t right) {
  return given < 0 ? right : static_cast<std::uint64_t>(given);
}

}  // namespace

std::string le(std::uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(i < 8 ? value >> (8 * i) : 0);
  return out;
}

std::string zip_file(const std::vector<ZipPart>& parts, const ZipShape& shape) {
  std::string out, directory;
  for (const ZipPart& part : parts) {
    const std::uint64_t offset = given_or(part.offset, out.size());
    const std::string size = le(given_or(part.size, part.data.size()), 4),
                      crc = le(given_or(part.crc,
                                        crc32_z(0, reinterpret_cast<const Bytef*>(part.data.data()), part.data.size())),
                               4);
    const std::size_t padding = (64 - (out.size() + 34 + part.local_name.size()) % 64) % 64;
    out += "PK\3\4" + le(0, 2) + le(static_cast<std::uint64_t>(part.flags), 2) +
           le(static_cast<std::uint64_t>(part.local_method), 2) + le(0, 8) +
           le(static_cast<std::uint64_t>(part.local_size), 4) + le(static_cast<std::uint64_t>(part.local_size), 4) +
           le(part.local_name.size(), 2) + le(4 + padding, 2) + part.local_name + "FB" + le(padding, 2) +
           std::string(padding, 'Z') + part.data + "PK\7\x08" + crc + size + size;
    directory += "PK\1\2" + le(0, 4) + le(static_cast<std::uint64_t>(part.flags), 2) +
                 le(static_cast<std::uint64_t>(part.method), 2) + le(0, 4) + crc +
                 le(given_or(part.stored, given_or(part.size, part.data.size())), 4) + size + le(part.name.size(), 2) +
                 le(0, 12) + le(offset, 4) + part.name;
  }
  const std::uint64_t begin = out.size(), n = parts.size();
  out += directory + shape.between;
  if (shape.wide) {
    const std::uint64_t at = out.size();
    out += "PK\6\6" + le(44, 8) + le(798, 2) + le(45, 2) + le(0, 8) + le(given_or(shape.wide_entries, n), 8) +
           le(given_or(shape.wide_entries, n), 8) + le(given_or(shape.wide_size, directory.size()), 8) +
           le(given_or(shape.wide_begin, begin), 8);
    out += "PK\6\7" + le(0, 4) + le(given_or(shape.locator, at), 8) + le(1, 4);
  }
  out += "PK\5\6" + le(0, 4) + le(given_or(shape.n_entries, n), 2) + le(given_or(shape.n_entries, n), 2) +
         le(given_or(shape.size, directory.size()), 4) + le(given_or(shape.begin, begin), 4) +
         le(shape.comment.size(), 2) + shape.comment;
  return out + shape.behind;
}

std::string pickle_text(const std::string& text) { return "X" + le(text.size(), 4) + text; }

std::string pickle_integer(std::int64_t n) {
  return "\x8a\x08" + le(static_cast<std::uint64_t>(n), 8);  // LONG1
}

std::string pickle_global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}

std::string pickle_tuple(const std::vector<std::string>& items) {
  std::string out = "(";
  for (const std::string& item : items) out += item;
  return out + "t";
}

std::string pickle_integers(const std::vector<std::int64_t>& items) {
  std::vector<std::string> out;
  for (const std::int64_t n : items) out.push_back(pickle_integer(n));
  return pickle_tuple(out);
}

std::string pickle_call(const std::string& function, const std::string& arguments) {
  return function + arguments + "R";
}

std::string pickle_ordered_dict() { return pickle_call(pickle_global("collections", "OrderedDict"), ")"); }

std::string pickle_storage(const std::string& type, const std::string& key, const std::string& n) {
  return pickle_tuple({pickle_text("storage"), pickle_global("torch", type), pickle_text(key), pickle_text("cpu"), n}) +
         "Q";
}

std::string pickle_tensor(const PickleTensor& t) {
  return pickle_call(
      pickle_global("torch._utils", "_rebuild_tensor_v2"),
      pickle_tuple({pickle_storage(t.type, t.key, pickle_integer(t.stored)), pickle_integer(t.offset),
                    pickle_integers(t.shape), pickle_integers(t.stride), "\x89", pickle_ordered_dict()}));
}

std::string pickle_parameter(const std::string& tensor) {
  return pickle_call(pickle_global("torch._utils", "_rebuild_parameter"),
                     pickle_tuple({tensor, "\x88", pickle_ordered_dict()}));
}

std::string pickle_dict(const std::vector<std::string>& items) {
  std::string out = "\x80\x02}(";
  for (const std::string& item : items) out += item;
  return out + "u.";
}

std::vector<ZipPart> small_parts(const std::string& pickle) {
  const float values[4] = {1, -2, 0.5f, 4};
  std::string data(sizeof values, '\0');
  std::memcpy(data.data(), values, sizeof values);
  return {{.name = "a/data.pkl", .data = pickle},
          {.name = "a/byteorder", .data = "little"},
          {.name = "a/data/0", .data = data},
          {.name = "a/version", .data = "3\n"}};
}

std::string small_file(const std::string& pickle) { return zip_file(small_parts(pickle)); }

}  // namespace kvscope::test
