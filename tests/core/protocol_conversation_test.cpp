// A run told as a conversation gives the run again; and no event, however wrong, gets past apply_event().
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "engine/core/protocol/channel.h"
#include "engine/core/protocol/events.h"
#include "engine/core/protocol/protocol.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/study/measure/what_if.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using Catch::Matchers::Contains;
using nlohmann::json;
using test::random_run;
using test::run_difference;

namespace {

constexpr int kId = 7;

/// The facts that queries from ... to - 1 bring to light.
StepFacts facts_of(const RunRecord& run, int from, int to) {
  StepFacts facts{.n_tokens = to, .logprobs_from = from, .seconds = 0.01};
  facts.logprobs.assign(run.logprobs.begin() + from, run.logprobs.begin() + to);
  const int window = run.geometry().window;
  for (int layer = 0; layer < run.model.n_layers; ++layer) {
    for (int head = 0; head < run.model.n_kv_heads; ++head) {
      const auto& evict_at = run.evict_at.row(layer, head);
      for (int t = 0; t < to; ++t) {
        if (evict_at[t] >= from && evict_at[t] < to) facts.lifetimes.push_back({layer, head, t, evict_at[t]});
      }
      for (int t = std::max(0, from - window); t < to - window; ++t) {
        facts.scores.push_back({layer, head, t, run.scores.row(layer, head)[t]});
      }
    }
  }
  for (const Contest& c : run.contests) {
    if (c.q >= from && c.q < to) facts.contests.push_back(c);
  }
  return facts;
}

void add_token(StepFacts& facts, const RunRecord& run, int t) {
  facts.ids.push_back(run.ids[t]);
  facts.pieces.push_back(run.pieces[t]);
}

/// The run as an engine would tell it: prompt, prefill, one step a token, the oracle twice, the end.
std::vector<json> conversation(const RunRecord& run) {
  BytePool pieces;
  for (int t = 0; t < run.prompt_len; ++t) pieces.push_back(run.pieces[t]);
  std::vector<json> events;
  events.push_back(protocol::to_json(RunStarted{.head = {.n_positions = run.n_positions,
                                                         .page_size = run.page_size,
                                                         .policy = run.policy,
                                                         .scorer = run.scorer,
                                                         .oracle = {},
                                                         .heads = run.heads},
                                                .ids = {run.ids.begin(), run.ids.begin() + run.prompt_len},
                                                .pieces = pieces},
                                     kId));
  events.push_back(protocol::progress(kId, "prefill", 0, run.prompt_len));
  events.push_back(protocol::to_json(facts_of(run, 0, run.prompt_len), kId));
  for (int t = run.prompt_len; t < run.n_tokens(); ++t) {
    StepFacts facts = facts_of(run, t, std::min(t + 1, run.queries()));
    add_token(facts, run, t);
    if (t >= run.queries()) facts.logprobs = {run.logprobs[t]};  // sampled, not fed
    events.push_back(protocol::to_json(facts, kId));
  }
  const HeadMap recall = head_metric(run, Metric::mean_recall, run.queries() - 1);
  events.push_back(protocol::to_json(OracleFacts{run.queries() / 2, recall.values, false, {}, {}}, kId));
  events.push_back(
      protocol::to_json(OracleFacts{run.queries(), recall.values, true, run.future_mass, run.future}, kId));
  if (!run.output_error.empty()) events.push_back(protocol::to_json(OutputErrorFacts{run.output_error}, kId));
  events.push_back(protocol::to_json(RunEnded{run.status, run.timings, "the answer"}, kId));
  return events;
}

/// What the client knows before the first event.
RunRecord client_record(const RunRecord& run) {
  RunRecord record;
  record.model = run.model;
  record.sampling = run.sampling;
  record.prompt_text = run.prompt_text;
  record.asked = run.asked;
  record.started_utc = run.started_utc;
  return record;
}

RunRecord told(const RunRecord& run, std::size_t n_events) {
  RunRecord record = client_record(run);
  const std::vector<json> events = conversation(run);
  for (std::size_t i = 0; i < std::min(n_events, events.size()); ++i) protocol::apply_event(record, events[i]);
  return record;
}

/// Applies an event that must be refused, and checks that the record stayed as it was. Returns the error's text.
std::string refusal(const RunRecord& record, const json& event) {
  RunRecord copy = record;
  try {
    protocol::apply_event(copy, event);
  } catch (const Error& error) {
    CHECK(run_difference(copy, record) == "");
    return error.what();
  }
  return "";
}

json with(json event, const char* key, json value) {
  event[key] = std::move(value);
  return event;
}
json without(json event, const char* key) {
  event.erase(key);
  return event;
}
json i32(const std::vector<std::int32_t>& values) { return protocol::pack(values); }
json f32(const std::vector<float>& values) { return protocol::pack(values); }

RunRequest run_request_from_json(const json& message) {
  return std::get<RunRequest>(protocol::request_from_json(message));
}

}  // namespace

