#include "engine/core/protocol/channel.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/core/support/error.h"

namespace kvscope {
namespace {

using nlohmann::json;

constexpr std::size_t kPrefixBytes = 4;
constexpr std::size_t kChunkBytes = 1 << 20;  // memory follows what has arrived, not what a length claims
constexpr int kMaxDepth = 32;                 // the CBOR reader recurses: nesting without a limit is a stack overflow

[[noreturn]] void fail(std::string found, std::string expected = {}) {
  throw Error({.file = "engine stream", .found = std::move(found), .expected = std::move(expected)});
}

/// Waits until a descriptor that somebody made non-blocking is ready again.
void wait_for(int fd, short events) {
  pollfd entry{fd, events, 0};
  while (::poll(&entry, 1, -1) < 0 && errno == EINTR) {
  }
}

/// Appends `n` bytes to `bytes`; returns how many came before the stream ended.
std::size_t read_bytes(int fd, std::size_t n, std::vector<std::uint8_t>& bytes) {
  std::size_t total = 0;
  while (total < n) {
    const std::size_t start = bytes.size();
    const std::size_t want = std::min(n - total, kChunkBytes);
    bytes.resize(start + want);
    const ssize_t got = ::read(fd, bytes.data() + start, want);
    bytes.resize(start + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) break;
    if (got > 0) {
      total += static_cast<std::size_t>(got);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      wait_for(fd, POLLIN);
    } else if (errno != EINTR) {
      fail("cannot read: " + std::string(std::strerror(errno)));
    }
  }
  return total;
}

/// Walks through a message and stops at nesting deeper than kMaxDepth.
struct DepthCheck final : nlohmann::json_sax<json> {
  int depth = 0;
  bool open() { return ++depth <= kMaxDepth; }
  bool close() {
    --depth;
    return true;
  }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool key(string_t&) override { return true; }
  bool start_object(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }
};

json parse_message(const std::vector<std::uint8_t>& bytes) {
  DepthCheck check;
  if (!json::sax_parse(bytes, &check, json::input_format_t::cbor) && check.depth > kMaxDepth) {
    fail("a message nested deeper than " + std::to_string(kMaxDepth) + " levels");
  }
  json message;
  try {
    message = json::from_cbor(bytes);
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

std::optional<json> Channel::read() {
  std::vector<std::uint8_t> bytes;
  const std::size_t prefix = read_bytes(read_fd_, kPrefixBytes, bytes);
  if (prefix == 0) return std::nullopt;
  if (prefix < kPrefixBytes) fail("a torn message: the stream ends inside a length");
  const std::uint32_t length = static_cast<std::uint32_t>(bytes[0]) | static_cast<std::uint32_t>(bytes[1]) << 8 |
                               static_cast<std::uint32_t>(bytes[2]) << 16 | static_cast<std::uint32_t>(bytes[3]) << 24;
  if (length > kMaxMessageBytes) {
    fail("a message of " + std::to_string(length) + " bytes", "at most " + std::to_string(kMaxMessageBytes));
  }
  bytes.clear();
  const std::size_t got = read_bytes(read_fd_, length, bytes);
  if (got < length) {
    fail("a torn message: the stream ends after " + std::to_string(got) + " of " + std::to_string(length) + " bytes");
  }
  return parse_message(bytes);
}

void Channel::write(const json& message) {
  std::vector<std::uint8_t> bytes(kPrefixBytes);
  json::to_cbor(message, bytes);
  const std::size_t length = bytes.size() - kPrefixBytes;
  if (length > kMaxMessageBytes) {
    fail("a message of " + std::to_string(length) + " bytes to send", "at most " + std::to_string(kMaxMessageBytes));
  }
  for (std::size_t i = 0; i < kPrefixBytes; ++i) bytes[i] = static_cast<std::uint8_t>(length >> (8 * i));

  const std::lock_guard lock(write_mutex_);
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ssize_t n = ::write(write_fd_, bytes.data() + sent, bytes.size() - sent);
    if (n >= 0) {
      sent += static_cast<std::size_t>(n);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      wait_for(write_fd_, POLLOUT);
    } else if (errno != EINTR) {
      throw Error(
          {.code = ExitCode::resource,
           .file = "engine stream",
           .found = errno == EPIPE ? "the other end is gone" : "cannot write: " + std::string(std::strerror(errno))});
    }
  }
}

}  // namespace kvscope
