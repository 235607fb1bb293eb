#pragma once
// Length-prefixed CBOR over two file descriptors: 4 bytes little-endian length, then one CBOR value (an object with
// "type").

#include <functional>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>

namespace kvscope {

/// Messages larger than this are refused on both sides (a corrupt length must not become an allocation).
inline constexpr std::uint32_t kMaxMessageBytes = 256u << 20;

/// One end of a conversation. read() and write() may be called from different threads; write() is serialised.
class Channel {
 public:
  Channel(int read_fd, int write_fd) : read_fd_(read_fd), write_fd_(write_fd) {}
  /// Next message, or nullopt at a clean end of stream. Throws Error for a torn or malformed message or a read error.
  std::optional<nlohmann::json> read();
  /// Throws Error (resource) when the other end is gone. SIGPIPE must be ignored by the process.
  void write(const nlohmann::json& message);

 private:
  int read_fd_, write_fd_;
  std::mutex write_mutex_;
};

}  // namespace kvscope
