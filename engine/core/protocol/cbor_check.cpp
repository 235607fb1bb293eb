#include "engine/core/protocol/cbor_check.h"

#include <array>
#include <string>
#include <utility>

#include "engine/core/support/read_budget.h"
#include "engine/core/support/refuse.h"

namespace kvscope {
namespace {

/// What is bulk travels as byte strings, whose bytes cost what they are; the bytes counted here are those of texts. The
/// largest rows of our own jobs have some thousand elements, the longest text that a model reads some MiB.
constexpr ReadLimits kLimits{.max_bytes = 64u << 20, .max_depth = 32, .max_elements = 1u << 18};

enum Major : std::uint8_t { natural, negative, bytes, text, array, map, tag, simple };
constexpr std::uint64_t kLong = 1 << 12;  // bytes; a shorter string costs as much apart
constexpr std::uint8_t kFalse = 20, kNull = 22, kFloat16 = 25, kFloat64 = 27, kOneByte = 24, kEightBytes = 27;

class Walk {
 public:
  explicit Walk(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  std::vector<LongBytes> run() {
    value();
    while (depth_ > 0) {
      if (open_[depth_ - 1] == 0) {
        --depth_;
        budget_.leave();
      } else {
        --open_[depth_ - 1];
        value();
      }
    }
    if (left() > 0) malformed(std::to_string(left()) + " bytes after its value");
    return std::move(long_);
  }

 private:
  [[noreturn]] static void fail(std::string found) { refuse("engine stream", "", std::move(found), "one CBOR value"); }
  [[noreturn]] static void malformed(const std::string& what) { fail("a malformed message: " + what); }
  [[noreturn]] static void over(const std::string& what, const std::string&) { fail("a message " + what); }

  std::size_t left() const { return bytes_.size() - at_; }

  void skip(std::uint64_t n) {
    if (n > left()) malformed("it ends inside a value");
    at_ += static_cast<std::size_t>(n);
  }

  /// The number in a head: a length, a count or a value.
  std::uint64_t argument(std::uint8_t info) {
    if (info < kOneByte) return info;
    if (info > kEightBytes) malformed(info == 31 ? "a value of indefinite length" : "a reserved head");
    const std::size_t n = std::size_t{1} << (info - kOneByte);
    skip(n);
    std::uint64_t number = 0;
    for (std::size_t i = at_ - n; i < at_; ++i) number = number << 8 | bytes_[i];
    return number;
  }

  void open(std::uint64_t n_elements) {
    if (n_elements > left()) malformed("it ends inside a value");  // each takes a byte at least
    budget_.enter(over);
    open_[depth_++] = n_elements;
  }

  void value() {
    if (left() == 0) malformed("it ends inside a value");
    budget_.add_element(over);
    const std::size_t begin = at_;
    const std::uint8_t head = bytes_[at_++], info = head & 31;
    const auto major = static_cast<Major>(head >> 5);
    if (major == simple) {
      const bool known = (info >= kFalse && info <= kNull) || (info >= kFloat16 && info <= kFloat64);
      if (!known) malformed("a simple value of no use here");
      argument(info);
      return;
    }
    const std::uint64_t number = argument(info);
    if (major == negative && number > INT64_MAX) malformed("a number past 64 bits");
    if (major == bytes) {
      skip(number);
      if (number >= kLong && is_field()) long_.push_back({key_, begin, bytes_.subspan(at_ - number, number)});
    }
    if (major == text) {
      skip(number);
      if (depth_ == 1) key_ = {reinterpret_cast<const char*>(bytes_.data()) + at_ - number, number};
      budget_.add_bytes(static_cast<std::size_t>(number), over);
    }
    if (major == array) open(number);
    if (major == map) {
      if (number > left()) malformed("it ends inside a value");
      if (depth_ == 0) is_map_ = true;
      open(2 * number);
    }
    if (major == tag) malformed("a tag");
  }

  /// Whether the value that is read is one of the outermost map: keys and values come in turn.
  bool is_field() const { return is_map_ && depth_ == 1 && open_[0] % 2 == 0; }

  std::span<const std::uint8_t> bytes_;
  std::size_t at_ = 0;
  bool is_map_ = false;   // the message
  std::string_view key_;  // of the outermost map, read last
  std::vector<LongBytes> long_;
  std::array<std::uint64_t, kLimits.max_depth> open_{};  // values left to come of each array and map that is open
  int depth_ = 0;
  ReadBudget budget_{kLimits};
};

}  // namespace

std::vector<LongBytes> check_cbor(std::span<const std::uint8_t> bytes) { return Walk(bytes).run(); }

}  // namespace kvscope
