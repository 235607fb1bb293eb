// Messages through real pipes: whole, in pieces, torn, malformed.
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "engine/core/protocol/channel.h"
#include "engine/core/protocol/events.h"
#include "engine/core/protocol/message_writer.h"
#include "engine/core/support/error.h"

using namespace kvscope;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

struct Pipe {
  int ends[2] = {-1, -1};
  Pipe() { REQUIRE(::pipe(ends) == 0); }
  ~Pipe() {
    close_read();
    close_write();
  }
  void close_read() { close_end(0); }
  void close_write() { close_end(1); }
  void put(const std::string& bytes) { REQUIRE(::write(ends[1], bytes.data(), bytes.size()) == ssize_t(bytes.size())); }

 private:
  void close_end(int i) {
    if (ends[i] >= 0) ::close(ends[i]);
    ends[i] = -1;
  }
};

std::string framed(const std::string& body) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(body.size() >> (8 * i) & 0xFF);
  return bytes + body;
}

std::string cbor(const json& value) {
  const std::vector<std::uint8_t> bytes = json::to_cbor(value);
  return {bytes.begin(), bytes.end()};
}

json large_message(std::size_t n_bytes) {
  std::vector<std::uint8_t> bytes(n_bytes);
  for (std::size_t i = 0; i < n_bytes; ++i) bytes[i] = static_cast<std::uint8_t>(i * 31);
  return {{"type", "step"}, {"data", json::binary(bytes)}, {"seed", UINT64_MAX}, {"value", -0.1}};
}

