// Runs that share an engine's steps: each reports what it reports alone, whatever the others do.
#include <algorithm>
#include <deque>
#include <limits>

#include "engine/core/study/measure/output_error.h"
#include "engine/core/support/error.h"
#include "engine/decode/run.h"
#include "engine/decode/run_memory.h"
#include "engine/model/weights.h"
#include "kernels/device.h"
#include "tests/engine/gated_model.h"
#include "tests/engine/policy_cases.h"
#include "tests/engine/reported_run.h"
#include "tests/engine/small_model.h"
#include "tests/support/folders.h"
#include "tests/support/skip.h"
#include "tests/support/torch_catch.h"  // before LibTorch

namespace kvscope::engine {
namespace {

using test::ReportedRun;

/// What a test does with the sink of run `index`, which reports to `run`.
using Prepare = std::function<void(int index, ReportedRun& run, RunSink& sink)>;

ReportedRun alone(const LoadedModel& model, const RunRequest& request, int index, const Prepare& prepare) {
  ReportedRun reported;
  RunSink sink = reported.sink();
  if (prepare) prepare(index, reported, sink);
  try {
    reported.end(execute_run(model, request, sink));
  } catch (...) {
    reported.fail(std::current_exception());
  }
  return reported;
}

std::deque<ReportedRun> together(const LoadedModel& model, int most, const std::vector<RunRequest>& requests,
                                 const Prepare& prepare = {}, std::optional<int> side = {}) {
  std::deque<ReportedRun> reported(requests.size());
  std::size_t next = 0;
  RunBatch(model, most, side.value_or(side_threads(model.weights().device))).run([&]() -> std::optional<BatchedRun> {
    if (next == requests.size()) return std::nullopt;
    ReportedRun& run = reported[next];
    BatchedRun job{.request = requests[next],
                   .sink = run.sink(),
                   .ended = [&run](const RunEnded& ended) { run.end(ended); },
                   .failed = [&run](const std::exception_ptr& error) { run.fail(error); }};
    if (prepare) prepare(static_cast<int>(next), run, job.sink);
    ++next;
    return job;
  });
  return reported;
}

/// The runs of a batch, which are as they are alone.
std::deque<ReportedRun> check_as_alone(const LoadedModel& model, int most, const std::vector<RunRequest>& requests,
                                       const Prepare& prepare = {}, std::optional<int> side = {}) {
  std::deque<ReportedRun> reported = together(model, most, requests, prepare, side);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    CAPTURE(i, requests[i].policy.to_string());
    const ReportedRun expected = alone(model, requests[i], static_cast<int>(i), prepare);
    REQUIRE(reported[i].events.size() == expected.events.size());
    for (std::size_t event = 0; event < expected.events.size(); ++event) {
      const nlohmann::json& one = expected.events[event];
      CAPTURE(event, one.is_object() ? one.value("type", "") : one.dump());
      REQUIRE(reported[i].events[event] == one);
    }
  }
  return reported;
}

/// Lengths, sampling, oracle and given answers differ from run to run.
RunRequest request_of(int index, const std::string& policy) {
  RunRequest request =
      test::request(test::some_ids(50 + 7 * (index % 5), 512, 7 + index), policy, index % 4 == 1 ? 5 : 30 + index % 7);
  request.oracle = index % 2 == 0;
  request.oracle_looks = index % 4 == 0;
  request.output_error = index % 5 == 0 && why_not_measurable(request.policy).empty();
  if (index % 3 == 2) {
    request.sampling.temperature = 0.8;
    request.sampling.seed = static_cast<std::uint64_t>(index);
  }
  if (index % 6 == 3) {
    request.answer_ids = test::some_ids(5, 512, 100 + index);
    request.draw_on = index % 12 == 3;
  }
  return request;
}

std::vector<RunRequest> requests_of(const std::vector<std::string>& policies) {
  std::vector<RunRequest> requests;
  for (const std::string& policy : policies) requests.push_back(request_of(static_cast<int>(requests.size()), policy));
  return requests;
}

std::string last_of(const ReportedRun& run) {
  const nlohmann::json& last = run.events.back();
  return last.is_string() ? last.get<std::string>() : last.value("status", "");
}

TEST_CASE("every policy's run in a batch reports what it reports alone, bit for bit", "[engine][batch]") {
  std::vector<std::string> policies;
  for (const test::PolicyCase& one : test::policy_cases()) policies.push_back(one.policy);
  check_as_alone(test::model_of_every_policy(), 9, requests_of(policies));
}

TEST_CASE("a batch of one is one run after the other", "[engine][batch]") {
  check_as_alone(test::small_model(), 1,
                 requests_of({"full", "kvpop:budget=40,sinks=4,window=16", "h2o:budget=40,window=16"}));
}

TEST_CASE("a text that is read in chunks joins a batch as any run", "[engine][batch]") {
  std::vector<RunRequest> requests = requests_of({"full", "streaming:window=16", "tova:budget=40", "full"});
  for (const int i : {1, 2}) {
    requests[i] = test::request(test::some_ids(70), i == 1 ? "streaming:window=16" : "tova:budget=40");
    requests[i].chunk = 16;
  }
  check_as_alone(test::small_model(), 3, requests);
}

TEST_CASE("a policy that changes within a batch changes for its own run alone", "[engine][batch]") {
  std::vector<RunRequest> requests = requests_of(std::vector<std::string>(6, "kvpop:budget=60,sinks=4,window=16"));
  for (const int i : {0, 3}) requests[i].changes = {{80, PolicySpec::parse("kvpop:budget=40,sinks=4,window=16")}};
  // As a user asks for it while the run goes on: of every second, and one of these changes cannot be.
  const Prepare asking = [](int index, ReportedRun& run, RunSink& sink) {
    if (index % 2 == 0) return;
    sink.next_policy = [&run, index, asked = false]() mutable -> std::optional<std::string> {
      if (run.n_new != 3 || std::exchange(asked, true)) return std::nullopt;
      return index == 5 ? "streaming:window=8" : "kvpop:budget=30,sinks=4,window=16";
    };
  };
  check_as_alone(test::small_model(), 4, requests, asking);
}

TEST_CASE("a run that ends at a stop string or the end of text leaves the others of its batch alone",
          "[engine][batch]") {
  const LoadedModel model = LoadedModel::load(test::in_source("samples/models/kvscope-tiny"), {"cpu", "float32"});
  std::vector<RunRequest> requests;
  for (const char* prompt : {"Numbers: 57 12 70. Reversed:", "Numbers: 31 8. Reversed:", "one two three", "a b c"}) {
    RunRequest request{.prompt = prompt, .policy = PolicySpec::parse("full"), .max_tokens = 30};
    request.stop = {requests.size() % 2 == 0 ? "1" : "8"};
    requests.push_back(request);
  }
  check_as_alone(model, 4, requests);
}

TEST_CASE("a run of a batch that is cancelled ends at its next token, and the others go on", "[engine][batch]") {
  const std::vector<RunRequest> requests =
      requests_of({"full", "kvpop:budget=40,sinks=4,window=16", "full", "streaming:window=16", "tova:budget=40"});
  const Prepare cancelling = [](int index, ReportedRun& run, RunSink& sink) {
    if (index == 0) sink.hooks.cancelled = [&run] { return run.n_new >= 20; };  // after a look of the oracle
    if (index == 2) sink.hooks.cancelled = [] { return true; };
  };
  const std::deque<ReportedRun> reported = check_as_alone(test::small_model(), 3, requests, cancelling);
  CHECK(last_of(reported[0]) == "cancelled");
  CHECK(reported[0].n_new == 20);
  CHECK(last_of(reported[2]) == "cancelled");
  CHECK(reported[2].n_new == 0);
  for (const int i : {1, 3, 4}) CHECK(last_of(reported[i]) == "complete");
}

TEST_CASE("a request that cannot be ends alone in one line, and those of its batch go on", "[engine][batch]") {
  std::vector<RunRequest> requests = requests_of(std::vector<std::string>(6, "full"));
  requests[0].prompt_ids = {1, 2, 600};
  requests[2].prompt_ids.clear();
  requests[2].raw = true;
  requests[4].policy = PolicySpec::parse("sp-kv");
  const std::deque<ReportedRun> reported = check_as_alone(test::small_model(), 3, requests);
  for (const int i : {0, 2, 4}) CHECK(reported[i].events.size() == 1);
  for (const int i : {1, 3, 5}) CHECK(last_of(reported[i]) == "complete");
}

TEST_CASE("a run of a batch whose numbers are not finite ends alone in one line", "[engine][batch]") {
  ModelConfig config = test::small_config();
  config.tie_word_embeddings = false;
  const LoadedModel model = LoadedModel::random(config, 1, {"cpu", "float32"});
  model.weights().embed[511].fill_(std::numeric_limits<float>::quiet_NaN());
  std::vector<RunRequest> requests = requests_of({"full", "streaming:window=16", "full", "h2o:budget=40,window=16"});
  for (RunRequest& request : requests) {
    for (std::int32_t& id : request.prompt_ids) id = std::min(id, 510);
    request.answer_ids.emplace(12, 7);
    request.max_tokens = 20;
  }
  (*requests[1].answer_ids)[4] = 511;  // in its step
  requests[2].prompt_ids[3] = 511;     // in its prompt
  const std::deque<ReportedRun> reported = check_as_alone(model, 4, requests);
  for (const int i : {1, 2}) CHECK(last_of(reported[i]).find("not finite") != std::string::npos);
  CHECK(reported[1].n_new == 4);
  CHECK(reported[2].n_new == 0);
  for (const int i : {0, 3}) CHECK(last_of(reported[i]) == "complete");
}

TEST_CASE("prompts and oracles beside the steps change no bit of any policy's run", "[engine][batch][side_work]") {
  const LoadedModel model = test::gated_model(test::gates_of_every_kind());
  std::vector<std::string> policies;
  for (const test::PolicyCase& one : test::policy_cases()) policies.push_back(one.policy);
  check_as_alone(model, 5, requests_of(policies), {}, 3);
}

TEST_CASE("a run that fails or is cancelled beside others ends alone", "[engine][batch][side_work]") {
  const LoadedModel model = test::small_model();
  std::vector<RunRequest> requests = requests_of(std::vector<std::string>(6, "streaming:sinks=4,window=28"));
  requests[1].prompt_ids[2] = 100'000;                        // no such token
  requests[4].policy = PolicySpec::parse("kvpop:budget=40");  // the model has no such gate
  const auto prepare = [](int index, ReportedRun&, RunSink& sink) {
    if (index == 2) sink.hooks.cancelled = [] { return true; };
  };
  const std::deque<ReportedRun> reported = check_as_alone(model, 3, requests, prepare, 2);
  for (const int i : {0, 3, 5}) CHECK(last_of(reported[i]) == "complete");
}

TEST_CASE("what a callback throws ends the batch", "[engine][batch]") {
  const LoadedModel model = test::small_model();
  int n = 0;
  RunBatch batch(model, 3, GENERATE(0, 2));
  const auto run = [&] {
    batch.run([&]() -> std::optional<BatchedRun> {
      if (++n > 4) return std::nullopt;
      return BatchedRun{.request = request_of(n, "full"),
                        .sink = {},
                        .ended = [](const RunEnded&) { throw Error({.file = "the client", .found = "gone"}); },
                        .failed = [](const std::exception_ptr&) {}};
    });
  };
  CHECK(test::error_of(run) == "the client: gone");
}

TEST_CASE("runs join a batch as long as half of the free memory is enough for them, and the first always",
          "[engine][batch]") {
  static_assert(has_room(0, 8, 900, 0, 100));
  static_assert(has_room(1, 8, 20, 30, 100));
  static_assert(!has_room(1, 8, 21, 30, 100));
  static_assert(has_room(7, 8, 0, 0, 100));
  static_assert(!has_room(8, 8, 0, 0, 100));
  CHECK(most_runs_at_once(false) == 8);
  CHECK(most_runs_at_once(true) == 32);
  const LoadedModel model = test::small_model();
  // 2 layers of 2 heads: a key and a value of 64 float32 a token.
  RunRequest request = test::request(test::some_ids(100), "full", 50);
  CHECK(run_bytes(model, request, 150) == 2 * 2 * 2 * 64 * 4 * 150);
  request.policy = PolicySpec::parse("streaming:sinks=4,window=28");
  const std::int64_t small = run_bytes(model, request, 150);
  CHECK(small >= 2 * 2 * 2 * 64 * 4 * 32);
  CHECK(small < 2 * 2 * 2 * 64 * 4 * 64);
  request.oracle = true;
  request.oracle_looks = false;
  CHECK(run_bytes(model, request, 150) == small);
  request.oracle_looks = true;  // keys and values of all tokens, and sums for each of 4 query heads
  CHECK(run_bytes(model, request, 150) == small + (2 * 2 * 2 * 64 * 4 + 2 * 4 * 4 * 4) * 150);
  CHECK(free_bytes(model) > 0);
}

TEST_CASE("on CUDA every policy's run in a batch reports what it reports alone, bit for bit", "[engine][batch][cuda]") {
  if (kernels::device_count() == 0) return test::skip("no CUDA device");
  const ModelConfig config = GENERATE(as<bool>{}, false, true) ? test::wide_config() : test::small_config();
  CAPTURE(config.head_dim);
  const LoadedModel model = test::gated_model(test::gates_of_every_kind(config), "cuda", "float32", config);
  std::vector<std::string> policies;
  for (const test::PolicyCase& one : test::policy_cases()) policies.push_back(one.policy);
  check_as_alone(model, 9, requests_of(policies));
  check_as_alone(model, 9, requests_of(policies), {}, 3);  // prompts and oracles on three threads
  CHECK(free_bytes(model) > 0);
}

}  // namespace
}  // namespace kvscope::engine