TEST_CASE("An answer that ends inside a character is UTF-8 in its end's event", "[core][protocol]") {
  const RunEnded cut{RunStatus::complete, {}, "caf\xc3"};
  CHECK(protocol::to_json(cut, 1)["text"] == "caf\uFFFD");
}

TEST_CASE("conversation: a run told through a pipe is the same run", "[core][protocol]") {
  const std::string policy = GENERATE("full", "streaming:window=16", "threshold:window=16,threshold=0.2",
                                      "kvpop:budget=50,window=16,decay=0.999,stride=2");
  const bool fed = GENERATE(true, false);
  RunRecord run = random_run(21, {.policy = policy, .output_error = fed, .last_token_fed = fed});
  if (fed) {
    test::set_heads(run, &HeadRule::log_gamma, std::vector<float>{-0.5f, 0, -0.25f, -1e-6f, 0, -2});
    test::set_heads(run, &HeadRule::threshold, std::vector<float>{0.5f, 0, -0.25f, 1e-6f, 0, 2});
    test::set_heads(run, &HeadRule::locality,
                    std::vector<Locality>{Locality::global, Locality::policy, Locality::model, {}, {}, {}});
  }
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  std::thread engine([&] {
    Channel out(-1, ends[1]);
    for (const json& event : conversation(run)) out.write(event);
    ::close(ends[1]);
  });
  RunRecord record = client_record(run);
  Channel in(ends[0], -1);
  while (const auto event = in.read()) protocol::apply_event(record, *event);
  engine.join();
  ::close(ends[0]);
  CHECK(run_difference(record, run) == "");
}

TEST_CASE("conversation: a run cut off at any event is a run so far, and can be ended", "[core][protocol]") {
  const RunRecord run = random_run(5, {.policy = "kvpop:budget=50,window=16"});
  const std::size_t n_events = conversation(run).size();
  for (std::size_t n = 1; n < n_events; n += 7) {
    RunRecord record = told(run, n);
    INFO(n << " of " << n_events << " events");
    CHECK(record.status == RunStatus::running);
    protocol::apply_event(record,
                          protocol::error_event(kId, Error({.code = ExitCode::resource, .found = "the engine died"})));
    CHECK(record.status == RunStatus::failed);
    CHECK_THAT(record.message, Contains("the engine died"));
    for (int t = 0; t < record.n_tokens(); ++t) {
      const int at = run.evict_at.row(1, 1)[t];
      const bool in_window = t >= std::max(4, record.n_queries - 16) || record.n_queries == 0;
      const int expected = at < record.n_queries ? at : (in_window && t >= 4 ? kUndecided : kNever);
      CHECK(record.evict_at.row(1, 1)[t] == expected);
    }
  }
}

TEST_CASE("conversation: recall so far is kept until the oracle is final", "[core][protocol]") {
  const RunRecord run = random_run(5);
  const std::size_t n_events = conversation(run).size();
  const RunRecord so_far = told(run, n_events - 2);
  CHECK(so_far.recall_so_far == head_metric(run, Metric::mean_recall, run.queries() - 1).values);
  CHECK(so_far.oracle_horizon == run.n_tokens() / 2);
  CHECK(so_far.future_mass.empty());
  // It is the recall of the run's end; of earlier queries there is none as yet.
  CHECK(head_metric(so_far, Metric::recall, so_far.queries() - 1).values == so_far.recall_so_far);
  CHECK(head_metric(so_far, Metric::recall, so_far.oracle_horizon - 1).values == so_far.recall_so_far);
  CHECK(std::isnan(head_metric(so_far, Metric::recall, so_far.oracle_horizon - 2).at(0, 0)));
  CHECK(what_if(so_far, PolicySpec::parse("kvpop:budget=40,sinks=4,window=16")).recall_so_far.empty());
  CHECK(told(run, n_events - 1).recall_so_far.empty());
}

