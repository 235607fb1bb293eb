// Engines that are mute, slow, dying or lying: each ends in one line and exit code 3, soon and in little memory.

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/core/protocol/events.h"
#include "tests/app/process.h"

using namespace kvscope;
using nlohmann::json;
using test::TemporaryFolder;

namespace {

std::string framed(const json& message) {
  const std::vector<std::uint8_t> body = json::to_cbor(message);
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(body.size() >> (8 * i) & 0xFF);
  return bytes + std::string(body.begin(), body.end());
}

json hello() { return protocol::hello("0", "0", false, "cpu"); }

ModelInfo small_model() {
  ModelInfo model;
  model.name = "m", model.n_layers = 1, model.n_heads = 1, model.n_kv_heads = 1, model.head_dim = 8;
  model.vocab_size = 100, model.max_positions = 100, model.dtype = "float32", model.device = "cpu";
  return model;
}

test::Result run_with(const std::string& engine, const std::string& patience = "20",
                      std::vector<std::string> words = {"run", test::sample_model().string(), "--prompt", "x"}) {
  words.insert(words.begin(), test::kvscope().string());
  words.insert(words.end(), {"--engine", engine});
  if (words[1] != "doctor") words.push_back("--quiet");
  return test::run({.argv = words, .environment = {{"KVSCOPE_ENGINE_TIMEOUT", patience}}});
}

/// An engine that says all that at once, whatever it is asked, and then listens.
test::Result run_against(const std::vector<json>& messages,
                         std::vector<std::string> words = {"run", test::sample_model().string(), "--prompt", "x"}) {
  const TemporaryFolder folder;
  {
    std::ofstream file(folder / "said", std::ios::binary);
    for (const json& message : messages) file << framed(message);
  }
  return run_with("cat '" + (folder / "said").string() + "'; cat > /dev/null", "20", std::move(words));
}

void check_refused(const test::Result& result, const std::string& contains) {
  INFO(result.err);
  CHECK(result.exit_code == 3);
  CHECK(result.err.starts_with("error: "));
  CHECK(test::count_lines(result.err) == 1);
  CHECK(result.err.find("internal") == std::string::npos);
  CHECK(result.err.find("json.exception") == std::string::npos);
  CHECK(result.err.find(contains) != std::string::npos);
  CHECK(result.seconds < 30);
  CHECK(result.max_rss_bytes < (std::int64_t{1} << 30) * test::kShadow);
}

}  // namespace

TEST_CASE("An engine that never greets is given up after KVSCOPE_ENGINE_TIMEOUT") {
  check_refused(run_with("sleep 1000", "1"),
                "engine: it did not answer for 1 s (KVSCOPE_ENGINE_TIMEOUT=SECONDS waits longer)");
  check_refused(run_with("while :; do echo words >&2; sleep 0.01; done", "1"), "it did not answer for 1 s");
  const auto wrong = run_with("sleep 1000", "soon");
  CHECK(wrong.exit_code == 1);
  CHECK(wrong.err.find("KVSCOPE_ENGINE_TIMEOUT") != std::string::npos);
}

TEST_CASE("An engine that stops in the middle of a message is given up") {
  check_refused(run_with("printf '\\000\\000\\000\\020abc'; sleep 1000", "4"),
                "it did not answer for 4 s in the middle of a message");
  check_refused(run_with("printf '\\000\\000'; sleep 1000", "4"),
                "it did not answer for 4 s in the middle of a message");
}

TEST_CASE("An engine that ends is not waited for though what it started holds its streams") {
  const auto result = run_with("setsid sleep 25 & sleep 0.2; exit 7");
  check_refused(result, "exit code 7");
  CHECK(result.seconds < 15);
}

TEST_CASE("A message that is made to overflow the stack or the memory of its reader is refused") {
  const std::string start = "printf '\\377\\377\\377\\017\\242\\144type\\141x\\141a'; ";  // 256 MiB - 1
  check_refused(run_with(start + "head -c 268435445 /dev/zero | tr '\\0' '\\177'; sleep 9"), "indefinite length");
  check_refused(run_with("printf '\\377\\377\\377\\017\\242\\144type\\141x\\141a\\232\\017\\377\\377\\000'; "
                         "head -c 268435440 /dev/zero | tr '\\0' '\\200'; sleep 9"),
                "more than 262144 values");
}

TEST_CASE("Answers of the wrong type are one line about the message, with exit code 3") {
  const json load = protocol::done_load(1, small_model(), 0.1);
  json binary_text = protocol::progress(1, "load", 1, 2);
  binary_text["text"] = json::binary({1, 2});
  json no_model = load, model_of_texts = load, half_model = load, endless = protocol::progress(1, "load", 1, 2);
  no_model.erase("model");
  model_of_texts["model"] = "m";
  half_model["model"].erase("n_layers");
  endless["value"] = std::nan("");
  const json big_id = {{"type", "log"}, {"id", UINT64_MAX}, {"text", "x"}};
  const auto [message, field] = GENERATE_COPY(table<json, std::string>({
      {binary_text, "message progress: text"},
      {endless, "message progress: value"},
      {big_id, "message log: id"},
      {no_model, "message done: model: nothing"},
      {model_of_texts, "message done: model: string"},
      {half_model, "n_layers"},
      {json{{"type", "ended"}, {"reason", 3}}, "message ended"},
  }));
  check_refused(run_against({hello(), message}), field);
}

TEST_CASE("A greeting of the wrong type, or none, is one line with exit code 3") {
  json numbers = hello();
  numbers["engine"] = 7;
  check_refused(run_against({numbers}), "message hello: engine");
  check_refused(run_against({protocol::log(-1, "first")}), "not a greeting");
}

TEST_CASE("Events of a run that do not fit are one line with exit code 3") {
  const json load = protocol::done_load(1, small_model(), 0.1);
  json started = {{"type", "started"}, {"id", 2}, {"n_positions", "many"}};
  check_refused(run_against({hello(), load, started}), "message started: n_positions");
  check_refused(run_against({hello(), load, protocol::done(2, {{"status", "complete"}, {"text", json::array()}})}),
                "message done: text");
  const std::vector<std::string> score = {"score", test::sample_model().string(), "--text", "x"};
  check_refused(run_against({hello(), load, protocol::done(2, {{"ids", "x"}})}, score), "message done: ids");
  check_refused(run_against({hello(), load, protocol::done(2)}, score), "message done");
}

TEST_CASE("An engine whose doctor answers nonsense is a check that failed") {
  for (const json& answer : {json::array({3}), json("x"), json::array({json{{"name", 1}}})}) {
    const auto result = run_against({hello(), protocol::done(1, {{"checks", answer}})}, {"doctor"});
    INFO(result.err << result.out);
    CHECK(result.exit_code == 3);
    CHECK(result.out.find("message") != std::string::npos);
  }
}
