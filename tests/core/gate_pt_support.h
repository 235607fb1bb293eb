#pragma once
// .pt files as torch.save writes them, and as nobody should: archives and pickles built piece by piece.

#include <cstdint>
#include <string>
#include <vector>

namespace kvscope::test {

std::string le(std::uint64_t value, int bytes);

/// One entry; what is not set follows from the data. Numbers below zero mean "the right one".
struct ZipPart {
  std::string name, data;
  std::string local_name = name;
  int flags = 0x0808, method = 0, local_method = 0;
  std::int64_t crc = -1, size = -1, stored = -1, local_size = 0, offset = -1;
};

struct ZipShape {
  bool wide = true;  // zip64 end record and locator
  std::int64_t wide_entries = -1, wide_size = -1, wide_begin = -1, locator = -1;
  std::int64_t n_entries = -1, size = -1, begin = -1;  // of the plain end record
  std::string comment, behind, between;                // between: behind the directory
};
std::string zip_file(const std::vector<ZipPart>& parts, const ZipShape& shape = {});

// Pickle, protocol 2. A value is the opcodes that leave it on the stack.
std::string pickle_text(const std::string& text);
std::string pickle_integer(std::int64_t n);
std::string pickle_global(const std::string& module, const std::string& name);
std::string pickle_tuple(const std::vector<std::string>& items);
std::string pickle_integers(const std::vector<std::int64_t>& items);
std::string pickle_call(const std::string& function, const std::string& arguments);
std::string pickle_ordered_dict();
std::string pickle_storage(const std::string& type, const std::string& key, const std::string& n);

struct PickleTensor {
  std::string type = "FloatStorage", key = "0";
  std::int64_t stored = 4, offset = 0;
  std::vector<std::int64_t> shape = {4}, stride = {1};
};
std::string pickle_tensor(const PickleTensor& tensor);
std::string pickle_parameter(const std::string& tensor);
/// A whole pickle: a dict of these, key and value in turn.
std::string pickle_dict(const std::vector<std::string>& items);

/// The entries of a small valid file: root "a", one record of 4 floats.
std::vector<ZipPart> small_parts(const std::string& pickle);
std::string small_file(const std::string& pickle);

}  // namespace kvscope::test
