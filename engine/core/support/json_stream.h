#pragma once
// JSON as a stream of events, for files too large or too hostile for a tree: the caps of a wrapper, no nlohmann header.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kvscope {

struct JsonLimits {
  std::size_t max_bytes = 1u << 20;  // config 1 MiB, index and session 16 MiB, tokenizer 64 MiB
  int max_depth = 64;                // 8 for a safetensors header
};

/// Receives the values of a document in order. Throwing ends the parse; the exception passes through unchanged.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual void null() = 0;
  virtual void boolean(bool value) = 0;
  virtual void negative(std::int64_t value) = 0;                   // integers below zero
  virtual void natural(std::uint64_t value) = 0;                   // integers from zero
  virtual void real(double value, const std::string& digits) = 0;  // also integers past 64 bits, as written
  virtual void text(std::string& value) = 0;                       // may be moved from
  virtual void begin_object() = 0;
  virtual void key(std::string& name) = 0;  // may be moved from
  virtual void end_object() = 0;
  virtual void begin_array() = 0;
  virtual void end_array() = 0;
};

/// Parses strictly. Malformed text, a key twice in one object, nesting past the cap, too many bytes: an Error whose
/// `where` is "line L, column C" (column in bytes, from 1) and whose file is `file`.
void stream_json(std::string_view text, const std::string& file, const JsonLimits& limits, JsonEvents& events);

}  // namespace kvscope