TEST_CASE("apply_event: events of other kinds change nothing", "[core][protocol]") {
  const RunRecord record = told(random_run(5), 3);
  RunRecord copy = record;
  protocol::apply_event(copy, protocol::progress(kId, "decode", 3, 60, "token 3"));
  protocol::apply_event(copy, protocol::log(-1, "a line"));
  protocol::apply_event(copy, protocol::row(kId, "a row", {{"x", 1}}));
  protocol::apply_event(copy, protocol::hello("0.1.0", "2.11.0", false, "cpu"));
  protocol::apply_event(copy, {{"type", "from the future"}});
  CHECK(run_difference(copy, record) == "");
}

TEST_CASE("apply_event: a start that does not fit is refused", "[core][protocol]") {
  const RunRecord run = random_run(5, {.prompt_len = 3, .n_new = 2});
  const json started = conversation(run)[0];
  const RunRecord fresh = client_record(run);
  CHECK(refusal(fresh, started) == "");
  CHECK_THAT(refusal(told(run, 1), started), Contains("second start"));
  CHECK_THAT(refusal(RunRecord(), started), Contains("before a model was loaded"));
  for (const char* key : {"n_positions", "prompt_len", "ids", "pieces", "policy"}) {
    CHECK_THAT(refusal(fresh, without(started, key)), Contains(key) && Contains("nothing"));
    CHECK_THAT(refusal(fresh, with(started, key, 1.5)), Contains(key));
    CHECK_THAT(refusal(fresh, with(started, key, nullptr)), Contains(key));
  }
  CHECK_THAT(refusal(fresh, with(started, "n_positions", 2)), Contains("prompt_len"));
  CHECK_THAT(refusal(fresh, with(started, "n_positions", -1)), Contains("n_positions"));
  CHECK_THAT(refusal(fresh, with(started, "n_positions", UINT64_MAX)), Contains("18446744073709551615"));
  CHECK_THAT(refusal(fresh, with(started, "prompt_len", 2)), Contains("ids"));
  CHECK_THAT(refusal(fresh, with(started, "ids", i32({1, 2, 4096}))), Contains("4096"));
  CHECK_THAT(refusal(fresh, with(started, "ids", i32({1, 2, -1}))), Contains("-1"));
  CHECK_THAT(refusal(fresh, with(started, "ids", json::binary({1, 2, 3}))),
             Contains("3 bytes") && Contains("multiple of 4"));
  const auto heads = [](int n, const char* field, const json& column) {
    json object = protocol::to_json(HeadRules(static_cast<std::size_t>(n)));
    if (*field != 0) object[field] = column;
    return object;
  };
  CHECK_THAT(refusal(fresh, with(started, "heads", heads(2, "", {}))), Contains("heads: 2 heads; expected 6"));
  CHECK_THAT(refusal(fresh, with(started, "heads", heads(6, "log_gamma", f32({0, 0, 0, 0.5f, 0, 0})))),
             Contains("log_gamma: 0.5"));
  CHECK_THAT(refusal(fresh, with(started, "heads", heads(6, "threshold", f32({0, 1})))),
             Contains("2 numbers of threshold; expected 6"));
  CHECK_THAT(refusal(fresh, with(started, "heads", heads(6, "threshold", f32({0, 0, 0, NAN, 0, 0})))), Contains("nan"));
  CHECK_THAT(refusal(fresh, with(started, "heads", heads(6, "locality", i32({0, 0, 256, 0, 0, 0})))),
             Contains("locality 256; expected 0, 1 or 2"));
  CHECK_THAT(refusal(fresh, with(started, "policy", "kvpopp")), Contains("kvpopp"));
  CHECK_THAT(refusal(fresh, with(started, "policy", "kvpop:keep=50%")), Contains("sinks 4 + window 64"));
  const auto pieces = [&](std::vector<std::int32_t> offsets) {
    return with(started, "pieces", {{"bytes", json::binary({'a', 'b', 'c'})}, {"offsets", i32(offsets)}});
  };
  CHECK(refusal(fresh, pieces({0, 1, 1, 3})) == "");
  CHECK_THAT(refusal(fresh, pieces({0, 2, 1, 3})), Contains("offsets that fall"));
  CHECK_THAT(refusal(fresh, pieces({0, 1 << 20, 3})), Contains("offsets that fall"));
  CHECK_THAT(refusal(fresh, pieces({0, 1, 2, 4})), Contains("span"));
  CHECK_THAT(refusal(fresh, pieces({1, 1, 2, 3})), Contains("span"));
  CHECK_THAT(refusal(fresh, pieces({})), Contains("span"));
  CHECK_THAT(refusal(fresh, pieces({0, 3})), Contains("pieces"));
}

