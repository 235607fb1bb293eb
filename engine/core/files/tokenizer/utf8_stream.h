#pragma once
// Bytes of tokens to text for a screen: characters appear when they are whole, and never change afterwards.

#include <string>
#include <string_view>

namespace kvscope {

/// Valid UTF-8 from any bytes in any cuts. A character cut at the end waits for its rest; bytes that can no longer
/// become a character are U+FFFD, one for each longest valid beginning (as browsers and Python do).
class Utf8Stream {
 public:
  /// The text that `bytes` completes; may be empty.
  std::string push(std::string_view bytes);
  /// What still waits, as U+FFFD; the stream is then as new.
  std::string finish();
  /// Bytes that wait: 0 to 3.
  std::size_t pending() const { return pending_.size(); }

 private:
  std::string pending_;
};

}  // namespace kvscope
