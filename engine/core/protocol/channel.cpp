#include "engine/core/protocol/channel.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <ranges>
#include <string>
#include <vector>

#include "engine/core/protocol/cbor_check.h"
#include "engine/core/support/error.h"

namespace kvscope {
namespace {

using nlohmann::json;

constexpr std::size_t kPrefixBytes = 4;
// Memory follows what has arrived, not what a length claims; a first piece is what a pipe holds.
constexpr std::size_t kFirstBytes = 1 << 16, kChunkBytes = 1 << 20;

[[noreturn]] void fail(std::string found, std::string expected = {}) {
  throw Error({.file = "engine stream", .found = std::move(found), .expected = std::move(expected)});
}

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// Waits until a descriptor that somebody made non-blocking is ready again.
void wait_for(int fd, short events) {
  pollfd entry{fd, events, 0};
  while (::poll(&entry, 1, -1) < 0 && errno == EINTR) {
  }
}

/// Reads one message's bytes with what is left of a reader's patience.
class PatientReader {
 public:
  PatientReader(int fd, const Patience& patience) : fd_(fd), patience_(patience) {
    if (patience.whole >= milliseconds(0)) deadline_ = Clock::now() + patience.whole;
  }

  /// Reads `n` bytes into `bytes`; returns how many came before the stream ended.
  std::size_t read(std::size_t n, std::vector<std::uint8_t>& bytes) {
    std::size_t total = 0;
    bytes.clear();
    while (total < n && wait()) {
      if (total == bytes.size()) bytes.resize(std::min({n, std::max(2 * total, kFirstBytes), total + kChunkBytes}));
      const ssize_t got = ::read(fd_, bytes.data() + total, bytes.size() - total);
      if (got == 0) break;
      if (got > 0) {
        total += static_cast<std::size_t>(got);
        begun_ = true;
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        wait_for(fd_, POLLIN);
      } else if (errno != EINTR) {
        fail("cannot read: " + std::string(std::strerror(errno)));
      }
    }
    bytes.resize(total);
    return total;
  }