TEST_CASE("apply_event: a step that does not fit is refused", "[core][protocol]") {
  const RunRecord run = random_run(5, {.policy = "kvpop:budget=50,window=16"});
  const RunRecord record = told(run, 10);  // 127 tokens, 127 queries
  const json step = conversation(run)[10];
  CHECK(refusal(record, step) == "");
  CHECK_THAT(refusal(client_record(run), step), Contains("not started"));
  CHECK_THAT(refusal(told(run, 1000), step), Contains("ended"));
  for (const char* key : {"n_tokens", "ids", "pieces", "logprobs_from", "logprobs", "lifetimes", "score_index",
                          "score_value", "contests", "seconds"}) {
    CHECK_THAT(refusal(record, without(step, key)), Contains(key) && Contains("nothing"));
    CHECK_THAT(refusal(record, with(step, key, "text")), Contains(key));
    CHECK_THAT(refusal(record, with(step, key, json::binary({1, 2, 3, 4, 5}))), Contains(key));
  }
  CHECK_THAT(refusal(record, with(step, "n_tokens", 129)), Contains("n_tokens"));
  CHECK_THAT(refusal(record, with(step, "n_tokens", 126)), Contains("n_tokens"));  // facts are not taken back
  CHECK_THAT(refusal(record, with(step, "ids", i32({1, 2}))), Contains("pieces"));
  CHECK_THAT(refusal(record, with(step, "logprobs_from", 128)), Contains("logprobs"));
  CHECK_THAT(refusal(record, with(step, "seconds", NAN)), Contains("seconds"));
  CHECK_THAT(refusal(record, with(step, "seconds", -1)), Contains("seconds"));
  CHECK_THAT(refusal(record, with(step, "score_value", f32({1}))), Contains("score_value"));

  const auto lifetime = [&](std::vector<std::int32_t> cells) { return with(step, "lifetimes", i32(cells)); };
  int gone = 0;
  while (run.evict_at.row(0, 0)[gone] >= 120) ++gone;
  CHECK(refusal(record, lifetime({0, 0, 127, 128})) == "");
  CHECK(refusal(record, lifetime({0, 0, gone, run.evict_at.row(0, 0)[gone]})) == "");  // said twice is no harm
  CHECK_THAT(refusal(record, lifetime({0, 0, gone, 128})), Contains("is evicted once"));
  CHECK_THAT(refusal(record, lifetime({0, 0, gone, kNever})), Contains("is evicted once"));
  CHECK_THAT(refusal(record, lifetime({2, 0, 1, 128})), Contains("layer 2"));
  CHECK_THAT(refusal(record, lifetime({0, 3, 1, 128})), Contains("head 3"));
  CHECK_THAT(refusal(record, lifetime({-1, 0, 1, 128})), Contains("layer -1"));
  CHECK_THAT(refusal(record, lifetime({0, 0, 128, 129})), Contains("token 128"));
  CHECK_THAT(refusal(record, lifetime({0, 0, -1, 129})), Contains("token -1"));
  CHECK_THAT(refusal(record, lifetime({0, 0, 127, 127})), Contains("evict_at 127"));  // no query would have seen it
  CHECK_THAT(refusal(record, lifetime({0, 0, 127, 181})), Contains("evict_at 181"));
  CHECK_THAT(refusal(record, lifetime({0, 0, 127})), Contains("rows of 4"));

  const auto score = [&](std::vector<std::int32_t> cells) {
    return with(with(step, "score_index", i32(cells)), "score_value", f32({0.5f}));
  };
  CHECK(refusal(record, score({1, 2, 127})) == "");
  CHECK_THAT(refusal(record, score({2, 2, 127})), Contains("layer 2"));
  CHECK_THAT(refusal(record, score({1, 3, 127})), Contains("head 3"));
  CHECK_THAT(refusal(record, score({1, 2, 128})), Contains("token 128"));
  CHECK_THAT(refusal(record, score({1, 2})), Contains("rows of 3"));

  const auto contest = [&](std::vector<std::int32_t> cells) {
    cells.resize(8, 0);
    return with(step, "contests", i32(cells));
  };
  CHECK(refusal(record, contest({127, 0, 0, 111, 5, 5})) == "");
  CHECK(refusal(record, contest({127, 0, 0, 111, -1, -1})) == "");
  CHECK_THAT(refusal(record, contest({126, 0, 0, 111, 5, 5})), Contains("query 126 after query 126"));
  CHECK_THAT(refusal(record, contest({128, 0, 0, 111, 5, 5})), Contains("token 128"));
  CHECK_THAT(refusal(record, contest({127, 2, 0, 111, 5, 5})), Contains("layer 2"));
  CHECK_THAT(refusal(record, contest({127, 0, 65536, 111, 5, 5})), Contains("65536"));  // would be head 0 if narrowed
  CHECK_THAT(refusal(record, contest({127, 0, 0, 128, 5, 5})), Contains("newcomer 128"));
  CHECK_THAT(refusal(record, contest({127, 0, 0, 111, 111, -1})), Contains("boundary 111"));
  CHECK_THAT(refusal(record, contest({127, 0, 0, 111, -2, 111})), Contains("boundary -2"));
  CHECK_THAT(refusal(record, contest({127, 0, 0, 111, 5, 6})), Contains("evicted 6"));
}

