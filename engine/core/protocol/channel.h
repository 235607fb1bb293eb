#pragma once
// Length-prefixed CBOR over two file descriptors: 4 bytes little-endian length, then one CBOR value (an object with
// "type").

#include <chrono>
#include <cstdint>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>

namespace kvscope {

/// Messages larger than this are refused on both sides (a corrupt length must not become an allocation). What is not
/// bulk in them, texts and values, has the limits of cbor_check.h.
inline constexpr std::uint32_t kMaxMessageBytes = 256u << 20;

/// How long a reader waits for the other end, and how it learns that there is none. Negative: without end.
struct Patience {
  std::chrono::milliseconds whole{-1};    // for the whole of a message that has not begun
  std::chrono::milliseconds silence{-1};  // for the next byte of one that has
  /// Readable once the writing process has ended (a pidfd), or -1. Whoever else holds the pipe open (what it started and
  /// left) is then not waited for: what the process wrote is in the pipe already.
  int writer_ended_fd = -1;
};

/// One end of a conversation. read() and write() may be called from different threads; write() is serialised.
class Channel {
 public:
  Channel(int read_fd, int write_fd) : read_fd_(read_fd), write_fd_(write_fd) {}
  /// Next message, or nullopt at a clean end of stream. Throws Error for a torn or malformed message, a read error or
  /// when patience is over.
  std::optional<nlohmann::json> read(const Patience& patience = {});
  /// Of the message that read() gave last, as it came. For the thread that reads.
  std::size_t last_read_bytes() const { return last_read_bytes_; }
  /// Throws Error (resource) when the other end is gone. SIGPIPE must be ignored by the process.
  void write(const nlohmann::json& message);
  /// Throws Error (resource) for a message of more than kMaxMessageBytes.
  static void check_length(std::size_t bytes);

 private:
  int read_fd_, write_fd_;
  std::size_t last_read_bytes_ = 0;
  std::mutex write_mutex_;
};

}  // namespace kvscope
