// Recordings: another program's run in a file, read as an engine's events are.

#include "engine/core/protocol/recording.h"

#include <fcntl.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/core/policy/declared_policy.h"
#include "engine/core/protocol/channel.h"
#include "engine/core/protocol/events.h"
#include "engine/core/support/file.h"
#include "engine/core/support/json_file.h"
#include "engine/core/support/random.h"
#include "engine/core/trace/trace_file.h"
#include "tests/core/trace_support.h"
#include "tests/support/declarations.h"
#include "tests/support/expect_error.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using namespace kvscope::test;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

constexpr const char* kPolicy = "t.record:budget=64,sinks=4,window=16";

json greeting() {
  return {{"type", "hello"},       {"version", 2},
          {"engine", "recording"}, {"torch", ""},
          {"cuda", false},         {"device", ""},
          {"name", "my-loop 0.3"}, {"policies", {declared_json("t.record", "Recorded (test)", "top_k")}},
          {"recording", 1}};
}

/// What is known after each query: of the prompt's last, then of each token.
StepFacts facts_at(const RunRecord& run, int q) {
  const bool is_prompt = q == run.prompt_len - 1;
  const int begin = is_prompt ? 0 : q;
  StepFacts facts{.n_tokens = q + 1, .logprobs_from = begin};
  facts.logprobs.assign(run.logprobs.begin() + begin, run.logprobs.begin() + q + 1);
  if (!is_prompt) facts.ids = {run.ids[static_cast<std::size_t>(q)]};
  if (!is_prompt) facts.pieces.push_back(run.pieces[static_cast<std::size_t>(q)]);
  for (int layer = 0; layer < run.model.n_layers; ++layer) {
    for (int head = 0; head < run.model.n_kv_heads; ++head) {
      for (int t = 0; t <= q; ++t) {
        const std::int32_t at = run.evict_at.row(layer, head)[static_cast<std::size_t>(t)];
        if (at <= q && (is_prompt || at == q)) facts.lifetimes.push_back({layer, head, t, at});
        const float score = run.scores.row(layer, head)[static_cast<std::size_t>(t)];
        if (t >= begin && score == score) facts.scores.push_back({layer, head, t, score});
      }
    }
  }
  return facts;
}

/// The messages of a recording of `run`, as docs/protocol.md has them.
std::vector<json> messages_of(const RunRecord& run) {
  RunStarted started{.head = run};
  started.ids.assign(run.ids.begin(), run.ids.begin() + run.prompt_len);
  for (int t = 0; t < run.prompt_len; ++t) started.pieces.push_back(run.pieces[static_cast<std::size_t>(t)]);
  std::vector<json> list = {greeting(), protocol::done_load(1, run.model, 0), protocol::to_json(started, 2)};
  list[2]["policy"] = kPolicy;
  const std::vector<float> recall(static_cast<std::size_t>(run.model.n_layers * run.model.n_kv_heads), std::nanf(""));
  for (int q = run.prompt_len - 1; q < run.n_tokens(); ++q) list.push_back(protocol::to_json(facts_at(run, q), 2));
  list.push_back(protocol::to_json(OracleFacts{run.n_tokens(), recall, true, run.future_mass, run.future}, 2));
  list.push_back(protocol::to_json(RunEnded{RunStatus::complete, run.timings, "answer"}, 2));
  return list;
}

std::filesystem::path write(const std::filesystem::path& path, const std::vector<json>& messages) {
  const FileHandle file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600));
  Channel channel(-1, file.get());
  for (const json& message : messages) channel.write(message);
  return path;
}

RunRecord recorded_run() {
  return random_run(3, {.policy = "top-k:budget=64,sinks=4,window=16", .prompt_len = 90, .n_new = 30});
}

/// The line of a recording whose messages were changed so.
std::string line_of(const ScratchFolder& folder, const std::function<void(std::vector<json>&)>& change) {
  std::vector<json> messages = messages_of(recorded_run());
  change(messages);
  return error_of([&] { protocol::read_recording(write(folder / "changed.kvs", messages)); });
}

}  // namespace