TEST_CASE("apply_event: a step beyond n_positions is refused", "[core][protocol]") {
  const RunRecord run = random_run(5, {.prompt_len = 30, .n_new = 2});
  const RunRecord record = told(run, conversation(run).size() - 3);
  REQUIRE(record.n_tokens() == 32);
  StepFacts facts{.n_tokens = 32};
  add_token(facts, run, 0);
  CHECK_THAT(refusal(record, protocol::to_json(facts, kId)), Contains("33 tokens") && Contains("n_positions = 32"));
}

TEST_CASE("apply_event: an oracle that does not fit is refused", "[core][protocol]") {
  const RunRecord run = random_run(5, {.prompt_len = 30, .n_new = 2});
  const std::size_t n_events = conversation(run).size();
  const RunRecord record = told(run, n_events - 2);
  const json final = conversation(run)[n_events - 2];
  CHECK(refusal(record, final) == "");
  for (const char* key : {"horizon", "recall", "final", "future_mass"}) {
    CHECK_THAT(refusal(record, without(final, key)), Contains(key));
    CHECK_THAT(refusal(record, with(final, key, "x")), Contains(key));
  }
  CHECK_THAT(refusal(record, with(final, "horizon", 33)), Contains("horizon"));
  CHECK_THAT(refusal(record, with(final, "horizon", 31)), Contains("future_mass"));
  CHECK_THAT(refusal(record, with(final, "recall", f32({1}))), Contains("6, one per head"));
  std::vector<float> mass(6 * 32, 0.5f);
  CHECK(refusal(record, with(final, "future_mass", f32(mass))) == "");
  for (const float bad : {-0.1f, 1.5f, std::numeric_limits<float>::infinity()}) {
    mass[100] = bad;
    CHECK_THAT(refusal(record, with(final, "future_mass", f32(mass))), Contains("0 to 1"));
  }
}