 private:
  /// Until there is something to read or the stream has ended. False: the writer has ended and left nothing.
  bool wait() const {
    const bool may_hang = deadline_ || (begun_ && patience_.silence >= milliseconds(0));
    if (!may_hang && patience_.writer_ended_fd < 0) return true;  // read() waits
    pollfd entries[] = {{fd_, POLLIN, 0}, {patience_.writer_ended_fd, POLLIN, 0}};
    const Clock::time_point start = Clock::now();
    while (true) {
      const milliseconds left = time_left(start);
      const int ready = ::poll(entries, 2, may_hang ? static_cast<int>(std::clamp<long>(left.count(), 0, 60'000)) : -1);
      if (ready > 0) return entries[0].revents != 0;
      if (ready < 0 && errno != EINTR) return true;
      if (ready == 0 && time_left(start) <= milliseconds(0)) {
        const milliseconds waited = begun_ ? patience_.silence : patience_.whole;
        fail("no answer for " + std::to_string(waited.count() / 1000) + " s" +
             (begun_ ? " in the middle of a message" : ""));
      }
    }
  }

  milliseconds time_left(Clock::time_point start) const {
    auto end = Clock::time_point::max();
    if (deadline_) end = *deadline_;
    if (begun_ && patience_.silence >= milliseconds(0)) end = std::min(end, start + patience_.silence);
    if (end == Clock::time_point::max()) return milliseconds(60'000);
    return std::chrono::ceil<milliseconds>(end - Clock::now());
  }

  int fd_;
  const Patience& patience_;
  std::optional<Clock::time_point> deadline_;
  bool begun_ = false;
};

/// Of the byte strings that are fields of the message itself.
std::size_t bulk_bytes(const json& message) {
  std::size_t bytes = 0;
  for (const json& field : message)
    if (field.is_binary()) bytes += field.get_binary().size();
  return bytes;
}

/// What nlohmann makes of it, with long byte strings copied at once.
json from_cbor(const std::vector<std::uint8_t>& bytes, const std::vector<LongBytes>& apart) {
  if (apart.empty()) return json::from_cbor(bytes);
  constexpr std::uint8_t kEmptyBytes = 0x40;
  std::vector<std::uint8_t> rest;
  std::size_t done = 0;
  for (const LongBytes& field : apart) {
    rest.insert(rest.end(), bytes.data() + done, bytes.data() + field.head);
    rest.push_back(kEmptyBytes);
    done = static_cast<std::size_t>(field.payload.data() - bytes.data()) + field.payload.size();
  }
  rest.insert(rest.end(), bytes.data() + done, bytes.data() + bytes.size());
  json message = json::from_cbor(rest);
  for (const LongBytes& field : apart | std::views::reverse) {  // of a key that comes again, the last counts
    json& value = message.at(std::string(field.key));
    if (value.is_binary() && value.get_binary().empty())
      value.get_binary().assign(field.payload.begin(), field.payload.end());
  }
  return message;
}

json parse_message(const std::vector<std::uint8_t>& bytes) {
  const std::vector<LongBytes> apart = check_cbor(bytes);
  json message;
  try {
    message = from_cbor(bytes, apart);
  } catch (const json::exception& error) {
    fail("a malformed message: " + std::string(error.what()), "one CBOR value");
  }
  const auto type = message.is_object() ? message.find("type") : message.end();
  if (!message.is_object() || type == message.end() || !type->is_string()) {
    fail("a message without a type", "an object with \"type\"");
  }
  return message;
}

}  // namespace

std::optional<json> Channel::read(const Patience& patience) {
  PatientReader reader(read_fd_, patience);
  std::vector<std::uint8_t> bytes;
  const std::size_t prefix = reader.read(kPrefixBytes, bytes);
  if (prefix == 0) return std::nullopt;
  if (prefix < kPrefixBytes) fail("a torn message: the stream ends inside a length");
  const std::uint32_t length = static_cast<std::uint32_t>(bytes[0]) | static_cast<std::uint32_t>(bytes[1]) << 8 |
                               static_cast<std::uint32_t>(bytes[2]) << 16 | static_cast<std::uint32_t>(bytes[3]) << 24;
  if (length > kMaxMessageBytes) {
    fail("a message of " + std::to_string(length) + " bytes", "at most " + std::to_string(kMaxMessageBytes));
  }
  const std::size_t got = reader.read(length, bytes);
  if (got < length) {
    fail("a torn message: the stream ends after " + std::to_string(got) + " of " + std::to_string(length) + " bytes");
  }
  last_read_bytes_ = bytes.size();
  return parse_message(bytes);
}

void Channel::check_length(std::size_t bytes) {
  if (bytes <= kMaxMessageBytes) return;
  fail("a message of " + std::to_string(bytes) + " bytes to send", "at most " + std::to_string(kMaxMessageBytes));
}

void Channel::write(const json& message) {
  std::vector<std::uint8_t> bytes;
  bytes.reserve(kPrefixBytes + bulk_bytes(message) + 4096);  // one that grows copies tens of megabytes again and again
  bytes.resize(kPrefixBytes);
  json::to_cbor(message, bytes);
  const std::size_t length = bytes.size() - kPrefixBytes;
  check_length(length);
  for (std::size_t i = 0; i < kPrefixBytes; ++i) bytes[i] = static_cast<std::uint8_t>(length >> (8 * i));

  const std::lock_guard lock(write_mutex_);
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ssize_t n = ::write(write_fd_, bytes.data() + sent, bytes.size() - sent);
    if (n >= 0) {
      sent += static_cast<std::size_t>(n);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      wait_for(write_fd_, POLLOUT);
    } else if (errno != EINTR) {
      throw Error({.code = ExitCode::resource,
                   .file = "engine stream",
                   .found = errno == EPIPE ? "the other side has closed the connection"
                                           : "cannot write: " + std::string(std::strerror(errno))});
    }
  }
}

}  // namespace kvscope
