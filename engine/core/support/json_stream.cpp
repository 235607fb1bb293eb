#include "engine/core/support/json_stream.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/core/support/refuse.h"

namespace kvscope {
namespace {

/// A pointer that tells how far the lexer has read: the SAX interface itself gives no position.
class TrackedIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;
  TrackedIterator(const char* at, const char** furthest) : at_(at), furthest_(furthest) {}
  reference operator*() const { return *at_; }
  TrackedIterator& operator++() {
    *furthest_ = ++at_;
    return *this;
  }
  void operator++(int) { ++*this; }
  bool operator==(const TrackedIterator& other) const { return at_ == other.at_; }
  bool operator!=(const TrackedIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** furthest_;
};

/// The keys of an object, end to end in one text, with open addressing over them: half of the time that Gemma 3's file of
/// 262,144 tokens took was std::unordered_set's.
class Names {
 public:
  bool insert(std::string_view name) {
    if ((count_ + 1) * 2 > slots_.size()) grow();
    const std::uint64_t h = std::hash<std::string_view>{}(name);
    std::size_t at = h & (slots_.size() - 1);
    for (; slots_[at].length != kFree; at = (at + 1) & (slots_.size() - 1)) {
      const Slot& slot = slots_[at];
      if (slot.hash == h && std::string_view(text_).substr(slot.begin, slot.length) == name) return false;
    }
    slots_[at] = {h, text_.size(), name.size()};
    text_ += name;
    ++count_;
    return true;
  }
  void forget() {
    if (count_ > 0) slots_.clear(), text_.clear(), count_ = 0;
  }

 private:
  static constexpr std::size_t kFree = ~std::size_t{0};
  struct Slot {
    std::uint64_t hash = 0;
    std::size_t begin = 0, length = kFree;
  };
  void grow() {
    std::vector<Slot> old(std::max<std::size_t>(slots_.size() * 2, 16));
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.length == kFree) continue;
      std::size_t at = slot.hash & (slots_.size() - 1);
      while (slots_[at].length != kFree) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = slot;
    }
  }
  std::string text_;
  std::vector<Slot> slots_;
  std::size_t count_ = 0;
};

class Guard {
 public:
  Guard(std::string_view text, const std::string& file, const ReadLimits& limits, JsonEvents& events)
      : text_(text), file_(file), budget_(limits), events_(events) {}

  bool null() { return count(), events_.null(), true; }
  bool boolean(bool value) { return count(), events_.boolean(value), true; }
  bool number_integer(std::int64_t value) { return count(), events_.negative(value), true; }
  bool number_unsigned(std::uint64_t value) { return count(), events_.natural(value), true; }
  bool number_float(double value, const std::string& digits) { return count(), events_.real(value, digits), true; }
  bool string(std::string& value) { return count(), events_.text(value), true; }
  bool binary(nlohmann::json::binary_t&) { return false; }  // JSON text has none
  bool start_object(std::size_t) {
    enter();
    if (keys_.size() <= objects_) keys_.emplace_back();
    keys_[objects_++].forget();
    return events_.begin_object(), true;
  }
  bool end_object() {
    budget_.leave(), --objects_;
    return events_.end_object(), true;
  }
  bool start_array(std::size_t) {
    enter();
    return events_.begin_array(), true;
  }
  bool end_array() {
    budget_.leave();
    return events_.end_array(), true;
  }
  bool key(std::string& name) {
    count();
    if (!keys_[objects_ - 1].insert(name)) {
      fail("key " + in_quotes(name) + " twice in one object", "every key once");
    }
    return events_.key(name), true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& error) {
    fail(reason(error.what()), "JSON");
  }

  /// Before the lexer sees any: it keeps a number of any length, converts it by three functions and tells it whole.
  void check_numbers(std::size_t max_number) {
    const char *at = text_.data(), *const end = at + text_.size();
    while (at < end) {
      if (*at == '"') {
        for (++at; at < end && *at != '"'; ++at) at += *at == '\\';
        ++at;
      } else if (is_of_number(*at)) {
        const char* const begin = at;
        while (at < end && is_of_number(*at)) ++at;
        furthest = begin + 1;
        ReadBudget({.max_bytes = max_number})
            .add_bytes(static_cast<std::size_t>(at - begin),
                       [&](std::string found, std::string) { fail("a number of " + found, "JSON"); });
      } else {
        ++at;
      }
    }
    furthest = nullptr;
  }

  const char* furthest = nullptr;

 private:
  static bool is_of_number(char c) {
    return (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '+' || c == 'e' || c == 'E';
  }
  auto refuser() const {
    return [this](std::string found, std::string expected) { fail(std::move(found), std::move(expected)); };
  }
  void count() { budget_.add_element(refuser()); }
  void enter() {
    count();
    budget_.enter(refuser());
  }

  /// nlohmann's text without its number, name of state and position (its own position counts differently).
  static std::string reason(std::string_view what) {
    for (const std::string_view start : {"syntax error while parsing ", "] "}) {
      if (const std::size_t at = what.find(start); at != what.npos) what.remove_prefix(at + start.size());
    }
    if (what.starts_with("parse error")) {
      if (const std::size_t at = what.find(": "); at != what.npos) what.remove_prefix(at + 2);
    }
    return "not valid JSON: " + std::string(what);
  }

  [[noreturn]] void fail(std::string found, std::string expected) const {
    const std::size_t read = furthest ? static_cast<std::size_t>(furthest - text_.data()) : 0;
    const std::string_view before = text_.substr(0, read == 0 ? 0 : read - 1);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
    refuse(file_, "line " + std::to_string(line) + ", column " + std::to_string(before.size() - line_start + 1),
           std::move(found), std::move(expected));
  }

  std::string_view text_;
  const std::string& file_;
  ReadBudget budget_;
  JsonEvents& events_;
  std::size_t objects_ = 0;  // open objects
  std::deque<Names> keys_;   // one set for each level, reused
};

}  // namespace

void stream_json(std::string_view text, const std::string& file, const ReadLimits& limits, JsonEvents& events) {
  if (text.size() > limits.max_bytes) {
    refuse(file, "", std::to_string(text.size()) + " bytes of JSON", "at most " + std::to_string(limits.max_bytes));
  }
  // nlohmann skips a byte order mark and takes a NUL for the end of the text. RFC 8259 knows neither.
  if (text.starts_with("\xEF\xBB\xBF")) {
    throw Error({.file = file, .where = "line 1, column 1", .found = "byte order mark", .expected = "JSON"});
  }
  if (const std::size_t nul = text.find('\0'); nul != text.npos) {
    throw Error({.file = file, .where = "byte " + std::to_string(nul), .found = "NUL byte", .expected = "JSON"});
  }
  if (text.empty()) {  // of which versions of nlohmann speak differently
    throw Error({.file = file, .where = "line 1, column 1", .found = "unexpected end of input", .expected = "JSON"});
  }
  Guard guard(text, file, limits, events);
  guard.check_numbers(limits.max_number);
  const TrackedIterator begin(text.data(), &guard.furthest), end(text.data() + text.size(), &guard.furthest);
  nlohmann::json::sax_parse(begin, end, &guard);
}

}  // namespace kvscope
