#pragma once
// JSON as a stream of events, for files too large or too hostile for a tree: the caps of a wrapper, no nlohmann header.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/core/support/read_budget.h"

namespace kvscope {

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

/// Parses strictly. Malformed text, a key twice in one object, nesting, values or bytes past the limits: an Error
/// whose `where` is "line L, column C" (column in bytes, from 1) and whose file is `file`.
void stream_json(std::string_view text, const std::string& file, const ReadLimits& limits, JsonEvents& events);

}  // namespace kvscope