TEST_CASE("apply_event: an output error that does not fit is refused", "[core][protocol][output_error]") {
  const RunRecord run = random_run(5, {.prompt_len = 30, .n_new = 2, .output_error = true});
  const std::size_t n_events = conversation(run).size();
  const RunRecord record = told(run, n_events - 2);
  const json event = conversation(run)[n_events - 2];
  CHECK(refusal(record, event) == "");
  for (const char* key : {"n_queries", "group_damage", "layer_damage", "layer_output"}) {
    CHECK_THAT(refusal(record, without(event, key)), Contains(key));
    CHECK_THAT(refusal(record, with(event, key, "x")), Contains(key));
  }
  CHECK_THAT(refusal(record, with(event, "n_queries", 31)), Contains("group_damage"));
  CHECK_THAT(refusal(record, with(event, "layer_output", f32({1}))), Contains("64, 2 rows of 32"));
  std::vector<float> output(2 * 32, 0.5f);
  CHECK(refusal(record, with(event, "layer_output", f32(output))) == "");
  for (const float bad : {-0.1f, std::numeric_limits<float>::infinity()}) {
    output[40] = bad;
    CHECK_THAT(refusal(record, with(event, "layer_output", f32(output))), Contains("a norm, or NaN"));
  }
}

TEST_CASE("apply_event: an end that does not fit is refused", "[core][protocol]") {
  const RunRecord run = random_run(5, {.prompt_len = 30, .n_new = 2});
  const std::size_t n_events = conversation(run).size();
  const RunRecord record = told(run, n_events - 1);
  const json done = conversation(run).back();
  CHECK(refusal(record, done) == "");
  CHECK_THAT(refusal(told(run, n_events), done), Contains("ended"));
  CHECK_THAT(refusal(record, with(done, "status", "running")), Contains("complete, cancelled or failed"));
  CHECK_THAT(refusal(record, without(done, "status")), Contains("status"));
  CHECK_THAT(refusal(record, without(done, "timings")), Contains("timings"));
  json timings = done["timings"];
  timings["decode_steps"] = -1;
  CHECK_THAT(refusal(record, with(done, "timings", timings)), Contains("decode_steps"));
  CHECK_THAT(refusal(record, json::array()), Contains("type"));
  CHECK_THAT(refusal(record, json::object()), Contains("type"));
}

TEST_CASE("apply_event: random damage to any event is refused or harmless, never more", "[core][protocol]") {
  // Whatever gets through must leave a record that metrics, sentences and previews can be taken of.
  const RunRecord run = random_run(8, {.policy = "kvpop:budget=24,window=8,sinks=2", .prompt_len = 40, .n_new = 4});
  const std::vector<json> events = conversation(run);
  std::mt19937_64 random(1);
  int n_refused = 0, n_applied = 0;
  for (int round = 0; round < 400; ++round) {
    RunRecord record = client_record(run);
    for (json event : events) {
      if (random() % 4 == 0) {
        auto field = event.begin();
        std::advance(field, random() % event.size());
        if (field->is_binary() && !field->get_binary().empty()) {
          auto& bytes = field->get_binary();
          bytes[random() % bytes.size()] = static_cast<std::uint8_t>(random());
        } else if (field->is_number_integer()) {
          *field = static_cast<std::int64_t>(random() % 100) - 20;
        } else if (field.key() != "type") {
          *field = nullptr;
        }
      }
      try {
        protocol::apply_event(record, event);
        ++n_applied;
      } catch (const Error&) {
        ++n_refused;
      }
    }
    for (const MetricInfo& metric : metric_list()) head_metric(record, metric.metric, 43);
    head_metric(record, Metric::mean_recall, record.queries() - 1);
    for (int t = 0; t < record.n_tokens(); t += 5)
      CHECK_FALSE(explain_token(record, 0, 0, t, record.n_tokens() - 1).empty());
  }
  CHECK(n_refused > 1000);
  CHECK(n_applied > 1000);
}

