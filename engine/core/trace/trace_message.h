#pragma once
// The bytes between the guarded reader and its child. Both are the same program, so there is no version; but the child
// may have been taken over by the file it read, so the parent's side believes nothing.
//
//     child to parent     frames: uint64 length, MessageKind, body. First `info` or `error`. Then for each run that is
//                         asked for `run` (where its parts stand) and as many `column` as the version has datasets, in
//                         their order; `error` in the place of any ends the run's answer, and the next may be asked
//                         for. Who asks for kAskRows gets `rows`
//     parent to child     int32 run, or kAskRows
//
// A child that reads a study (study_file.h) sends one frame, `study` or `error`, and is asked nothing.

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "engine/core/support/error.h"
#include "engine/core/trace/run_block.h"
#include "engine/core/trace/trace_file.h"

namespace kvscope::trace {

enum class MessageKind : std::uint8_t { error = 1, info = 2, run = 3, column = 4, rows = 5, study = 6 };
inline constexpr std::int32_t kAskRows = INT32_MIN;  // no run's number, not even a wrong one

/// Numbers as they lie in memory, texts with their length in front.
class MessageWriter {
 public:
  template <typename T>
  requires std::is_arithmetic_v<T>
  void put(T value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void put(std::string_view text) {
    put(static_cast<std::uint64_t>(text.size()));
    bytes_.append(text);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

/// What the reader's side throws when the bytes do not make a message.
struct BadMessage {};

/// Every get checks that the bytes are there.
class MessageReader {
 public:
  explicit MessageReader(std::string_view bytes) : rest_(bytes) {}
  template <typename T>
  requires std::is_arithmetic_v<T> T get() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  template <typename T>
  void get(T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      value = text();
    } else {
      value = get<T>();
    }
  }
  std::string_view text() { return take(get<std::uint64_t>()); }
  bool at_end() const { return rest_.empty(); }

 private:
  std::string_view take(std::uint64_t n) {
    if (n > rest_.size()) throw BadMessage{};
    const auto part = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return part;
  }
  std::string_view rest_;
};

void put_info(MessageWriter& out, const TraceInfo& info);
void put_error(MessageWriter& out, const Error::Parts& parts);
/// Where the run's parts stand; the columns follow by themselves.
void put_run(MessageWriter& out, const RunBlock& block);
void put_rows(MessageWriter& out, const TraceRows& rows);

/// The inverse. They throw BadMessage, also for what no trace can say.
TraceInfo get_info(MessageReader& in);
[[noreturn]] void throw_sent_error(MessageReader& in);
/// Columns empty; n_elements() of every dataset fits 64 bits.
RunBlock get_run(MessageReader& in);
/// No axis is filled beyond its extent.
TraceRows get_rows(MessageReader& in);

}  // namespace kvscope::trace
