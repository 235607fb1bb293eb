#pragma once
// The small part of Python's pickle that torch.save uses for a dict of tensors. Values are data only: nothing that a
// file names is ever looked up, and what is not on the list is refused by name.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvscope {

struct PickleValue {
  enum class Kind : std::uint8_t { none, boolean, integer, text, tuple, dict, global, storage, tensor };
  Kind kind = Kind::none;
  bool ordered = false;      // of a dict: a collections.OrderedDict
  int depth = 0;             // of nesting below it
  std::int64_t integer = 0;  // integer or boolean
  std::string text;          // text; of a global "module name"
  /// Places in Pickle::values. tuple: elements. dict: key, value, key, value, ... storage: "storage", type (a global),
  /// key, location, number of elements. tensor: storage, offset, sizes, strides, ... as of torch._utils.
  std::vector<std::uint32_t> items;
};

struct Pickle {
  std::vector<PickleValue> values;  // refer to each other by place, so that nesting costs no recursion
  std::uint32_t root = 0;
};

/// Globals: collections.OrderedDict, torch's Float-, Half- and BFloat16Storage, torch._utils._rebuild_tensor_v2 and
/// _rebuild_parameter (which gives its tensor). Protocol 2; at most 10^6 opcodes, 65536 memo places, 32 levels. Throws
/// Error whose `where` is "data.pkl byte N".
Pickle parse_pickle(std::string_view bytes, const std::string& file);

}  // namespace kvscope