/// The error of reading these bytes as the whole of a stream.
std::string read_error(const std::string& bytes) {
  Pipe pipe;
  pipe.put(bytes);
  pipe.close_write();
  Channel channel(pipe.ends[0], -1);
  try {
    channel.read();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// The error of reading this message, which may be larger than a pipe.
std::string message_error(const std::string& body) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  const std::string bytes = framed(body);
  REQUIRE(std::fwrite(bytes.data(), 1, bytes.size(), file.get()) == bytes.size());
  std::rewind(file.get());
  Channel channel(::fileno(file.get()), -1);
  try {
    channel.read();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("channel: messages come out as they went in, and a clean end is nullopt", "[core][protocol]") {
  Pipe pipe;
  Channel out(-1, pipe.ends[1]), in(pipe.ends[0], -1);
  const json first = large_message(100), second = {{"type", "log"}, {"text", "\xE2\x82 not UTF-8"}};
  out.write(first);
  out.write(second);
  pipe.close_write();
  CHECK(in.read().value() == first);
  CHECK(in.read().value() == second);
  CHECK_FALSE(in.read().has_value());
  CHECK_FALSE(in.read().has_value());
}

TEST_CASE("channel: a message larger than the pipe is written and read in parts", "[core][protocol]") {
  Pipe pipe;
  const bool non_blocking = GENERATE(false, true);
  if (non_blocking) {
    for (int fd : pipe.ends) REQUIRE(::fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
  }
  const json message = large_message(5'000'000);  // a pipe holds 64 KiB
  std::thread writer([&] { Channel(-1, pipe.ends[1]).write(message); });
  const auto got = Channel(pipe.ends[0], -1).read();
  writer.join();
  CHECK(got.value() == message);
}

TEST_CASE("channel: byte strings of every length, in the message and deeper, are what nlohmann reads",
          "[core][protocol]") {
  const auto bytes = [](std::size_t n) { return large_message(n)["data"]; };
  const std::size_t n = GENERATE(0, 1, 4095, 4096, 4097, 70000, 3000000);
  json message{{"type", "t"},
               {"a", bytes(n)},
               {"b", 7},
               {"c", bytes(n / 2)},
               {"list", {bytes(n), 1, bytes(n / 3)}},
               {"map", {{"a", bytes(n)}}},
               {"z", bytes(n + 1)},
               {"text", "x"}};
  Pipe pipe;
  Channel channel(pipe.ends[0], pipe.ends[1]);
  std::thread writer([&] { channel.write(message); });
  const auto read = channel.read();
  writer.join();
  REQUIRE(read);
  CHECK(*read == message);
}

TEST_CASE("channel: of a key that comes twice, the last counts", "[core][protocol]") {
  const std::string first = cbor(std::vector<json>{large_message(5000)["data"]}).substr(1),
                    second = cbor(std::vector<json>{large_message(6000)["data"]}).substr(1);
  const std::string type = std::string("\x64type\x61t", 7);
  for (const auto& [last, expected] :
       {std::pair{second, large_message(6000)["data"]}, {std::string("\x05"), json(5)}}) {
    Pipe pipe;
    Channel channel(pipe.ends[0], pipe.ends[1]);
    pipe.put(framed("\xa3" + type +
                    "\x61"
                    "a" +
                    first +
                    "\x61"
                    "a" +
                    last));
    CHECK(channel.read()->at("a") == expected);
  }
}

TEST_CASE("channel: bytes that arrive one by one make a message", "[core][protocol]") {
  Pipe pipe;
  std::thread writer([&] {
    for (const char c : framed(cbor({{"type", "hello"}, {"version", 1}}))) {
      if (::write(pipe.ends[1], &c, 1) != 1) break;
      std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
  });
  const auto got = Channel(pipe.ends[0], -1).read();
  writer.join();
  CHECK(got.value()["version"] == 1);
}

TEST_CASE("channel: signals do not disturb reading and writing", "[core][protocol]") {
  struct sigaction quiet = {}, before = {};
  quiet.sa_handler = [](int) {};  // without SA_RESTART: read and write return EINTR
  REQUIRE(::sigaction(SIGUSR1, &quiet, &before) == 0);
  Pipe pipe;
  const json message = large_message(3'000'000);
  std::atomic<bool> stop = false;
  std::atomic<int> n_read = 0;
  std::thread reader([&] {
    Channel in(pipe.ends[0], -1);
    while (const auto got = in.read()) n_read += *got == message;
  });
  std::thread writer([&] {
    for (int i = 0; i < 10; ++i) Channel(-1, pipe.ends[1]).write(message);
    pipe.close_write();
  });
  const pthread_t targets[] = {reader.native_handle(), writer.native_handle()};
  std::thread pest([&] {
    while (!stop) {
      for (const pthread_t target : targets) ::pthread_kill(target, SIGUSR1);
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  });
  while (n_read < 10) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  stop = true;
  pest.join();  // before the threads it points at
  writer.join();
  reader.join();
  ::sigaction(SIGUSR1, &before, nullptr);
  CHECK(n_read == 10);
}

TEST_CASE("channel: several threads may write, and their messages stay whole", "[core][protocol]") {
  Pipe pipe;
  Channel out(-1, pipe.ends[1]);
  std::vector<std::thread> writers;
  for (int w = 0; w < 4; ++w) {
    writers.emplace_back([&out, w] {
      for (int i = 0; i < 50; ++i) out.write({{"type", "row"}, {"w", w}, {"i", i}, {"pad", std::string(3000, 'x')}});
    });
  }
  Channel in(pipe.ends[0], -1);
  std::vector<int> next(4, 0);
  for (int n = 0; n < 200; ++n) {
    const json message = in.read().value();
    CHECK(message["i"] == next[message["w"].get<int>()]++);
  }
  for (std::thread& writer : writers) writer.join();
}

TEST_CASE("channel: a stream cut anywhere inside a message is torn", "[core][protocol]") {
  const std::string whole = framed(cbor({{"type", "hello"}, {"version", 1}}));
  CHECK(read_error("") == "");  // a clean end
  for (std::size_t n = 1; n < whole.size(); ++n) {
    INFO("after " << n << " of " << whole.size() << " bytes");
    CHECK_THAT(read_error(whole.substr(0, n)), Contains("torn message"));
  }
  CHECK(read_error(whole) == "");
}

TEST_CASE("channel: malformed messages of every kind are errors", "[core][protocol]") {
  CHECK_THAT(read_error(framed("")), Contains("malformed"));
  CHECK_THAT(read_error(framed("\xFF")), Contains("malformed"));
  CHECK_THAT(read_error(framed("hello, I am not CBOR")), Contains("malformed"));
  const std::string good = cbor({{"type", "log"}, {"text", "x"}});
  CHECK_THAT(read_error(framed(good + "x")), Contains("malformed"));                              // one byte too many
  CHECK_THAT(read_error(framed(good.substr(0, good.size() - 1))), Contains("malformed"));         // one too few
  CHECK_THAT(read_error(framed("\x9B\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF")), Contains("malformed"));  // array of 2^63
  CHECK_THAT(read_error(framed("\x5B\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF")), Contains("malformed"));  // bytes of 2^63
  CHECK_THAT(read_error(framed(cbor(json::array({1, 2})))), Contains("without a type"));
  CHECK_THAT(read_error(framed(cbor({{"id", 3}}))), Contains("without a type"));
  CHECK_THAT(read_error(framed(cbor({{"type", 3}}))), Contains("without a type"));
  CHECK_THAT(read_error(framed(cbor(nullptr))), Contains("without a type"));
}

TEST_CASE("channel: nesting without end is refused, not followed", "[core][protocol]") {
  CHECK_THAT(read_error(framed(std::string(60'000, '\x81'))), Contains("nested deeper"));  // arrays of one array
  std::string objects;
  for (int i = 0; i < 15'000; ++i) objects += "\xA1\x61k";
  CHECK_THAT(read_error(framed(objects)), Contains("nested deeper"));
  json deep = 1;
  for (int i = 0; i < 20; ++i) deep = json::array({deep});
  CHECK(read_error(framed(cbor({{"type", "row"}, {"data", deep}}))) == "");
}

TEST_CASE("channel: strings of indefinite length are refused, however deep they nest", "[core][protocol]") {
  const std::string start = "\xA2\x64type\x61x\x61\x61";
  for (const char head : {'\x7F', '\x5F', '\x9F', '\xBF'}) {
    CHECK_THAT(message_error(start + std::string(5'000'000, head)), Contains("malformed") && Contains("indefinite"));
  }
  CHECK_THAT(message_error(start + "\x7F\x61x\xFF"), Contains("indefinite"));
  CHECK_THAT(message_error(start + std::string(5'000'000, '\xC1')), Contains("malformed message: a tag"));
}

TEST_CASE("channel: millions of small values are refused before they take memory", "[core][protocol]") {
  for (const char value : {'\x80', '\xF6', '\x60', '\x40', '\x01'}) {
    const std::string values(64u << 20, value);  // half a GiB and more as a tree
    CHECK_THAT(message_error("\xA2\x64type\x61x\x61\x61\x9A" + std::string("\x04\0\0\0", 4) + values),
               Contains("more than 262144 values"));
  }
  const json many = {{"type", "row"}, {"data", std::vector<int>(200'000, 7)}};
  CHECK(message_error(cbor(many)) == "");
}

TEST_CASE("channel: texts have a lower limit than bulk", "[core][protocol]") {
  const std::vector<std::uint8_t> bulk(70u << 20);
  CHECK(message_error(cbor({{"type", "step"}, {"data", json::binary(bulk)}})) == "");
  CHECK_THAT(message_error(cbor({{"type", "log"}, {"text", std::string(70u << 20, 'x')}})),
             Contains("more than 67108864 bytes"));
}

TEST_CASE("channel: a reader's patience has an end before a message and inside one", "[core][protocol]") {
  using std::chrono::milliseconds;
  Pipe pipe;
  Channel in(pipe.ends[0], -1);
  const auto start = std::chrono::steady_clock::now();
  CHECK_THROWS_WITH(in.read({.whole = milliseconds(50)}), Contains("engine stream: no answer for 0 s"));
  const std::string message = framed(cbor({{"type", "hello"}}));
  pipe.put(message.substr(0, 6));
  CHECK_THROWS_WITH(in.read({.silence = milliseconds(50)}), Contains("no answer for 0 s in the middle of a message"));
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(30));
  Pipe whole;
  whole.put(message);
  CHECK(Channel(whole.ends[0], -1).read({.whole = milliseconds(50), .silence = milliseconds(50)}).has_value());
}

TEST_CASE("channel: a pipe that a stranger holds open ends with the writer, once it is empty", "[core][protocol]") {
  Pipe pipe, writer;
  writer.close_write();  // readable from now on, as the descriptor of an ended process
  pipe.put(framed(cbor({{"type", "log"}})));
  Channel in(pipe.ends[0], -1);
  CHECK(in.read({.writer_ended_fd = writer.ends[0]}).has_value());
  CHECK_FALSE(in.read({.writer_ended_fd = writer.ends[0]}).has_value());
}

TEST_CASE("channel: a length above the limit is refused without an allocation", "[core][protocol]") {
  CHECK_THAT(read_error("\xFF\xFF\xFF\xFF"), Contains("4294967295 bytes") && Contains("at most 268435456"));
  CHECK_THAT(read_error(std::string("\x01\x00\x00\x10", 4)), Contains("268435457 bytes"));
  // A length that is allowed but never delivered costs only what arrived.
  CHECK_THAT(read_error(std::string("\x00\x00\x00\x10", 4) + "abc"), Contains("after 3 of 268435456 bytes"));
}

TEST_CASE("channel: writing to an end that is gone is a resource error", "[core][protocol]") {
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  Pipe pipe;
  pipe.close_read();
  Channel out(-1, pipe.ends[1]);
  try {
    out.write({{"type", "quit"}});
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::resource);
    CHECK_THAT(error.what(), Contains("the other side has closed the connection"));
  }
  std::signal(SIGPIPE, before);
}

TEST_CASE("channel: a descriptor that cannot be read is an error", "[core][protocol]") {
  Channel channel(-1, -1);
  CHECK_THROWS_WITH(channel.read(), Contains("cannot read"));
}

namespace {

/// Facts of a step as large as those of a prompt.
StepFacts large_facts(int n) {
  StepFacts facts{.n_tokens = n, .ids = {7}, .logprobs_from = n - 1, .logprobs = {-1.5f}};
  facts.pieces.push_back("x");
  for (int i = 0; i < n; ++i) {
    facts.lifetimes.push_back({i % 5, i % 3, i, i + 9});
    facts.scores.push_back({i % 5, i % 3, i, 0.25f * static_cast<float>(i)});
    facts.contests.push_back({.q = i,
                              .layer = 4,
                              .kv_head = 2,
                              .newcomer = i - 3,
                              .boundary = i - 8,
                              .newcomer_effective = 1.0f,
                              .boundary_effective = -2.0f,
                              .evicted = i - 8});
  }
  return facts;
}

}  // namespace

TEST_CASE("message writer: what is written comes in its order, facts as their events", "[core][protocol]") {
  Pipe pipe;
  Channel out(-1, pipe.ends[1]), in(pipe.ends[0], -1);
  std::vector<json> wanted;
  std::vector<json> got;
  std::thread reader([&] {
    while (std::optional<json> message = in.read()) got.push_back(std::move(*message));
  });
  {
    MessageWriter writer(out);
    for (int i = 0; i < 20; ++i) {
      const StepFacts facts = large_facts(100 * i);
      wanted.push_back(protocol::to_json(facts, i));
      writer.write_facts(facts, i);
      wanted.push_back(protocol::log(i, "after it"));
      writer.write(wanted.back());
      if (i == 10) writer.flush();
    }
  }
  pipe.close_write();
  reader.join();
  CHECK(got == wanted);
}

TEST_CASE("message writer: the bytes of facts are those of their message, but for a few hundred", "[core][protocol]") {
  const auto message_bytes = [](const json& event) { return json::to_cbor(event).size(); };
  const StepFacts step = large_facts(1000);
  CHECK(protocol::bulk_bytes(step) <= message_bytes(protocol::to_json(step, 1)));
  CHECK(protocol::bulk_bytes(step) + 400 >= message_bytes(protocol::to_json(step, 1)));

  OracleFacts oracle{.horizon = 500, .recall = std::vector<float>(6, 0.5f), .final = true};
  oracle.future_mass = HeadSeries<float>(3, 2);
  for (int layer = 0; layer < 3; ++layer)
    for (int head = 0; head < 2; ++head) oracle.future_mass.row(layer, head).assign(500, 0.1f);
  oracle.future.max = oracle.future_mass;
  CHECK(protocol::bulk_bytes(oracle) == 2 * 6 * 500 * sizeof(float));
  CHECK(protocol::bulk_bytes(oracle) + 400 >= message_bytes(protocol::to_json(oracle, 1)));
}

TEST_CASE("message writer: after a client has gone, whoever writes hears of it", "[core][protocol]") {
  ::signal(SIGPIPE, SIG_IGN);
  Pipe pipe;
  Channel out(-1, pipe.ends[1]);
  MessageWriter writer(out);
  pipe.close_read();
  writer.write(large_message(100));
  CHECK_THROWS_WITH(writer.flush(), Contains("closed the connection"));
  CHECK_THROWS_WITH(writer.write(protocol::log(1, "more")), Contains("closed the connection"));
}

TEST_CASE("message writer: facts that no channel carries are refused at once, and the conversation goes on",
          "[core][protocol]") {
  Pipe pipe;
  Channel out(-1, pipe.ends[1]), in(pipe.ends[0], -1);
  MessageWriter writer(out);
  OracleFacts huge{.horizon = 1 << 20, .recall = std::vector<float>(288, 0.5f), .final = true};
  huge.future_mass = HeadSeries<float>(36, 8);
  huge.future_mass.row(0, 0).assign(1, 0.1f);
  CHECK_THROWS_WITH(writer.write_facts(std::move(huge), 1), Contains("bytes to send"));
  writer.write(protocol::log(1, "still here"));
  CHECK(in.read().value()["text"] == "still here");
}

TEST_CASE("message writer: a reader that waits makes the writers wait, and gets all", "[core][protocol]") {
  Pipe pipe;
  Channel out(-1, pipe.ends[1]), in(pipe.ends[0], -1);
  std::atomic<int> n_given = 0;
  const StepFacts facts = large_facts(1'000'000);  // 64 MB
  const int n_that_fit = static_cast<int>(MessageWriter::kMostBytes / protocol::bulk_bytes(facts));
  std::thread giver([&] {
    MessageWriter writer(out);
    for (int i = 0; i < 6; ++i, ++n_given) writer.write_facts(facts, i);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  CHECK(n_given <= n_that_fit);
  for (int i = 0; i < 6; ++i) CHECK(in.read().value()["id"] == i);
  giver.join();
  CHECK(n_given == 6);
}