TEST_CASE("protocol: requests, models and timings come back as they were", "[core][protocol]") {
  RunRequest request{
      .prompt = "Say \"hi\".\n",
      .raw = false,
      .policy = PolicySpec::parse("kvpop:keep=25%,window=32"),
      .max_tokens = 99,
      .sampling =
          {.temperature = 0.7, .top_k = 50, .top_p = 0.9, .min_p = 0.05, .repetition_penalty = 1.1, .seed = UINT64_MAX},
      .oracle = false,
      .output_error = true,
      .stop_at_eos = false};
  const auto through_cbor = [](const json& j) { return json::from_cbor(json::to_cbor(j)); };
  const auto back = run_request_from_json(through_cbor(protocol::to_json(request, kId)));
  CHECK(back.prompt == request.prompt);
  CHECK(back.prompt_ids.empty());
  CHECK(back.raw == request.raw);
  CHECK(back.policy == request.policy);
  CHECK(back.max_tokens == request.max_tokens);
  CHECK(back.sampling == request.sampling);
  CHECK(back.oracle == request.oracle);
  CHECK(back.output_error == request.output_error);
  CHECK(back.stop_at_eos == request.stop_at_eos);
  CHECK(back.messages.empty());
  CHECK_FALSE(back.chat.thinking);
  CHECK(back.stop.empty());
  request.messages = {{"system", "Be brief."}, {"user", "caf\u00e9\n"}};
  request.chat = {.thinking = false, .date = "1 Jan 2030"};
  request.stop = {"\n\n", "END"};
  const json chat = through_cbor(protocol::to_json(request, kId));
  const auto chat_back = run_request_from_json(chat);
  CHECK(chat_back.messages == request.messages);
  CHECK(chat_back.chat.thinking == false);
  CHECK(chat_back.chat.date == request.chat.date);
  CHECK(chat_back.stop == request.stop);
  CHECK_THROWS_WITH(run_request_from_json(with(chat, "stop", json::array({7}))), Contains("stop"));
  CHECK_THROWS_WITH(run_request_from_json(with(chat, "messages", json::array({"x"}))), Contains("role"));
  request.prompt_ids = {1, 2, 3};
  request.thresholds = {0.25f, -1e-6f, 3};
  CHECK(run_request_from_json(through_cbor(protocol::to_json(request, kId))).thresholds == request.thresholds);
  ScoreRequest score{.text = "", .ids = {1, 2}, .prompt_len = 1, .thresholds = request.thresholds};
  CHECK(std::get<ScoreRequest>(protocol::request_from_json(through_cbor(protocol::to_json(score, kId)))).thresholds ==
        request.thresholds);
  CHECK(run_request_from_json(through_cbor(protocol::to_json(request, kId))).prompt_ids == request.prompt_ids);
  CHECK_THROWS_WITH(run_request_from_json(with(protocol::to_json(request, kId), "prompt_ids", i32({-5}))),
                    Contains("-5"));
  CHECK_THROWS_WITH(run_request_from_json(with(protocol::to_json(request, kId), "policy", "kvpop:x=1")), Contains("x"));

  const RunRecord run = random_run(1);
  RunRecord other = run;
  const json load = through_cbor(protocol::done_load(kId, run.model, 0.5));
  other.model = protocol::model_info_from_json(load["model"]);
  other.timings = protocol::timings_from_json(through_cbor(protocol::to_json(run.timings)));
  CHECK(run_difference(other, run) == "");
  CHECK_THROWS_WITH(protocol::model_info_from_json(with(load["model"], "n_layers", 0)), Contains("n_layers"));
  CHECK_THROWS_WITH(protocol::model_info_from_json(with(load["model"], "name", 3)), Contains("name"));
}

TEST_CASE("protocol: numbers keep every bit on the way", "[core][protocol]") {
  const std::vector<float> floats{0.0f, -0.0f, 1e-45f, -std::numeric_limits<float>::infinity(), 0.1f, std::nanf("7")};
  const std::vector<std::int32_t> ints{0, -1, INT32_MAX, INT32_MIN};
  const json message = json::from_cbor(json::to_cbor(
      {{"f", protocol::pack(floats)}, {"i", protocol::pack(ints)}, {"e", protocol::pack(std::vector<float>())}}));
  const std::vector<float> back = protocol::unpack_f32(message, "f");
  REQUIRE(back.size() == floats.size());
  CHECK(std::memcmp(back.data(), floats.data(), floats.size() * sizeof(float)) == 0);
  CHECK(protocol::unpack_i32(message, "i") == ints);
  CHECK(protocol::unpack_f32(message, "e").empty());
  CHECK_THROWS_WITH(protocol::unpack_f32(message, "g"), Contains("g"));
}

