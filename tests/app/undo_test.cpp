// Undo: what is one step, what it is called, and that all steps back are the first state and all forward the last.

#include "app/workspace/undo.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "engine/core/support/error.h"
#include "engine/core/support/random.h"
#include "tests/app/process.h"
#include "tests/app/program.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using namespace kvscope::app;
using nlohmann::json;
using std::chrono::milliseconds;

namespace {

/// The program without a window and without a disk, under a clock that stands still unless it is told.
struct Program : test::Program {
  std::chrono::steady_clock::time_point now{};
  Workspace workspace{session, ui, ui, {.trace_program = "", .wake = [] {}, .clock = [this] { return now; }}};

  explicit Program(int n_runs = 0) {
    add_workspace_commands(commands, workspace);
    for (int i = 1; i <= n_runs; ++i) {
      auto run = std::make_shared<RunRecord>(test::random_run(static_cast<std::uint64_t>(i)));
      session.runs().put_back({.id = i, .run = run, .own = true});
    }
    workspace.begin();
  }
  const UndoHistory& history() const { return workspace.undo().history(); }
  std::string state() const {
    return to_json(capture_state(session, ui, ui)).dump() + json(ui.zoom).dump() + json(ui.dark).dump() +
           std::string(views::to_string(ui.colours));
  }
  std::string title(const char* id) const { return commands.find(id)->title; }
  void pause() { now += std::chrono::seconds(5); }
};

/// Some command with some arguments; what is refused is no harm.
void do_something(Program& program, Random& random) {
  const auto below = [&](int n) { return static_cast<int>(random.below(static_cast<std::uint64_t>(n))); };
  static constexpr const char* kPolicies[] = {
      "kvpop:keep=25%", "kvpop:budget=70",    "streaming:window=40", "h2o:keep=30%,window=8",
      "full",           "sp-kv:threshold=0.5"};
  const std::vector<std::pair<const char*, json>> all = {
      {"prompt.set", {{"text", std::string(static_cast<std::size_t>(below(40)), static_cast<char>('a' + below(3)))}}},
      {"prompt.set", {{"chat", below(2) == 0}}},
      {"policy.set", {{"policy", kPolicies[below(std::size(kPolicies))]}}},
      {"policy.set", {{"budget", 0.2 + 0.01 * below(60)}, {"kind", "keep"}}},
      {"policy.set", {{"parameter", "window"}, {"value", 1 + below(60)}}},
      {"sampling.set", {{"temperature", 0.1 * below(20)}, {"seed", below(5)}}},
      {"run.max_tokens", {{"n", below(100)}}},
      {"selection.set", {{"layer", below(4)}, {"kv_head", below(4)}, {"token", below(200) - 1}}},
      {"selection.layer_next", {}},
      {"selection.clear", {}},
      {"scrub.to", {{"q", below(180)}}},
      {"scrub.next", {}},
      {"scrub.end", {}},
      {"run.compare", {{"a", below(7)}, {"b", below(7)}}},
      {"run.show", {{"id", 1 + below(6)}}},
      {"run.swap", {}},
      {"runs.choose", {{"id", 1 + below(6)}}},
      {"pin.toggle", {{"layer", below(2)}, {"token", below(170)}}},
      {"pin.note", {{"letter", below(2) ? "a" : "b"}, {"text", std::string(static_cast<std::size_t>(below(4)), 'n')}}},
      {"run.note", {{"text", std::string(static_cast<std::size_t>(below(4)), 'r')}}},
      {"pin.clear", {}},
      {"run.remove", {{"id", 1 + below(6)}}},
      {"view.left", {}},
      {"view.bottom", {}},
      {"view.theme", {}},
      {"view.colours", {}},
      {"view.zoom_in", {}},
      {"view.maximise", {}},
      {"view.metric", {}},
      {"view.colour_score", {}},
      {"preview.discard", {}},
      {"session.new", {}},
      {"edit.undo", {}},
      {"edit.redo", {}}};
  const auto& [id, arguments] = all[random.below(all.size() - (below(8) ? 3 : 0))];
  try {
    program.run(id, arguments.is_null() ? json::object() : arguments);
  } catch (const Error&) {
  }
  if (below(3) == 0) program.now += milliseconds(below(1500));
  if (below(10) == 0) {  // a hand at a divider
    program.workspace.undo().set_gesture(random.below(1000) + 1);
    for (int i = below(4); i >= 0; --i)
      program.ui.arrangement.docked.share = 0.2f + 0.01f * static_cast<float>(below(50)),
      program.workspace.undo().observe();
    program.workspace.undo().set_gesture(0);
  }
}

}  // namespace

