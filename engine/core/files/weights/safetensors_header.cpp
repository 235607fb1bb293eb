#include "engine/core/files/weights/safetensors_header.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <tuple>

#include "engine/core/support/json_stream.h"
#include "engine/core/support/refuse.h"

namespace kvscope {
namespace {

// A header needs 3 levels; keys that are not ours may hold a little more. No model has tensors past the other caps, but
// a header within its own cap of 100 MB could otherwise hold millions.
constexpr int kMaxDepth = 8;
constexpr std::size_t kMaxTensors = 1u << 18, kMaxRank = 32, kMaxName = 4096, kMaxElements = 16 * kMaxTensors;
constexpr std::uint64_t kMaxInteger = 1ull << 53;  // past it, readers that hold numbers as doubles disagree

struct TypeRow {
  const char* name;
  int bits;
};
constexpr TypeRow kTypes[] = {
    {"BOOL", 8},    {"F4", 4},          {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},   {"I8", 8},
    {"F8_E5M2", 8}, {"F8_E4M3", 8},     {"F8_E8M0", 8}, {"I16", 16},    {"U16", 16}, {"F8_E4M3FNUZ", 8},
    {"F16", 16},    {"F8_E5M2FNUZ", 8}, {"BF16", 16},   {"I32", 32},    {"U32", 32}, {"F32", 32},
    {"C64", 64},    {"F64", 64},        {"I64", 64},    {"U64", 64},
};

TensorType type_of(const std::string& name) {
  return name == "F32"    ? TensorType::f32
         : name == "F16"  ? TensorType::f16
         : name == "BF16" ? TensorType::bf16
                          : TensorType::other;
}

/// Bytes of a tensor, every step checked: a product in 32 bits, or a wrapped one, is how readers were made to write
/// past their buffers.
std::uint64_t checked_bytes(const TensorEntry& entry, const auto& fail) {
  std::uint64_t n = 1, bits = 0;
  for (const std::int64_t d : entry.shape) {
    if (__builtin_mul_overflow(n, static_cast<std::uint64_t>(d), &n)) fail("shape's product overflows 64 bits", "");
  }
  if (__builtin_mul_overflow(n, static_cast<std::uint64_t>(safetensors_bits(entry.type_name)), &bits)) {
    fail("size in bits overflows 64 bits", "");
  }
  if (bits % 8 != 0) fail(std::to_string(bits) + " bits of " + entry.type_name, "whole bytes");
  return bits / 8;
}

/// Takes the events of {name: {dtype, shape, data_offsets}, "__metadata__": {text: text}}.
class HeaderEvents : public JsonEvents {
 public:
  HeaderEvents(const std::string& file, SafetensorsHeader& header) : file_(file), header_(header) {}

  void null() override { scalar("null"); }
  void boolean(bool value) override { scalar(value ? "true" : "false"); }
  void negative(std::int64_t value) override { scalar(std::to_string(value)); }
  void natural(std::uint64_t value) override {
    if (state_ != State::numbers) return scalar(std::to_string(value));
    if (value > kMaxInteger) fail_number(std::to_string(value));
    numbers_.push_back(value);
    if (field_ == Field::shape && numbers_.size() > kMaxRank) {
      fail("more than " + std::to_string(kMaxRank) + " dimensions", "a tensor");
    }
    if (field_ == Field::offsets && numbers_.size() > 2)
      fail("data_offsets with more than two numbers", "[begin, end]");
  }
  void real(double, const std::string& digits) override { scalar(digits); }
  void text(std::string& value) override;
  void begin_object() override;
  void key(std::string& name) override;
  void end_object() override;
  void begin_array() override;
  void end_array() override;

 private:
  enum class State { start, names, metadata, entry, numbers, foreign };
  enum class Field { none, dtype, shape, offsets };