TEST_CASE("protocol: an error crosses the stream whole", "[core][protocol]") {
  const Error error({.code = ExitCode::resource,
                     .file = "model",
                     .where = "cuda:0",
                     .found = "9 GiB wanted, 3 free",
                     .expected = "enough memory",
                     .hint = "take a smaller budget"});
  const Error back = protocol::error_from_event(json::from_cbor(json::to_cbor(protocol::error_event(kId, error))));
  CHECK(back.code() == error.code());
  CHECK(std::string(back.what()) == error.what());
  for (const json& event : {json(), json::array(), json{{"code", "x"}, {"found", 3}}, json{{"code", 77}}}) {
    CHECK(protocol::error_from_event(event).code() == ExitCode::internal);
    CHECK_FALSE(protocol::error_from_event(event).parts().found.empty());
  }
}

TEST_CASE("The attention of chosen tokens comes back as it was sent, and an answer that does not fit is refused",
          "[protocol]") {
  const protocol::Request sent = TokenAttentionRequest{.ids = {5, 6, 7}, .layer = 3, .tokens = {2, 0}};
  const auto asked = std::get<TokenAttentionRequest>(protocol::request_from_json(protocol::to_json(sent, kId)));
  CHECK(asked.ids == std::vector<std::int32_t>{5, 6, 7});
  CHECK(asked.layer == 3);
  CHECK(asked.tokens == std::vector<std::int32_t>{2, 0});

  TokenAttention answer{.layer = 3, .n_heads = 2, .n_queries = 3, .tokens = {2, 0}};
  for (int i = 0; i < 12; ++i) answer.probability.push_back(static_cast<float>(i) / 16);
  const json event = protocol::done_token_attention(kId, answer);
  const TokenAttention back = protocol::token_attention_from_event(event);
  CHECK(back.tokens == answer.tokens);
  CHECK(back.probability == answer.probability);
  CHECK(back.row(1, 1)[2] == answer.probability[11]);
  for (const auto& [field, value] : {std::pair<const char*, json>("n_queries", 4),
                                     {"n_heads", 3},
                                     {"n_heads", 0},
                                     {"n_queries", 2},
                                     {"layer", -1},
                                     {"n_heads", 1 << 16}}) {
    json wrong = event;
    wrong[field] = value;
    CHECK_THROWS_AS(protocol::token_attention_from_event(wrong), Error);
  }
}

TEST_CASE("The attention of a query comes back as it was sent, and an answer that does not fit is refused",
          "[protocol]") {
  const protocol::Request sent = QueryAttentionRequest{{5, 6, 7}};
  const json message = protocol::to_json(sent, kId);
  CHECK(message["type"] == "query_attention");
  CHECK((std::get<QueryAttentionRequest>(protocol::request_from_json(message)).ids ==
         std::vector<std::int32_t>{5, 6, 7}));

  QueryAttention answer{.n_layers = 2, .n_kv_heads = 2, .n_tokens = 3, .probability = {}};
  for (int i = 0; i < 12; ++i) answer.probability.push_back(static_cast<float>(i) / 16);
  const json event = protocol::done_query_attention(kId, answer);
  const QueryAttention back = protocol::query_attention_from_event(event);
  CHECK(back.query() == 2);
  CHECK(back.probability == answer.probability);
  CHECK(back.row(1, 0)[2] == answer.probability[8]);
  for (const auto& [field, value] : {std::pair<const char*, json>("n_layers", 3),
                                     {"n_layers", 0},
                                     {"n_kv_heads", 1 << 16},
                                     {"n_tokens", 2},
                                     {"n_tokens", -1}}) {
    json wrong = event;
    wrong[field] = value;
    CHECK_THROWS_AS(protocol::query_attention_from_event(wrong), Error);
  }
  for (const float p : {-0.1f, 1.5f, std::nanf("")}) {
    answer.probability[7] = p;
    CHECK_THROWS_AS(protocol::query_attention_from_event(protocol::done_query_attention(kId, answer)), Error);
  }
}