TEST_CASE("After any commands, all steps back are the first state byte for byte, and all steps forward the last one") {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    CAPTURE(seed);
    Program program(6);
    Random random(seed);
    const std::string first = program.state();
    for (int i = 0; i < 150; ++i) do_something(program, random);
    while (program.workspace.undo().can_redo()) program.run("edit.redo");
    REQUIRE(program.history().steps() >= 20);
    REQUIRE(program.history().steps() < UndoHistory::kSteps);
    const std::size_t steps = program.history().steps();
    std::vector<std::string> states = {program.state()};
    for (std::size_t i = 0; i < steps; ++i) {
      program.run("edit.undo");
      states.push_back(program.state());
    }
    CHECK_FALSE(program.workspace.undo().can_undo());
    CHECK(states.back() == first);
    CHECK(program.session.runs().all().size() == 6);
    for (std::size_t i = steps; i > 0; --i) {
      program.run("edit.redo");
      REQUIRE(program.state() == states[i - 1]);
    }
    CHECK_FALSE(program.workspace.undo().can_redo());
  }
}

TEST_CASE("A step is named in menu and palette by what it changed") {
  Program program(3);
  program.run("policy.set", {{"budget", 0.4}});
  CHECK(program.title("edit.undo") == "Undo budget 50 % to 40 %");
  CHECK(program.title("edit.redo") == "Redo");
  program.run("policy.set", {{"parameter", "window"}, {"value", 12}});
  CHECK(program.title("edit.undo") == "Undo window 64 to 12");
  program.run("policy.set", {{"policy", "h2o:keep=40%"}});
  CHECK(program.title("edit.undo").starts_with("Undo policy KVpop running top-k to "));
  program.run("prompt.set", {{"text", "it was so"}});
  CHECK(program.title("edit.undo") == "Undo prompt");
  program.run("run.max_tokens", {{"n", 128}});
  CHECK(program.title("edit.undo") == "Undo answer length 64 to 128");
  program.run("sampling.set", {{"temperature", 0.7}});
  CHECK(program.title("edit.undo") == "Undo temperature 0 to 0.7");
  program.run("run.compare", {{"a", 1}, {"b", 3}});
  CHECK(program.title("edit.undo") == "Undo run 1 as A");
  program.run("run.swap");
  CHECK(program.title("edit.undo") == "Undo swap of A and B");
  program.run("selection.layer_next");
  CHECK(program.title("edit.undo") == "Undo layer 0 to 1");
  program.run("view.metric", {{"metric", "recall"}});
  CHECK(program.title("edit.undo") ==
        "Undo metric Recall above chance to Oracle recall");  // on which the map opens beside B
  program.run("run.remove", {{"id", 2}});
  CHECK(program.title("edit.undo") == "Undo removal of run 2");
  program.run("view.left");
  CHECK(program.title("edit.undo") == "Undo left panel");
  program.run("layout.compare");
  CHECK(program.title("edit.undo") == "Undo layout");
  program.run("view.colours");
  CHECK(program.title("edit.undo") == "Undo map colours viridis to cividis");
  program.run("view.theme");
  CHECK(program.title("edit.undo") == "Undo theme");
  program.run("session.new");
  CHECK(program.title("edit.undo") == "Undo new workspace");
  program.run("edit.undo");
  CHECK(program.title("edit.redo") == "Redo new workspace");
  CHECK(program.title("edit.undo") == "Undo theme");
  for (int i = 0; i < 14; ++i) program.run("edit.undo");
  CHECK(program.title("edit.redo") == "Redo window 64 to 12");
  CHECK(program.session.parameters().policy.to_string() == PolicySpec::parse("kvpop:keep=40%").to_string());
}

TEST_CASE(
    "Runs are chosen beside A and let go, those of another shape or off the list do not count, and the next start has them") {
  Program program(4);
  const auto other = std::make_shared<RunRecord>(test::random_run(5, {.n_layers = 3}));
  program.session.runs().put_back({.id = 5, .run = other});
  const std::vector<int>& set = program.session.selection().runs;
  const auto shown = [&] { return program.session.runs().chosen().size(); };
  program.run("run.show", {{"id", 1}});
  for (const int id : {3, 4, 5}) program.run("runs.choose", {{"id", id}});
  CHECK((set == std::vector{1, 3, 4, 5} && shown() == 3));
  CHECK(program.title("edit.undo") == "Undo set of runs");
  program.run("runs.choose", {{"id", 1}});
  CHECK((set == std::vector{3, 4, 5} && shown() == 2));
  program.run("run.remove", {{"id", 4}});
  CHECK(shown() == 1);
  program.run("edit.undo");
  CHECK(shown() == 2);
  CHECK_THROWS_AS(program.commands.execute("runs.choose", {{"id", 9}}), Error);
  const json state = to_json(capture_state(program.session, program.ui, program.ui));
  CHECK(state_from_json(state, "w").selection.runs == set);
}

