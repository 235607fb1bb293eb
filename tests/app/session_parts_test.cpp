// The parts of a session, each by itself and without an engine.

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <thread>

#include "app/session/asked_runs.h"
#include "app/session/engine_link.h"
#include "app/session/files.h"
#include "app/session/messages.h"
#include "app/session/next_run.h"
#include "app/session/preview.h"
#include "app/session/run_assembler.h"
#include "app/session/runs.h"
#include "engine/core/protocol/events.h"
#include "engine/core/support/error.h"

using namespace kvscope;
using namespace kvscope::app;

namespace {

std::shared_ptr<const RunRecord> run_of(std::vector<std::int32_t> ids, int n_layers = 2) {
  auto run = std::make_shared<RunRecord>();
  run->model.n_layers = n_layers;
  run->model.n_kv_heads = 1;
  run->ids = std::move(ids);
  run->prompt_len = 2;
  run->n_positions = 9;
  run->prompt_text = "so it was";
  return run;
}

/// Runs without a session.
struct RunsAlone {
  Revision revision;
  Messages messages{revision};
  views::Selection selection;
  Preview preview{[] {}, [] {}};
  EngineLink engine{{}, messages, revision, background};
  Runs runs{engine, preview, selection, messages, revision, background};
  Worker background{[] {}};
};

/// What an engine tells of a run of two layers with one head: the prompt of two tokens, then a token each.
nlohmann::json started_event() {
  BytePool pieces;
  for (const char* piece : {"so", " it"}) pieces.push_back(piece);
  return protocol::to_json(
      RunStarted{.head = {.n_positions = 9, .policy = PolicySpec::parse("full")}, .ids = {4, 5}, .pieces = pieces}, 1);
}
nlohmann::json token_event(int n_tokens) {
  StepFacts facts{.n_tokens = n_tokens, .logprobs_from = n_tokens - 1, .logprobs = {-1.0f}};
  facts.ids = {n_tokens};
  facts.pieces.push_back("x");
  return protocol::to_json(facts, 1);
}

void until(const std::function<bool()>& done) {
  for (int i = 0; i < 5000 && !done(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  REQUIRE(done());
}

}  // namespace

TEST_CASE("The first word of an answer is seen at once, and no other waits for the one behind it") {
  RunAssembler assembler;
  assembler.begin(1, *run_of({}));
  int last = 0;
  const auto seen = [&] {
    if (const auto snapshot = assembler.take_snapshot()) last = snapshot->run->n_tokens();
    return last;
  };
  REQUIRE(assembler.take(started_event()));
  CHECK(seen() == 2);
  REQUIRE(assembler.take(token_event(3)));
  CHECK(seen() == 3);
  REQUIRE(assembler.take(token_event(4)));  // copies are made ten times a second at most
  REQUIRE(assembler.take(token_event(5)));
  until([&] { return seen() == 5; });
}

TEST_CASE("A message that is repeated is one banner, and a fifth that is no error pushes the first out") {
  Revision revision;
  Messages messages(revision);
  messages.add_banner({.text = "one"});
  messages.add_banner({.text = "two"});
  messages.add_banner({.text = "one"});
  REQUIRE(messages.banners().size() == 2);
  CHECK(messages.banners()[1].text == "one");
  for (const char* text : {"three", "four", "five"}) messages.add_banner({.text = text});
  REQUIRE(messages.banners().size() == 4);
  CHECK(messages.banners()[0].text == "one");
  messages.dismiss_banner(messages.banners()[0].id);
  CHECK(messages.banners()[0].text == "three");
}

TEST_CASE("Every error stays until it is dismissed itself, however many others and other messages come") {
  Revision revision;
  Messages messages(revision);
  for (int i = 1; i <= 6; ++i) messages.add_banner({.kind = Banner::Kind::error, .text = "error " + std::to_string(i)});
  for (int i = 1; i <= 6; ++i) messages.add_banner({.text = "news " + std::to_string(i)});
  messages.add_engine_fault("it sent nonsense");
  messages.add_engine_error("it died");
  const auto errors = [&] { return std::ranges::count(messages.banners(), Banner::Kind::error, &Banner::kind); };
  CHECK(errors() == 8);
  CHECK(messages.banners().size() == 12);
  messages.dismiss_banner(messages.banners()[1].id);
  CHECK(errors() == 7);
  CHECK(messages.banners()[0].text == "error 1");
  CHECK(messages.banners()[1].text == "error 3");
  messages.engine_restarted();
  CHECK(errors() == 6);  // there is an engine, and the last one did send nonsense
  CHECK(messages.banners().back().text == "it sent nonsense");
  CHECK(messages.banners().back().command.empty());
}

TEST_CASE("The reading of a prompt is counted in tokens, that of a model as a share and in MB") {
  CHECK(TaskProgress{.phase = "prefill", .value = 412, .max = 1650}.line().starts_with("prefill 412 / 1650"));
  CHECK(TaskProgress{.phase = "load", .value = 67'300'000, .max = 269'060'552}.line().starts_with(
      "load 25 %, 67 of 269 MB"));
  CHECK(TaskProgress{.phase = "decode", .value = 3, .max = 64}.line().starts_with("decode 3 / 64"));
}

TEST_CASE("That there is no engine goes with its restart, a notice is a line of the log, and each change is counted") {
  Revision revision;
  Messages messages(revision);
  messages.add_engine_error("it died");
  messages.add_banner({.text = "other"});
  messages.engine_restarted();
  REQUIRE(messages.banners().size() == 1);
  CHECK(messages.banners()[0].text == "other");
  const auto before = revision.value;
  messages.notify("saved");
  CHECK(messages.notice() == "saved");
  CHECK(messages.log_lines().back().ends_with("  saved"));
  CHECK(revision.value > before);
  // It has its time, whether or not anything else happens.
  messages.poll();
  CHECK(messages.notice_is_fresh());
  const auto said = revision.value;
  std::this_thread::sleep_for(std::chrono::milliseconds(8100));
  messages.poll();
  CHECK_FALSE(messages.notice_is_fresh());
  CHECK(revision.value > said);
}

TEST_CASE(
    "A run that begins takes its place once it has tokens, as A alone, as B beside A, and only it grows and fails") {
  RunsAlone alone;
  Runs& runs = alone.runs;
  const int read = runs.add(run_of({1, 2, 3}), "x.h5");
  runs.show(read, 0);
  runs.begin(RunRecord(), Runs::Place::a);
  const int first = runs.newest_begun();
  CHECK(runs.a()->id == read);  // nothing to be seen of it yet
  CHECK(runs.grow({.request_id = 1, .run = run_of({1}), .revision = 1}));
  CHECK(runs.a()->id == first);
  CHECK(runs.b() == nullptr);
  runs.begin(RunRecord(), Runs::Place::b);
  CHECK(runs.b() == nullptr);
  CHECK(runs.grow({.request_id = 1, .run = run_of({1, 2}), .revision = 7}));
  CHECK(runs.a()->id == first);
  CHECK(runs.b()->id == runs.newest_begun());
  CHECK(runs.b()->run->n_tokens() == 2);
  CHECK(runs.b()->revision == 7);
  auto measured = std::make_shared<RunRecord>(*run_of({1, 2}));
  measured->n_queries = 2;
  CHECK_FALSE(runs.grow({.request_id = 1, .run = measured, .revision = 8}));
  runs.fail("cut short");
  CHECK(runs.b()->run->status == RunStatus::failed);
  CHECK(runs.b()->run->message == "cut short");
  CHECK(runs.b()->run->n_tokens() == 2);
  CHECK(runs.a()->run->n_tokens() == 1);
  CHECK(runs.find(read)->run->n_tokens() == 3);
}

TEST_CASE("B stays beside a new A that answers the same prompt, and goes with another prompt or model") {
  RunsAlone alone;
  Runs& runs = alone.runs;
  const int one = runs.add(run_of({1, 2, 3}), ""), two = runs.add(run_of({1, 2, 4}), "");
  const auto begin = [&](const std::shared_ptr<const RunRecord>& run) {
    runs.show(one, two);
    runs.begin(RunRecord(), Runs::Place::a);
    runs.grow({.request_id = 1, .run = run, .revision = 1});
    CHECK(runs.a()->id == runs.newest_begun());
    return runs.b() != nullptr;
  };
  CHECK(begin(run_of({1, 2})));
  CHECK_FALSE(begin(run_of({1, 5})));
  auto shorter = std::make_shared<RunRecord>(*run_of({1, 2, 3}));
  shorter->prompt_len = 1;
  CHECK_FALSE(begin(shorter));
  auto other = std::make_shared<RunRecord>(*run_of({1, 2}));
  other->model.weights_hash = "of another model";
  CHECK_FALSE(begin(other));
}

TEST_CASE("A run that fails before its first fact leaves A and B as they were, unless others were chosen meanwhile") {
  RunsAlone alone;
  Runs& runs = alone.runs;
  const int one = runs.add(run_of({1}), ""), two = runs.add(run_of({2}), ""), three = runs.add(run_of({3}), "");
  runs.show(one, two);
  runs.begin(RunRecord(), Runs::Place::a);
  runs.fail("refused");
  CHECK(runs.a()->id == one);
  CHECK(runs.b()->id == two);
  runs.begin(RunRecord(), Runs::Place::a);
  runs.grow({.request_id = 1, .run = run_of({1, 2}), .revision = 1});  // its prompt, and then no memory for it
  CHECK(runs.a()->id == runs.newest_begun());
  runs.fail("out of memory");
  CHECK(runs.a()->id == one);
  CHECK(runs.b()->id == two);
  runs.begin(RunRecord(), Runs::Place::a);
  runs.grow({.request_id = 1, .run = run_of({1, 2}), .revision = 1});
  runs.show(three, 0);
  runs.fail("out of memory");
  CHECK(runs.a()->id == three);
  CHECK(runs.find(runs.newest_begun())->run->message == "out of memory");
  RunsAlone other;
  Runs& first = other.runs;
  first.begin(RunRecord(), Runs::Place::a);
  first.fail("refused");
  CHECK(first.a() == nullptr);
}

TEST_CASE("A removed A gives its place to B, a run is never both, and an unknown one changes nothing") {
  RunsAlone alone;
  Runs& runs = alone.runs;
  const int one = runs.add(run_of({1}), ""), two = runs.add(run_of({2}), "");
  runs.show(one, two);
  CHECK_THROWS_AS(runs.show(99, 0), Error);
  CHECK(runs.a()->id == one);
  runs.remove(one);
  CHECK(runs.a()->id == two);
  CHECK(runs.b() == nullptr);
  runs.show(two, two);
  CHECK(runs.b() == nullptr);
}

TEST_CASE("What is on show has tokens, and B the shape of A") {
  RunsAlone alone;
  Runs& runs = alone.runs;
  const int empty = runs.add(run_of({}), ""), a = runs.add(run_of({1, 2, 3}), "");
  const int b = runs.add(run_of({1, 2, 4, 5}), ""), deeper = runs.add(run_of({1, 2, 3}, 3), "");
  runs.show(empty, a);
  CHECK(runs.shown_a() == nullptr);
  CHECK(runs.shown_b() == nullptr);
  CHECK(runs.divergence() == -1);
  runs.show(a, b);
  CHECK(runs.divergence() == 2);
  runs.show(a, deeper);
  REQUIRE(runs.shown_a());
  CHECK(runs.shown_b() == nullptr);
}

TEST_CASE("A preview that was cleared never comes, and one that cannot be made says why") {
  int answers = 0;
  Preview preview([] {}, [&] { ++answers; });
  const auto run = run_of({1, 2, 3});  // without scores: there is nothing to go by
  preview.request(run, PolicySpec::parse("kvpop:keep=30%"));
  CHECK(preview.pending());
  preview.clear();
  CHECK_FALSE(preview.pending());
  preview.request(run, PolicySpec::parse("kvpop:keep=40%"));
  until([&] { return preview.poll(), !preview.pending(); });
  CHECK(answers == 1);
  CHECK_FALSE(preview.shown());
  CHECK_FALSE(preview.note().empty());
}

TEST_CASE("The next run's requests: of its own prompt, of a run's prompt again, of a run's tokens") {
  Revision revision;
  Worker background([] {});
  NextRun next(revision, background);
  next.set_prompt("once more");
  next.set_max_tokens(5);
  next.set_raw(false);
  CHECK(next.n_positions() == 0);  // no tokenizer, no length
  CHECK(next.request().prompt == "once more");
  CHECK_FALSE(next.request().raw);
  const auto run = run_of({4, 5, 6, 7});
  const RunRequest again = asked_again(next, *run).request;
  CHECK(again.prompt == run->prompt_text);
  CHECK(again.prompt_ids == std::vector<std::int32_t>{4, 5});
  CHECK(again.max_tokens == 7);
  const auto replay_of = [&](const RunRecord& of) {
    const RunEntry entry{.run = std::make_shared<const RunRecord>(of)};
    return asked_replay(next, entry, next.parameters().policy).request;
  };
  const RunRequest replay = replay_of(*run);
  CHECK(replay.prompt_ids == std::vector<std::int32_t>{4, 5});
  CHECK(replay.answer_ids == std::vector<std::int32_t>{6, 7});
  CHECK(replay.chunk == 0);
  CHECK(replay.max_tokens == run->n_positions - run->prompt_len);
  RunRecord text = *run;  // that nothing was drawn for: all of it is read under the policy
  text.prompt_len = text.n_tokens();
  const RunRequest whole = replay_of(text);
  CHECK(whole.prompt_ids == run->ids);
  CHECK_FALSE(whole.draws());
  CHECK(whole.chunk == 1);
  text.chunk = 16;
  CHECK(replay_of(text).chunk == 16);  // else what the chunks cost would stand for what the policies do
}

TEST_CASE(
    "A job of files that throws is a banner and a line of the log, and recent files are named once, newest first") {
  Revision revision;
  Messages messages(revision);
  Worker background([] {});
  Files files(messages, revision, background);
  files.in_background("try", []() -> Worker::Finish { throw Error({.file = "x", .found = "nothing"}); });
  until([&] {
    for (const auto& finish : background.take_finished()) finish();
    return !messages.banners().empty();
  });
  CHECK(messages.log_lines().front().find("error: try: ") != std::string::npos);
  for (const char* path : {"a", "b", "a"}) files.remember(path);
  CHECK(files.recent() == std::deque<std::string>{"a", "b"});
}
