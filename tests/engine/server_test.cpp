// Conversations with kvscope-engine as a real process.
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "engine/core/protocol/events.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/support/error.h"
#include "engine/decode/run.h"
#include "tests/engine/engine_process.h"
#include "tests/support/folders.h"
#include "tests/support/skip.h"

namespace kvscope {
namespace {

using nlohmann::json;

const std::filesystem::path kSample = test::in_source("samples/models/kvscope-tiny");

bool has_sample() { return std::filesystem::exists(kSample / "model.safetensors"); }

json load_request(int id, const std::string& model = kSample.string()) {
  return {{"type", "load"}, {"id", id}, {"model", model}, {"device", "cpu"}, {"dtype", "float32"}};
}

RunRequest short_run() {
  RunRequest request;
  request.prompt = "The code of the amber falcon is 4821.\n";
  for (int i = 0; i < 12; ++i) request.prompt += "Every house in the street has a garden with an old wall around it. ";
  request.prompt += "\nWhat is the code of the amber falcon?";
  request.policy = PolicySpec::parse("kvpop:budget=96,sinks=4,window=64");
  request.max_tokens = 24;
  return request;
}

TEST_CASE("a run through the protocol is the run itself: same ids, lifetimes, scores, contests and oracle",
          "[engine][server]") {
  if (!has_sample()) return test::skip("the sample model is not there");
  test::EngineProcess engine;
  CHECK(engine.hello().at("version") == protocol::kVersion);
  const json loaded = engine.call(load_request(1)).back();
  REQUIRE(loaded.at("type") == "done");

  RunRecord run;
  run.model = protocol::model_info_from_json(loaded.at("model"));
  RunRequest request = short_run();
  request.oracle_looks = false;  // as record_run() has it: sums of the same parts
  const auto events = engine.call(protocol::to_json(request, 2), [&](const json& event) {
    CHECK(event.at("id") == 2);
    protocol::apply_event(run, event);
  });
  REQUIRE(events.back().at("type") == "done");

  const engine::LoadedModel model = engine::LoadedModel::load(kSample, {"cpu", "float32"});
  const RunRecord direct = engine::record_run(model, short_run());
  CHECK(run.status == RunStatus::complete);
  CHECK(run.ids == direct.ids);
  CHECK(run.pieces.bytes() == direct.pieces.bytes());
  CHECK(run.evict_at == direct.evict_at);
  CHECK(run.contests == direct.contests);
  CHECK(run.future_mass.row(0, 0).size() == static_cast<std::size_t>(run.n_tokens()));
  const auto bytes = [](const std::vector<float>& row) {
    return std::string(reinterpret_cast<const char*>(row.data()), row.size() * sizeof(float));
  };
  CHECK(bytes(run.future_mass.row(3, 2)) == bytes(direct.future_mass.row(3, 2)));
  CHECK(bytes(run.future.output_rms.row(3, 2)) == bytes(direct.future.output_rms.row(3, 2)));
  CHECK(run.oracle_horizon == run.n_tokens());
  for (int layer = 0; layer < run.model.n_layers; ++layer) {
    for (int head = 0; head < run.model.n_kv_heads; ++head) {
      for (int t = 0; t + 64 < run.n_tokens(); ++t) {
        REQUIRE(run.scores.row(layer, head)[t] == direct.scores.row(layer, head)[t]);
      }
    }
  }
  CHECK(!run.contests.empty());
  engine.send({{"type", "quit"}, {"id", 3}});
  CHECK(WEXITSTATUS(engine.wait()) == 0);
}

TEST_CASE("a request that cannot be served is answered with its code, and the engine stays", "[engine][server]") {
  test::EngineProcess engine;
  const auto code = [&](const json& request) {
    const json last = engine.call(request).back();
    REQUIRE(last.at("id") == request.at("id"));
    return last.at("type") == "error" ? static_cast<int>(protocol::error_from_event(last).code()) : 0;
  };
  const auto folder = std::filesystem::temp_directory_path() / ("kvscope-empty-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  CHECK(code(load_request(1, "/nonexistent/model")) == 2);
  CHECK(code(load_request(2, folder.string())) == 2);
  CHECK(code(protocol::to_json(short_run(), 3)) == 1);  // no model
  CHECK(code({{"type", "dance"}, {"id", 4}}) == 1);
  CHECK(code({{"type", "job"}, {"id", 5}, {"job", "dig"}, {"args", json::object()}}) == 1);
  CHECK(code({{"type", "load"}, {"id", 6}}) != 0);  // no path
  CHECK(code({{"type", "doctor"}, {"id", 7}}) == 0);
  std::filesystem::remove_all(folder);
  if (!has_sample()) return test::skip("the sample model is not there");
  CHECK(code({{"type", "load"}, {"id", 8}, {"model", kSample.string()}, {"device", "abacus"}}) == 1);
  CHECK(code(load_request(9)) == 0);
  json unknown_policy = protocol::to_json(short_run(), 10);
  unknown_policy["policy"] = "nonsense";
  CHECK(code(unknown_policy) == 1);
  RunRequest other_window = short_run();
  other_window.policy = PolicySpec::parse("kvpop:budget=96,sinks=4,window=32");
  CHECK(code(protocol::to_json(other_window, 11)) == 2);
  CHECK(code(protocol::to_json(short_run(), 12)) == 0);
}

TEST_CASE("a damaged model is refused with exit code 2, one line and its file's name", "[engine][server]") {
  if (!has_sample()) return test::skip("the sample model is not there");
  const auto folder = std::filesystem::temp_directory_path() / ("kvscope-damaged-" + std::to_string(getpid()));
  std::filesystem::copy(kSample, folder);
  const std::string file = GENERATE("model.safetensors", "config.json", "kvpop_scorer.safetensors", "tokenizer.json");
  std::filesystem::resize_file(folder / file, std::filesystem::file_size(folder / file) / 2);
  test::EngineProcess engine;
  const json answer = engine.call(load_request(1, folder.string())).back();
  std::filesystem::remove_all(folder);
  REQUIRE(answer.at("type") == "error");
  const Error error = protocol::error_from_event(answer);
  CHECK(error.code() == ExitCode::bad_input);
  CHECK(error.parts().file.find(file) != std::string::npos);
  CHECK(std::string(error.what()).find('\n') == std::string::npos);
}

TEST_CASE("cancel ends a run at the next token, and the next run is served", "[engine][server]") {
  if (!has_sample()) return test::skip("the sample model is not there");
  test::EngineProcess engine;
  engine.call(load_request(1));
  RunRequest request = short_run();
  request.max_tokens = 1500;
  request.stop_at_eos = false;
  request.oracle = false;
  int steps = 0;
  const auto events = engine.call(protocol::to_json(request, 2), [&](const json& event) {
    if (event.at("type") == "step" && ++steps == 4) engine.send({{"type", "cancel"}, {"id", 3}, {"target", 2}});
  });
  CHECK(events.back().at("status") == "cancelled");
  CHECK(steps < 1000);
  CHECK(engine.call(protocol::to_json(short_run(), 4)).back().at("status") == "complete");
}

TEST_CASE("a waiting request can be cancelled before its turn", "[engine][server]") {
  if (!has_sample()) return test::skip("the sample model is not there");
  test::EngineProcess engine;
  engine.send(load_request(1));
  engine.send(protocol::to_json(short_run(), 2));
  engine.send({{"type", "cancel"}, {"id", 3}, {"target", 2}});
  std::string status;
  int steps = 0;
  while (status.empty()) {
    const json event = engine.read().value();
    steps += event.at("type") == "step";
    if (event.at("type") == "done" && event.at("id") == 2) status = event.at("status");
  }
  CHECK(status == "cancelled");
  CHECK(steps <= 1);
}

/// The events of these requests, sent at once, by id. `on_event` sees each as it comes.
std::map<int, std::vector<json>> events_of(test::EngineProcess& engine, const std::vector<json>& requests,
                                           const std::function<void(const json&)>& on_event = {}) {
  for (const json& request : requests) engine.send(request);
  std::map<int, std::vector<json>> events;
  for (std::size_t n_open = requests.size(); n_open > 0;) {
    const json event = engine.read().value();
    if (on_event) on_event(event);
    n_open -= event.at("type") == "done" || event.at("type") == "error";
    events[event.at("id").get<int>()].push_back(event);
  }
  return events;
}

/// Without what no two runs share.
std::vector<json> timeless(std::vector<json> events) {
  std::erase_if(events, [](const json& event) { return event.at("type") == "progress"; });
  for (json& event : events) {
    for (const char* field : {"id", "seconds", "timings"}) event.erase(field);
  }
  return events;
}

TEST_CASE("runs that are sent at once are under way at once, and each is what it is alone", "[engine][server][batch]") {
  if (!has_sample()) return test::skip("the sample model is not there");
  test::EngineProcess engine;
  const int most = engine.hello().at("runs_at_once");
  CHECK(most >= 8);
  CHECK(engine.call(load_request(1)).back().at("runs_at_once") == 8);
  std::vector<json> requests;
  for (const char* policy :
       {"kvpop:budget=96,sinks=4,window=64", "full", "tova:keep=40%", "nonsense", "streaming:window=32",
        "h2o:keep=50%,window=16", "snapkv:budget=80", "quest:read=32", "random:keep=30%,window=16", "full"}) {
    RunRequest request = short_run();
    request.oracle = requests.size() % 2 == 0;
    request.output_error = requests.size() == 4;
    request.sampling.temperature = requests.size() % 3 == 0 ? 0 : 0.9;
    requests.push_back(protocol::to_json(request, static_cast<int>(10 + requests.size())));
    requests.back()["policy"] = policy;
  }
  int n_turns = 0, last = -1;
  const auto together = events_of(engine, requests, [&](const json& event) {
    n_turns += event.at("id") != last;
    last = event.at("id");
  });
  CHECK(n_turns > 50);
  for (const json& request : requests) {
    CAPTURE(request.at("policy"));
    CHECK(timeless(together.at(request.at("id"))) == timeless(engine.call(request)));
  }
}

TEST_CASE("a cancel ends its own run among several, and what is no run waits for those before it",
          "[engine][server][batch]") {
  if (!has_sample()) return test::skip("the sample model is not there");
  test::EngineProcess engine;
  engine.call(load_request(1));
  std::vector<json> requests;
  RunRequest request = short_run();
  request.oracle = request.stop_at_eos = false;
  request.max_tokens = 60;
  for (const int id : {2, 3, 4}) requests.push_back(protocol::to_json(request, id));
  const json doctor = {{"type", "doctor"}, {"id", 5}};
  requests.insert(requests.begin() + 2, doctor);
  int steps = 0;
  std::vector<int> ends;
  const auto events = events_of(engine, requests, [&](const json& event) {
    if (event.at("id") == 2 && event.at("type") == "step" && ++steps == 4)
      engine.send({{"type", "cancel"}, {"id", 9}, {"target", 2}});
    if (event.at("type") == "done") ends.push_back(event.at("id"));
  });
  CHECK(events.at(2).back().at("status") == "cancelled");
  CHECK(events.at(2).size() < 40);
  CHECK(ends == std::vector<int>{2, 3, 5, 4});
  CHECK(timeless(events.at(3)) == timeless(events.at(4)));
}

TEST_CASE("a run whose oracle does not look on the way has one oracle event, at its end", "[engine][server]") {
  if (!has_sample()) return test::skip("the sample model is not there");
  test::EngineProcess engine;
  engine.call(load_request(1));
  RunRequest request = short_run();
  request.stop_at_eos = false;
  const auto looks = [&](bool wanted) {
    request.oracle_looks = wanted;
    std::vector<bool> final;
    for (const json& event : engine.call(protocol::to_json(request, 2)))
      if (event.at("type") == "oracle") final.push_back(event.at("final"));
    return final;
  };
  CHECK(looks(false) == std::vector<bool>{true});
  CHECK(looks(true) == std::vector<bool>{false, false, true});
}

TEST_CASE("the engine ends with code 0 when its client goes away, in the middle of a run too", "[engine][server]") {
  test::EngineProcess engine;
  if (has_sample() && GENERATE(false, true)) {
    engine.call(load_request(1));
    RunRequest request = short_run();
    request.max_tokens = 1500;
    for (const int id : {2, 3, 4}) engine.send(protocol::to_json(request, id));
    engine.read();
  }
  engine.close_input();
  while (engine.read()) continue;
  const int status = engine.wait();
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("an engine that dies in mid-decode has told every token before", "[engine][server]") {
  if (!has_sample()) return test::skip("the sample model is not there");
  const std::map<std::string, std::string> environment{{"KVSCOPE_ENGINE_CRASH_AT_TOKEN", "5"}};
  test::EngineProcess engine(environment);
  engine.call(load_request(1));
  int steps = 0;
  const auto events =
      engine.call(protocol::to_json(short_run(), 2), [&](const json& event) { steps += event.at("type") == "step"; });
  CHECK(steps == 6);  // the prompt and five tokens
  CHECK(events.back().at("type") != "done");
  const int status = engine.wait();
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGABRT);
}

TEST_CASE("score gives each token's log-probability and their mean", "[engine][server]") {
  if (!has_sample()) return test::skip("the sample model is not there");
  test::EngineProcess engine;
  engine.call(load_request(1));
  const json done =
      engine.call({{"type", "score"}, {"id", 2}, {"text", short_run().prompt}, {"policy", "full"}}).back();
  const std::vector<float> logprobs = protocol::unpack_f32(done, "logprobs");
  REQUIRE(logprobs.size() == protocol::unpack_i32(done, "ids").size());
  double sum = 0;
  for (std::size_t i = 1; i < logprobs.size(); ++i) {
    REQUIRE(logprobs[i] <= 0);
    sum -= logprobs[i];
  }
  CHECK(done.at("nll").get<double>() == Approx(sum / static_cast<double>(logprobs.size() - 1)));
}

TEST_CASE("score with choices tells what greedy decoding would take, and the density of every head",
          "[engine][server]") {
  if (!has_sample()) return test::skip("the sample model is not there");
  test::EngineProcess engine;
  const ModelInfo info = protocol::model_info_from_json(engine.call(load_request(1)).back().at("model"));
  RunRecord run;
  run.model = info;
  const auto request = short_run();
  for (const json& event : engine.call(protocol::to_json(request, 2))) protocol::apply_event(run, event);
  const json score = {{"type", "score"},
                      {"id", 3},
                      {"ids", protocol::pack(run.ids)},
                      {"policy", run.policy.to_string()},
                      {"n_positions", run.n_positions},
                      {"choices", true}};
  const json done = engine.call(score).back();
  REQUIRE(done.at("type") == "done");
  const auto greedy = protocol::unpack_i32(done, "greedy");
  const auto logprobs = protocol::unpack_f32(done, "logprobs"), density = protocol::unpack_f32(done, "density");
  REQUIRE(greedy.size() == run.ids.size());
  CHECK(greedy[0] == -1);
  // The run was greedy, so each token of its answer is the choice at its position.
  for (int i = run.prompt_len; i < run.n_tokens(); ++i) CHECK(greedy[i] == run.ids[i]);
  for (int i = 1; i < run.n_tokens(); ++i) CHECK(logprobs[i] == Approx(run.logprobs[i]).margin(2e-3));
  const HeadMap recorded = head_metric(run, Metric::density, run.queries() - 1);
  REQUIRE(density.size() == recorded.values.size());
  for (std::size_t i = 0; i < density.size(); ++i) CHECK(density[i] == Approx(recorded.values[i]).margin(1e-6));

  json too_few = score;
  too_few["n_positions"] = run.n_tokens() - 1;
  CHECK(engine.call(too_few).back().at("type") == "error");
}

TEST_CASE("score says what was done: how often the policy acted, and whether any query missed a token",
          "[engine][server]") {
  if (!has_sample()) return test::skip("the sample model is not there");
  test::EngineProcess engine;
  engine.call(load_request(1));
  const auto score = [&](const char* policy, int chunk) {
    ScoreRequest request{.text = short_run().prompt, .ids = {}, .policy = PolicySpec::parse(policy)};
    request.chunk = chunk;
    return protocol::score_from_event(engine.call(protocol::to_json(request, 2)).back());
  };
  const ScoreFacts full = score("full", 1), tova = score("tova:budget=8", 1), chunked = score("tova:budget=8", 4);
  REQUIRE(full.ids.size() > 12);
  CHECK(full.dense);
  CHECK_FALSE(tova.dense);
  CHECK(tova.chunk == 1);
  CHECK(chunked.chunk == 4);
  CHECK(tova.prompt_len == 0);
  CHECK(tova.nll != full.nll);
  CHECK(chunked.nll != tova.nll);
  CHECK(score("tova:budget=1000", 1).dense);  // it had no reason to evict
}

TEST_CASE("bench decode checks its steps and tells their distance from the floor", "[engine][server][bench]") {
  if (!has_sample()) return test::skip("the sample model is not there");
  test::EngineProcess engine;
  const json args = {{"model", kSample.string()},
                     {"device", "cpu"},
                     {"prompt_tokens", 400},
                     {"max_tokens", 8},
                     {"repeats", 5},
                     {"batch", 2}};  // of 2 the median is theirs whom others kept waiting
  int rows = 0;
  const json done = engine
                        .call({{"type", "job"}, {"id", 1}, {"job", "bench"}, {"args", args}},
                              [&](const json& event) { rows += event.at("type") == "row"; })
                        .back();
  REQUIRE(done.at("type") == "done");
  CHECK(rows == 2);  // everything kept, and kvpop
  for (const json& row : done.at("result").at("rows")) {
    CHECK(row.at("check_error").get<double>() < 1e-3);
    CHECK(row.at("ms_per_step").at("min").get<double>() > 0);
    CHECK(row.at("bytes_per_step").get<double>() > 4.0 * 6e6);  // float32, every one of the sample's weights
    CHECK(row.at("recording_ratio").get<double>() > 0.2);
    // Of a CPU the read rate is taken around each repetition, and the floor is that of its median.
    const json& rate = row.at("read_bytes_per_s");
    CHECK(rate.at("min").get<double>() > 1e8);
    CHECK(rate.at("min").get<double>() <= rate.at("max").get<double>());
    CHECK(row.at("floor_ms").get<double>() ==
          Approx(row.at("bytes_per_step").get<double>() / rate.at("median").get<double>() * 1e3));
  }
  CHECK(done.at("result").at("rows")[1].at("bytes_per_step") != done.at("result").at("rows")[0].at("bytes_per_step"));

  const json too_long = {{"model", kSample.string()}, {"device", "cpu"}, {"prompt_tokens", 2000}};
  const json refused = engine.call({{"type", "job"}, {"id", 2}, {"job", "bench"}, {"args", too_long}}).back();
  CHECK(refused.at("type") == "error");
}

TEST_CASE("bench prefill checks its result and tells its distance from the floor", "[engine][server][bench]") {
  if (!has_sample()) return test::skip("the sample model is not there");
  test::EngineProcess engine;
  const json args = {{"name", "prefill"}, {"model", kSample.string()},
                     {"device", "cpu"},   {"prompt_tokens", 300},
                     {"chunk", 64},       {"repeats", 2}};
  const json done = engine.call({{"type", "job"}, {"id", 1}, {"job", "bench"}, {"args", args}}).back();
  REQUIRE(done.at("type") == "done");
  const json& result = done.at("result");
  CHECK(result.at("matrix_flops_per_s").get<double>() > 1e8);  // the slowest machine does more
  CHECK(result.at("read_bytes_per_s").get<double>() > 1e8);
  REQUIRE(result.at("rows").size() == 2);
  for (const json& row : result.at("rows")) {
    CHECK(row.at("check_error").get<double>() < 1e-3);
    CHECK(row.at("ratio_to_floor").get<double>() > 0.5);  // nothing is faster than the products that it consists of
    CHECK(row.at("tokens_per_s").at("min").get<double>() <= row.at("tokens_per_s").at("max").get<double>());
  }
}

}  // namespace
}  // namespace kvscope