TEST_CASE("A range that moved with the run and stands still now is one change with a name, and the other way round") {
  WorkspaceState moves, stands;
  moves.prompt = stands.prompt = std::make_shared<const std::string>("text");
  moves.selection.at_edge = true;
  stands.selection.view = {3, 9};
  CHECK(describe_change(moves, stands).label == "shown range");
  CHECK(describe_change(stands, moves).label == "shown range");
  CHECK_FALSE(describe_change(moves, stands).gradual);
}

TEST_CASE("A drag is one step however long it takes, and a drag there and back is none") {
  Program program;
  Undo& undo = program.workspace.undo();
  undo.set_gesture(1);
  for (int percent = 26; percent <= 60; ++percent) {
    program.run("policy.set", {{"budget", percent / 100.0}});
    program.pause();
  }
  undo.set_gesture(0);
  CHECK(program.history().steps() == 1);
  CHECK(program.title("edit.undo") == "Undo budget 50 % to 60 %");
  undo.set_gesture(2);
  program.run("policy.set", {{"budget", 0.5}});
  program.run("policy.set", {{"budget", 0.6}});
  undo.set_gesture(0);
  CHECK(program.history().steps() == 1);
  undo.set_gesture(3);
  program.run("policy.set", {{"budget", 0.5}});
  undo.set_gesture(0);
  CHECK(program.history().steps() == 2);
  program.run("edit.undo");
  CHECK(program.session.parameters().policy.budget->value == 0.6);
}

TEST_CASE("One key again and again is one step, after a pause or another change it is a new one") {
  Program program(2);
  program.run("run.show", {{"id", 1}});
  const auto steps = program.history().steps();
  for (int i = 0; i < 5; ++i) program.run("scrub.prev"), program.now += milliseconds(300);
  CHECK(program.history().steps() == steps + 1);
  program.pause();
  program.run("scrub.prev");
  CHECK(program.history().steps() == steps + 2);
  program.run("selection.layer_next");
  program.run("scrub.prev");
  CHECK(program.history().steps() == steps + 4);
  // What is set and not moved is a step each.
  for (int i = 0; i < 3; ++i) program.run("view.left");
  CHECK(program.history().steps() == steps + 7);
}

TEST_CASE("Typing is undone word by word, and what is deleted is a step of its own") {
  Program program;
  program.run("prompt.set", {{"text", ""}});
  program.workspace.undo().start();
  std::string text;
  const auto type = [&](const std::string& more) {
    for (const char c : more) {
      program.session.next_run().set_prompt(text += c);
      program.workspace.undo().observe();
      program.now += milliseconds(120);
    }
  };
  const auto undone = [&] {
    program.run("edit.undo");
    return program.session.parameters().prompt;
  };
  type("What is it");
  CHECK(program.history().steps() == 3);
  CHECK(undone() == "What is ");
  CHECK(undone() == "What ");
  program.run("edit.redo"), program.run("edit.redo");
  CHECK(program.session.parameters().prompt == "What is it");
  program.pause();
  type("self");  // after a pause
  CHECK(undone() == "What is it");
  program.run("edit.redo");
  for (int i = 0; i < 6; ++i) {
    text.pop_back();
    program.session.next_run().set_prompt(text);
    program.workspace.undo().observe();
  }
  CHECK(text == "What is ");
  CHECK(undone() == "What is itself");
}

TEST_CASE("A run that was removed comes back with its place and its tokens, and a step never takes a run away") {
  Program program(4);
  program.run("run.compare", {{"a", 2}, {"b", 3}});
  const auto record = program.session.runs().find(2)->run;
  program.run("run.remove", {{"id", 2}});
  CHECK(program.session.runs().a()->id == 3);
  CHECK(program.session.runs().find(2) == nullptr);
  program.run("edit.undo");
  CHECK(program.session.runs().a()->id == 2);
  CHECK(program.session.runs().b()->id == 3);
  CHECK(program.session.runs().find(2)->run == record);
  CHECK(program.session.runs().all()[1].id == 2);
  // A result that came in between stays.
  program.session.runs().put_back({.id = 9, .run = record, .own = true});
  program.run("edit.undo");
  CHECK(program.session.runs().a() == nullptr);
  CHECK(program.session.runs().all().size() == 5);
}

TEST_CASE(
    "Where A is removed and there is no B the newest run with tokens becomes A, and a step back has the earlier A") {
  Program program(3);
  program.session.runs().put_back({.id = 4, .run = std::make_shared<RunRecord>(), .own = true});  // it was refused
  program.run("run.show", {{"id", 1}});
  program.run("run.remove", {{"id", 1}});
  CHECK(program.session.runs().a()->id == 3);
  CHECK(program.session.runs().b() == nullptr);
  program.run("run.remove", {{"id", 2}});
  CHECK(program.session.runs().a()->id == 3);
  program.run("run.remove", {{"id", 3}});
  CHECK(program.session.runs().a() == nullptr);  // of the last there is nothing to see
  for (const int a : {3, 3, 1}) {
    program.run("edit.undo");
    CHECK(program.session.runs().a()->id == a);
  }
  program.run("edit.redo");
  CHECK(program.session.runs().a()->id == 3);
}