  [[noreturn]] void fail(std::string found, std::string expected) const {
    throw Error({.file = file_, .where = where_, .found = std::move(found), .expected = std::move(expected)});
  }
  [[noreturn]] void fail_number(const std::string& found) const {
    fail((field_ == Field::shape ? "dimension " : "data offset ") + found, "an integer from 0 to 2^53");
  }
  /// A value that no place but a foreign key takes.
  void scalar(const std::string& found);
  void finish_entry();

  const std::string& file_;
  SafetensorsHeader& header_;
  State state_ = State::start, outer_ = State::start;  // outer_: where a foreign value ends
  Field field_ = Field::none;
  int foreign_depth_ = 0;
  std::string where_, metadata_key_;
  std::optional<std::string> dtype_;
  std::optional<std::vector<std::uint64_t>> shape_, offsets_;
  std::vector<std::uint64_t> numbers_;
};

void HeaderEvents::scalar(const std::string& found) {
  switch (state_) {
    case State::start:
      fail("header is " + found, "an object");
    case State::names:
      fail("entry is " + found, "an object with dtype, shape and data_offsets");
    case State::metadata:
      fail("value of \"" + metadata_key_ + "\" is " + found, "text");
    case State::numbers:
      fail_number(found);
    case State::foreign:
      return;
    case State::entry:
      break;
  }
  if (field_ == Field::dtype) fail("dtype is " + found, "text");
  if (field_ == Field::shape) fail("shape is " + found, "an array");
  if (field_ == Field::offsets) fail("data_offsets is " + found, "[begin, end]");
}

void HeaderEvents::text(std::string& value) {
  if (state_ == State::metadata) {
    header_.metadata[metadata_key_] = std::move(value);
  } else if (state_ == State::entry && field_ == Field::dtype) {
    dtype_ = std::move(value);
  } else {
    scalar(in_quotes(value));
  }
}

void HeaderEvents::begin_object() {
  switch (state_) {
    case State::start:
      state_ = State::names;
      return;
    case State::names:
      if (where_ == "__metadata__") {
        state_ = State::metadata;
        return;
      }
      state_ = State::entry;
      field_ = Field::none;
      dtype_.reset(), shape_.reset(), offsets_.reset();
      return;
    case State::foreign:
      ++foreign_depth_;
      return;
    case State::entry:
      if (field_ == Field::none) {
        outer_ = state_, state_ = State::foreign, foreign_depth_ = 1;
        return;
      }
      [[fallthrough]];
    default:
      scalar("an object");
  }
}

void HeaderEvents::key(std::string& name) {
  if (state_ == State::metadata) {
    metadata_key_ = std::move(name);
  } else if (state_ == State::entry) {
    field_ = name == "dtype"          ? Field::dtype
             : name == "shape"        ? Field::shape
             : name == "data_offsets" ? Field::offsets
                                      : Field::none;
  } else if (state_ == State::names) {
    if (header_.tensors.size() >= kMaxTensors) {
      where_.clear();
      fail("more than " + std::to_string(kMaxTensors) + " tensors", "a model");
    }
    if (name.size() > kMaxName) {
      where_ = escape_for_terminal(name, 40);
      fail("name of " + std::to_string(name.size()) + " bytes", "at most " + std::to_string(kMaxName));
    }
    where_ = std::move(name);
    if (where_.empty()) fail("tensor with an empty name", "a name");
  }
}

void HeaderEvents::end_object() {
  if (state_ == State::foreign) {
    if (--foreign_depth_ == 0) state_ = outer_;
  } else if (state_ == State::entry) {
    finish_entry();
    state_ = State::names;
  } else if (state_ == State::metadata) {
    state_ = State::names;
  }
}

void HeaderEvents::begin_array() {
  if (state_ == State::foreign) {
    ++foreign_depth_;
  } else if (state_ == State::entry && field_ == Field::none) {
    outer_ = state_, state_ = State::foreign, foreign_depth_ = 1;
  } else if (state_ == State::entry && field_ != Field::dtype) {
    numbers_.clear();
    state_ = State::numbers;
  } else {
    scalar("an array");
  }
}

void HeaderEvents::end_array() {
  if (state_ == State::foreign) {
    if (--foreign_depth_ == 0) state_ = outer_;
    return;
  }
  (field_ == Field::shape ? shape_ : offsets_) = numbers_;
  state_ = State::entry;
}

void HeaderEvents::finish_entry() {
  const auto fail_here = [this](std::string found, std::string expected) {
    fail(std::move(found), std::move(expected));
  };
  if (!dtype_) fail("dtype missing", "dtype, shape and data_offsets");
  if (!shape_) fail("shape missing", "dtype, shape and data_offsets");
  if (!offsets_) fail("data_offsets missing", "dtype, shape and data_offsets");
  if (safetensors_bits(*dtype_) == 0) {
    fail("unknown dtype " + in_quotes(*dtype_, 40), "one of the format's, such as F32, F16, BF16");
  }
  if (offsets_->size() != 2) {
    fail("data_offsets with " + std::to_string(offsets_->size()) + " numbers", "[begin, end]");
  }
  TensorEntry entry{type_of(*dtype_), *dtype_, {shape_->begin(), shape_->end()}, (*offsets_)[0], (*offsets_)[1]};
  if (entry.begin > entry.end) {
    fail("data_offsets begin " + std::to_string(entry.begin) + " after end " + std::to_string(entry.end),
         "begin <= end");
  }
  const std::uint64_t bytes = checked_bytes(entry, fail_here);
  if (entry.end - entry.begin != bytes) {
    fail("data of " + std::to_string(entry.end - entry.begin) + " bytes",
         std::to_string(bytes) + " for its shape and dtype " + entry.type_name);
  }
  header_.tensors.emplace(where_, std::move(entry));
}

}  // namespace

int safetensors_bits(const std::string& type_name) {
  const auto row =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeRow& r) { return type_name == r.name; });
  return row == std::end(kTypes) ? 0 : row->bits;
}

