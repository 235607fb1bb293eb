// Small files that ask for much, up to 64 MiB: refused or read within 5 s on a core of their own, in less than a
// gigabyte. Twice that time is allowed here, because other tests share the core, and four times that under a sanitizer,
// as the suite's own time limit. Each runs in its own process, so that its peak memory can be measured.
// KVSCOPE_BOMBS=1 prints what each took. HDF5's bombs: tests/core/trace_bombs_test.cpp.

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>

#include "tests/core/gate_pt_support.h"
#include "tests/fuzz/format.h"
#include "tests/support/slowdown.h"

using namespace kvscope;
using test::le;

namespace {

constexpr std::size_t kMost = std::size_t{64} << 20, kMostOfTemplate = std::size_t{1} << 20;
constexpr double kMostSeconds = 10 * test::kSlowdown;

/// The part again and again, n_bytes or a little more.
std::string repeat(std::string_view part, std::size_t n_bytes) {
  const std::size_t whole = (n_bytes + part.size() - 1) / part.size() * part.size();
  std::string out(part);
  out.reserve(whole);
  while (out.size() < whole) out.append(out.data(), std::min(out.size(), whole - out.size()));
  return out;
}
std::string message(const std::string& body) { return le(body.size(), 4) + body; }
/// A map with a "type" and one value under "a".
std::string event(const std::string& value) { return message(std::string("\xa2\x64type\x63log\x61") + "a" + value); }
std::string tokenizer(const std::string& vocab, const std::string& merges) {
  return R"({"model":{"type":"BPE","vocab":{)" + vocab + R"(},"merges":[)" + merges + "]}}";
}
std::string weights(const std::string& header) { return le(header.size(), 8) + header; }

struct Bomb {
  const char* format;
  const char* name;
  std::string bytes;
};

std::vector<Bomb> json_bombs(const char* format) {
  return {{format, "arrays in each other", repeat("[", kMost)},
          {format, "objects in each other", repeat(R"({"a":)", kMost)},
          {format, "a list of nulls", "[" + repeat("0,", kMost - 2) + "0]"},
          {format, "one text", "\"" + repeat("\\u0041", kMost - 8) + "\""},
          {format, "a number of many digits", repeat("9", kMost)}};
}

std::vector<Bomb> cbor_bombs() {
  return {{"cbor", "empty arrays", event("\x9a" + std::string("\x03\xf0\x00\x00", 4) + repeat("\x80", 0x3f00000))},
          {"cbor", "nulls", event("\x9a" + std::string("\x03\xf0\x00\x00", 4) + repeat("\xf6", 0x3f00000))},
          {"cbor", "arrays in each other", event(repeat("\x81", kMost - 32))},
          {"cbor", "texts of indefinite length", event(repeat("\x7f", kMost - 32))},
          {"cbor", "2^64 - 1 values", event("\x9b" + repeat("\xff", 8))},
          {"cbor", "a map of 2^63 pairs", event("\xbb\x80" + std::string(7, '\0'))},
          {"cbor", "a text of 2^32 bytes", event("\x7a\xff\xff\xff\xff")},
          {"cbor", "256 MiB announced", le(256u << 20, 4)}};
}

std::vector<Bomb> archive_bombs() {
  std::vector<test::ZipPart> many(2000);  // a name stands twice in an archive
  for (std::size_t i = 0; i < many.size(); ++i) {
    many[i].name = many[i].local_name = "a/" + std::to_string(i) + repeat("x", 16000);
  }
  test::ZipPart huge{.name = "a/data/0", .data = "x"};
  huge.size = huge.stored = 0xfffffff0;
  test::ZipPart packed{.name = "a/data.pkl", .data = repeat("\xff", 1 << 20), .method = 8, .local_method = 8};
  packed.size = 0x7fffffff;
  using test::pickle_dict, test::pickle_tensor, test::pickle_text;
  const std::string begin = "\x80\x02";
  return {
      {"zip", "2000 names of 16 kB", test::zip_file(many)},
      {"zip", "an entry of 4 GiB", test::zip_file({huge})},
      {"zip", "a compressed entry", test::zip_file({packed})},
      {"zip", "a pickle of 60 MiB", test::small_file(repeat("N", 60u << 20))},
      {"zip", "a view of 10^12 elements",
       test::small_file(
           pickle_dict({pickle_text("x"), pickle_tensor({.shape = {1'000'000, 1'000'000}, .stride = {0, 0}})}))},
      {"pickle", "values", begin + "(" + repeat("N", kMost)},
      {"pickle", "marks", begin + repeat("(", kMost)},
      {"pickle", "tuples in each other", begin + ")" + repeat("\x85", kMost)},
      {"pickle", "tuples of 60000 again and again",
       begin + "(" + repeat("N", 60000) + "t" + std::string("q\0", 2) + repeat(std::string_view("h\0\x85", 3), kMost)},
      {"pickle", "a text of 4 GiB", begin + "X\xff\xff\xff\xff"}};
}

std::vector<Bomb> file_bombs() {
  std::string vocab, merges, tensors, names = "{{";
  for (int i = 0; names.size() < kMostOfTemplate - 32; ++i) names += "a" + std::to_string(i) + " ";
  for (int i = 0; vocab.size() < 30u << 20; ++i) {
    vocab += (i ? ",\"" : "\"") + std::to_string(i) + "\":" + std::to_string(i);
    merges += (i ? ",\"" : "\"") + std::to_string(i) + " 1\"";
  }
  for (int i = 0; tensors.size() < 60u << 20; ++i) {
    tensors += (i ? ",\"" : "\"") + std::to_string(i) + R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
  }
  return {{"safetensors", "a million empty tensors", weights("{" + tensors + "}")},
          {"safetensors", "a header of 2^64 - 8 bytes", le(~std::uint64_t{7}, 8) + "{}"},
          {"safetensors", "one name", weights("{\"" + repeat("x", kMost - 16))},
          {"tokenizer", "millions of tokens", tokenizer(vocab, merges)},
          {"tokenizer", "the last id", tokenizer(R"("a":4194303)", "")},
          {"tokenizer", "one long token", tokenizer("\"" + repeat("a", kMost - 100) + "\":1", "")},
          {"chat_template", "tags", repeat("{%if x%}", kMost)},
          {"chat_template", "one tag", "{{" + repeat("(", kMost)},
          {"chat_template", "words", "{{" + repeat("ab ", kMost) + "}}"},
          // What is not refused for its size.
          {"chat_template", "tags in one line", repeat("{%if x%}", kMostOfTemplate)},
          {"chat_template", "blanks and tags in one line", repeat(" {%if x%}", kMostOfTemplate - 16)},
          {"chat_template", "words that differ", names + "}}"}};
}

/// Reads it in a child. What is wrong, "" if nothing is.
std::string blow(std::vector<Bomb>& bombs, const Bomb& bomb) {
  const auto format = std::find_if(fuzz::formats().begin(), fuzz::formats().end(),
                                   [&](const fuzz::Format& f) { return f.name == bomb.format; });
  REQUIRE(format != fuzz::formats().end());
  const auto start = std::chrono::steady_clock::now();
  fuzz::memory_folder();  // ours, which goes with this process, not one of the child's
  const pid_t child = ::fork();
  if (child == 0) {
    // What does not come back would hold the suite.
    const rlimit limit{static_cast<rlim_t>(kMostSeconds) + 1, static_cast<rlim_t>(kMostSeconds) + 2};
    ::setrlimit(RLIMIT_CPU, &limit);
    for (Bomb& other : bombs)
      if (&other != &bomb) std::string().swap(other.bytes);
    fuzz::forget_peak();  // its parent's
    const std::string wrong = fuzz::read_anything(*format, bomb.bytes);
    if (!wrong.empty()) std::fprintf(stderr, "%s\n", wrong.c_str());
    ::_exit(wrong.empty() ? 0 : 1);
  }
  int status = 0;
  rusage used{};
  ::wait4(child, &status, 0, &used);
  const double cpu = static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                     static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (std::getenv("KVSCOPE_BOMBS")) {
    std::fprintf(stderr, "%-14s %-32s %7.3f s of CPU %6.1f s %5ld MiB\n", bomb.format, bomb.name, cpu, seconds,
                 used.ru_maxrss / 1024);
  }
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU) return "more than " + std::to_string(cpu) + " s of CPU";
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return "wait status " + std::to_string(status);
  if (used.ru_maxrss >= (1 << 20) * test::kShadow) return std::to_string(used.ru_maxrss / 1024) + " MiB";
  // Of its own time: other tests run beside this one. The clock is for what waits.
  if (cpu >= kMostSeconds || seconds >= 60 * test::kSlowdown)
    return std::to_string(cpu) + " s of CPU, " + std::to_string(seconds) + " s";
  return "";
}

void blow_all(std::vector<Bomb> bombs) {
  for (const Bomb& bomb : bombs) {
    CAPTURE(bomb.format, bomb.name, bomb.bytes.size());
    CHECK(bomb.bytes.size() <= kMost + (std::size_t{1} << 17));
    CHECK(blow(bombs, bomb) == "");
  }
}

}  // namespace

TEST_CASE("JSON that asks for much costs a config little", "[fuzz][bombs]") { blow_all(json_bombs("config")); }
TEST_CASE("JSON that asks for much costs a recipe little", "[fuzz][bombs]") { blow_all(json_bombs("recipe")); }
TEST_CASE("JSON that asks for much costs a tokenizer little", "[fuzz][bombs]") { blow_all(json_bombs("tokenizer")); }
TEST_CASE("Messages that ask for much cost little", "[fuzz][bombs]") { blow_all(cbor_bombs()); }
TEST_CASE("Archives and pickles that ask for much cost little", "[fuzz][bombs]") { blow_all(archive_bombs()); }
TEST_CASE("Weights, tokenizers and templates that ask for much cost little", "[fuzz][bombs]") {
  blow_all(file_bombs());
}