TEST_CASE(
    "What nobody sees change is no step, as the selection in a run that was closed is, or the metric chosen anew") {
  Program program(1);
  program.run("run.compare", {{"a", 1}, {"b", 0}});
  program.run("selection.set", {{"token", 7}});
  program.pause();
  program.run("run.remove", {{"id", 1}});
  const std::size_t steps = program.history().steps();
  program.session.selection().token = -1;  // as Esc does
  program.workspace.undo().observe();
  CHECK(program.history().steps() == steps);
  program.run("edit.undo");
  REQUIRE(program.session.runs().a() != nullptr);
  CHECK(program.session.selection().token == 7);
  program.pause();
  views::choose_metric(program.session.selection(), program.session.selection().metric);
  program.workspace.undo().observe();
  CHECK(program.title("edit.redo").find("removal of run 1") != std::string::npos);  // nothing has ended it
}

TEST_CASE("How fast it plays and whether again and again is undone, and that it plays is not") {
  Program program(1);
  program.run("run.compare", {{"a", 1}, {"b", 0}});
  program.run("play.speed", {{"speed", 120}});
  CHECK(program.title("edit.undo") == "Undo playback speed 30 to 120");
  program.pause();
  program.run("play.loop");
  program.pause();
  program.run("play.toggle");
  program.run("edit.undo");
  CHECK_FALSE(program.session.selection().play.loop);
  CHECK(program.session.selection().play.on);
  program.run("edit.undo");
  CHECK(program.session.selection().play.speed == 30);
}

TEST_CASE("There are 200 steps, and a removed run goes for good when no step leads back to it") {
  Program program(2);
  program.run("run.remove", {{"id", 2}});
  const auto change = [&](int n) {
    program.pause();
    program.run("run.max_tokens", {{"n", n}});
  };
  for (int i = 0; i < static_cast<int>(UndoHistory::kSteps) - 1; ++i) change(100 + i);
  CHECK(program.history().steps() == UndoHistory::kSteps);
  CHECK(program.session.runs().removed_ids() == std::set<int>{2});
  change(1);
  CHECK(program.history().steps() == UndoHistory::kSteps);
  CHECK(program.session.runs().removed_ids().empty());
  for (std::size_t i = 0; i < UndoHistory::kSteps; ++i) program.run("edit.undo");
  CHECK_FALSE(program.workspace.undo().can_undo());
  CHECK(program.session.runs().all().size() == 1);
}

TEST_CASE("What is hovered and what a run that goes on shows are no steps, and what came by itself is none at first") {
  Program program(2);
  program.run("run.show", {{"id", 1}});
  const auto steps = program.history().steps();
  program.session.selection().hovered_token = 7;
  program.workspace.undo().observe();
  CHECK(program.history().steps() == steps);

  Program fresh;
  fresh.session.policy().set(PolicySpec::parse("h2o:keep=25%"));  // as when a model without the gate was opened
  fresh.workspace.poll();
  CHECK(fresh.history().steps() == 0);
  fresh.run("run.max_tokens", {{"n", 5}});
  fresh.session.policy().set(PolicySpec::parse("tova:keep=25%"));
  fresh.workspace.poll();
  CHECK(fresh.history().steps() == 2);  // and later it says so
  CHECK(fresh.title("edit.undo").starts_with("Undo policy "));
  fresh.run("edit.undo"), fresh.run("edit.undo");
  CHECK(fresh.session.parameters().policy.name == "h2o");
}

TEST_CASE("A command that is refused half-way leaves a step for what it did") {
  Program program(1);
  CHECK_THROWS_AS(program.run("policy.set", {{"policy", "streaming:window=9"}, {"gate", "no such"}}), Error);
  CHECK(program.history().steps() == 0);
  CHECK_THROWS_AS(program.run("edit.undo"), Error);
  program.run("policy.set", {{"policy", "streaming:window=9"}});
  CHECK_THROWS_AS(program.run("run.show", {{"id", 77}}), Error);
  CHECK(program.history().steps() == 1);
}

TEST_CASE("A million bytes of prompt are held once, not once a step") {
  Program program;
  program.run("prompt.set", {{"text", std::string(1 << 20, 'a')}});
  for (int i = 0; i < 50; ++i) program.run("view.left");
  const WorkspaceState now = capture_state(program.session, program.ui, program.ui, &program.history().present());
  CHECK(now.prompt == program.history().present().prompt);
  CHECK(now.prompt.use_count() >= 52);
}