TEST_CASE("A recording is the run that was recorded, and its trace opens without whoever recorded it",
          "[core][recording]") {
  const ScratchFolder folder;
  const RunRecord run = recorded_run();
  const RunRecord read = protocol::read_recording(write(folder / "a.kvs", messages_of(run)));
  CHECK(read.ids == run.ids);
  CHECK(read.prompt_len == run.prompt_len);
  CHECK(read.recorder == "my-loop 0.3");
  CHECK(read.status == RunStatus::complete);
  CHECK(read.asked == nullptr);
  CHECK(read.policy.declared != nullptr);
  CHECK(read.policy.name == "t.record");
  for (int layer = 0; layer < run.model.n_layers; ++layer) {
    for (int head = 0; head < run.model.n_kv_heads; ++head) {
      INFO("layer " << layer << " head " << head);
      for (int t = 0; t < run.n_tokens(); ++t) {
        const auto at = static_cast<std::size_t>(t);
        const std::int32_t was = run.evict_at.row(layer, head)[at], is = read.evict_at.row(layer, head)[at];
        CHECK((was < run.n_tokens() ? is == was : is >= run.n_tokens()));
      }
      CHECK(read.future_mass.row(layer, head).size() == run.future_mass.row(layer, head).size());
    }
  }
  save_trace(folder / "a.h5", read, false);
  const RunRecord opened = load_trace(folder / "a.h5");
  CHECK(opened.recorder == "my-loop 0.3");
  CHECK(opened.policy.to_string() == read.policy.to_string());
  CHECK(opened.policy.declared->declaration.title == "Recorded (test)");
  CHECK(run_difference(opened, read) == "");
}

TEST_CASE("A recording that lies or has no end is refused with the message and the field", "[core][recording]") {
  const ScratchFolder folder;
  const auto line = [&](auto change) { return line_of(folder, change); };
  using Messages = std::vector<json>;
  CHECK(line([](Messages&) {}) == "no error");
  CHECK_THAT(line([](Messages& m) { m.pop_back(); }), Contains("the end of the file; expected done"));
  CHECK_THAT(line([](Messages& m) { m.push_back(m.back()); }), Contains("a message after the end of the run"));
  CHECK_THAT(line([](Messages& m) { m[0]["version"] = 3; }), Contains("message 1, ") && Contains("version"));
  CHECK_THAT(line([](Messages& m) { m[0]["recording"] = 2; }), Contains("recording"));
  CHECK_THAT(line([](Messages& m) { m[0].erase("name"); }), Contains("who recorded the run"));
  CHECK_THAT(line([](Messages& m) { m[2]["policy"] = "t.other"; }), Contains("no policy named \"t.other\""));
  CHECK_THAT(line([](Messages& m) { m[0]["policies"][0]["name"] = "kvpop"; }), Contains("kvpop"));
  CHECK_THAT(line([](Messages& m) { m[3]["id"] = 7; }),
             Contains("message 4, ") && Contains("2, as of the run's start"));
  CHECK_THAT(line([](Messages& m) { std::swap(m[4], m[5]); }), Contains("message 5, "));
  CHECK_THAT(line([](Messages& m) { m[5]["n_tokens"] = 7; }), Contains("n_tokens"));
  CHECK_THAT(line([](Messages& m) { m[1] = m[2]; }), Contains("expected done"));
}

TEST_CASE("A file of another kind is no recording, in one line", "[core][recording]") {
  const ScratchFolder folder;
  const auto line = [&](const char* name, const std::string& bytes) {
    std::ofstream(folder / name, std::ios::binary) << bytes;
    return error_of([&] { protocol::read_recording(folder / name); });
  };
  CHECK_THAT(line("a.txt", "some notes of a person"), Contains("a.txt: not a recording; expected a .kvs or .npz file"));
  CHECK_THAT(line("a.kvs", ""), Contains("a.kvs: message 1: the end of the file; expected hello"));
  CHECK_THAT(error_of([&] { protocol::read_recording(folder / "none.kvs"); }), Contains("none.kvs"));
}

TEST_CASE("Of 1,000 damaged recordings each is refused in one line or is a whole run", "[core][recording]") {
  const ScratchFolder folder;
  const std::filesystem::path whole = write(folder / "whole.kvs", messages_of(recorded_run()));
  const std::string bytes = read_file(whole, std::size_t{1} << 30);
  Random random(11);
  int refused = 0;
  for (int i = 0; i < 1000; ++i) {
    std::string damaged = bytes;
    const int changes = 1 + i % 4;
    for (int n = 0; n < changes; ++n) damaged[random.below(damaged.size())] = static_cast<char>(random.below(256));
    if (i % 5 == 0) damaged.resize(random.below(damaged.size()));
    const auto path = folder / "damaged.kvs";
    std::ofstream(path, std::ios::binary) << damaged;
    INFO("damage " << i);
    try {
      const RunStatus status = protocol::read_recording(path).status;  // outside of a CHECK, which takes what is thrown
      CHECK(status != RunStatus::running);
    } catch (const Error& error) {
      ++refused;
      CHECK(error.code() == ExitCode::bad_input);
      CHECK_THAT(error.what(), Contains("damaged.kvs") && !Contains("\n"));
    }
  }
  CHECK(refused > 200);  // every cut file, and most changes outside a run's numbers
}