SafetensorsHeader parse_safetensors_header(const std::string& json, const std::string& file) {
  SafetensorsHeader header;
  HeaderEvents events(file, header);
  stream_json(json, file, {.max_bytes = 100'000'000, .max_depth = kMaxDepth, .max_elements = kMaxElements}, events);
  return header;
}

void check_tiling(const std::map<std::string, TensorEntry>& tensors, std::uint64_t data_bytes,
                  const std::string& file) {
  std::vector<const std::pair<const std::string, TensorEntry>*> order;
  order.reserve(tensors.size());
  for (const auto& item : tensors) order.push_back(&item);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::tie(a->second.begin, a->second.end, a->first) < std::tie(b->second.begin, b->second.end, b->first);
  });
  std::uint64_t next = 0;
  const std::string* before = nullptr;
  for (const auto* item : order) {
    const auto& [name, entry] = *item;
    const auto fail = [&, &name = name](std::string found, std::string expected, std::string hint = "") {
      refuse(file, name, std::move(found), std::move(expected), std::move(hint));
    };
    const std::string starts = "data starts at " + std::to_string(entry.begin);
    if (entry.begin > next) {
      fail(starts + ", a hole of " + std::to_string(entry.begin - next) + " bytes",
           "a start at " + std::to_string(next));
    }
    if (entry.begin < next) {
      fail(starts + ", an overlap of " + std::to_string(next - entry.begin) + " bytes with " +
               escape_for_terminal(*before, 80),
           "a start at " + std::to_string(next));
    }
    if (entry.end > data_bytes) {
      fail("data ends at " + std::to_string(entry.end) + ", past the end of the file",
           "at most " + std::to_string(data_bytes), "the file was cut short; download it again");
    }
    next = entry.end;
    before = &name;
  }
  if (next != data_bytes) {
    refuse(file, "", std::to_string(data_bytes - next) + " trailing bytes after the last tensor",
           "the end of the file");
  }
}

}  // namespace kvscope
