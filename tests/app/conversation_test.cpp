// A chat with turns, on the fake engine: what each run is asked, what becomes of its answer, and going on from it.

#include "app/session/conversation.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/session/answer.h"
#include "app/session/obstacles.h"
#include "app/session/run_titles.h"
#include "app/session/session.h"
#include "app/session/stop_lines.h"
#include "app/workspace/undo.h"
#include "engine/core/record/command_line.h"
#include "engine/core/support/error.h"
#include "tests/app/poll_until.h"
#include "tests/app/process.h"
#include "tests/support/golden.h"

using namespace kvscope;
using namespace kvscope::app;
using nlohmann::json;

namespace {

/// A session on a model's folder with a chat template that leaves the choice to think.
class Fixture {
 public:
  explicit Fixture(const std::string& engine_options = "")
      : session({.engine_command = "exec " + test::fake_engine().string() + " " + engine_options,
                 .trace_program = test::kvscope().string(),
                 .wake = [] {}}) {
    const json qwen2 = test::read_golden("tests/core/golden/tokenizer_qwen2.json");
    std::ofstream(folder_ / "tokenizer.json") << qwen2["tokenizer"].dump();
    const json templates = test::read_golden("tests/core/golden/chat.json")["templates"];
    for (const json& t : templates) {
      if (t["name"] == "Qwen3") std::ofstream(folder_ / "tokenizer_config.json") << json{{"chat_template", t["text"]}};
    }
    session.model().open(folder_.path().string());
    wait([&] { return test::has_model(session) && session.next_run().has_chat(); });
    session.next_run().set_raw(false);
    session.policy().set(PolicySpec::parse("full"));
    session.next_run().set_max_tokens(6);
  }
  template <typename Condition>
  void wait(Condition condition) {
    test::poll_until(session, condition);
  }
  /// The prompt as the engine was asked, which the fake one writes as "[role] content ...".
  std::string run() {
    session.start_run();
    return finish();
  }
  std::string finish() {
    wait([&] { return !session.run_in_progress(); });
    REQUIRE(session.runs().a());
    const RunRecord& run = *session.runs().a()->run;
    REQUIRE(run.status == RunStatus::complete);
    const auto end = run.pieces.offsets()[static_cast<std::size_t>(run.prompt_len)];
    return run.pieces.bytes().substr(0, static_cast<std::size_t>(end));
  }
  const Conversation& chat() const { return session.parameters().chat; }
  /// As the next start does with what the last session left; its run 2 is A, or another one.
  void take_up(const std::vector<RunEntry>& runs, const Conversation& chat, int a = 2) {
    for (const RunEntry& entry : runs) session.runs().put_back(entry);
    session.next_run().set_chat(chat);
    session.runs().show(a, 0);
    session.chat().take_up();
  }

 private:
  test::TemporaryFolder folder_;

 public:
  Session session;
};

RunRecord answered(std::vector<std::string> pieces, RunStatus status = RunStatus::complete, int asked = 8) {
  RunRecord run;
  run.pieces.push_back("prompt");
  run.ids = {1};
  for (const std::string& piece : pieces) run.pieces.push_back(piece), run.ids.push_back(2);
  run.prompt_len = 1;
  run.n_positions = 1 + asked;
  run.status = status;
  return run;
}

}  // namespace

TEST_CASE("What is sent becomes a turn, and so does its answer: the next run is asked with both") {
  Fixture fixture;
  Session& session = fixture.session;
  session.next_run().set_prompt("How warm is it?");
  CHECK(fixture.run().find("[user] How warm is it?") != std::string::npos);
  REQUIRE(fixture.chat().turns.size() == 2);
  const std::string answer = fixture.chat().turns[1].content;
  CHECK(answer == answer_text(*session.runs().a()->run));
  CHECK_FALSE(answer.empty());
  CHECK(session.parameters().prompt.empty());
  CHECK(session.runs().a()->run->prompt_text == "How warm is it?");

  Conversation chat = fixture.chat();
  chat.system = "Be brief.";
  chat.thinking = false;
  session.next_run().set_chat(chat);
  session.next_run().set_prompt("And there?");
  const int counted = session.next_run().prompt_tokens();
  const std::string asked = fixture.run();
  CHECK(asked.find("[not thinking] [system] Be brief. [user] How warm is it? [assistant] " + answer +
                   " [user] And there?") != std::string::npos);
  CHECK(counted > 10);
  CHECK(fixture.chat().turns.size() == 4);
  // The command says all of it.
  CHECK(command_line(*session.runs().a()->run).find(" --messages ") != std::string::npos);
  CHECK(command_line(*session.runs().a()->run).find("--thinking off") != std::string::npos);
}

TEST_CASE("Without a draft the last turn is answered anew, under whatever policy there is now") {
  Fixture fixture;
  Session& session = fixture.session;
  session.next_run().set_prompt("One, two?");
  const std::string asked = fixture.run();
  session.policy().set(PolicySpec::parse("streaming:sinks=1,window=4"));
  CHECK(fixture.run() == asked);
  CHECK(session.runs().a()->run->policy.name == "streaming");
  CHECK(fixture.chat().turns.size() == 2);
  CHECK(session.runs().all().size() == 2);
}

// The engine was ready first, and a share of a prompt that nobody had counted went to it below its floor.
TEST_CASE("No run begins before its prompt can be counted, and one does where nobody can count it") {
  Fixture fixture;
  Session& session = fixture.session;
  session.next_run().set_prompt("One, two?");
  const std::string model = session.engine().model_path();
  for (const std::string& tokenizer : {model, model + "/no such folder"}) {
    session.next_run().read_tokenizer(tokenizer);
    CHECK(why_not(session, RunKind::start) == "The model is loading.");
    CHECK(session.state()["engine"] == "loading");
    CHECK(session.state()["model"].is_null());  // scripts wait for it
    fixture.wait([&] { return !session.next_run().reads_tokenizer(); });
    CHECK(why_not(session, RunKind::start).empty());
    CHECK(session.state()["engine"] == "ready");
  }
}

TEST_CASE("Who takes a turn back sees the answer before it with the run that made it") {
  Fixture fixture;
  Session& session = fixture.session;
  session.next_run().set_prompt("One, two?");
  fixture.run();
  const Conversation first = fixture.chat();
  const int id = session.runs().a()->id;
  session.next_run().set_prompt("Three?");
  fixture.run();
  REQUIRE(session.chat().run() == session.runs().a());
  REQUIRE(session.runs().a()->id != id);
  session.next_run().set_chat(first);  // as an undo does
  REQUIRE(session.chat().run() != nullptr);
  CHECK(session.chat().run()->id == id);
  CHECK(session.chat().run() != session.runs().a());  // which the chat has a button for
  session.next_run().set_chat({.turns = {first.turns[0], {"assistant", "nobody's"}}});
  CHECK(session.chat().run() == nullptr);
}

TEST_CASE("A turn that is edited takes all behind it out of the chat") {
  Fixture fixture;
  Session& session = fixture.session;
  for (const char* said : {"first", "second"}) {
    session.next_run().set_prompt(said);
    fixture.run();
  }
  REQUIRE(fixture.chat().turns.size() == 4);
  CHECK_THROWS_AS(session.next_run().edit_turn(1), Error);  // the assistant's
  CHECK_THROWS_AS(session.next_run().edit_turn(4), Error);
  REQUIRE(session.chat().run() == session.runs().a());
  Conversation other = fixture.chat();
  other.turns[1].content = "another answer";
  session.next_run().set_chat(other);
  CHECK(session.chat().run() == session.runs().a());
  session.next_run().edit_turn(2);
  CHECK(session.parameters().prompt == "second");
  CHECK(fixture.chat().turns.size() == 2);
  CHECK(session.chat().run() == nullptr);  // why it stopped is not why the first one did
  session.next_run().edit_turn(0);
  CHECK(session.parameters().prompt == "first");
  CHECK(fixture.chat().turns.empty());
}

TEST_CASE("Continue goes on from the answer's tokens, and the turn is the whole of it") {
  Fixture fixture;
  Session& session = fixture.session;
  session.next_run().set_prompt("Count.");
  fixture.run();
  const RunRecord first = *session.runs().a()->run;
  const std::string begun = fixture.chat().turns.back().content;
  session.continue_run();
  fixture.finish();
  const RunRecord& more = *session.runs().a()->run;
  CHECK(more.prompt_len == first.n_tokens());
  CHECK(std::equal(first.ids.begin(), first.ids.end(), more.ids.begin()));
  CHECK(command_line(more).find(" --prompt-ids " + std::to_string(first.ids[0]) + ",") != std::string::npos);
  REQUIRE(fixture.chat().turns.size() == 2);
  CHECK(fixture.chat().turns.back().content == begun + answer_text(more));
  CHECK(session.chat().answer_of(*session.runs().a()) == begun + answer_text(more));  // what is copied
  CHECK(session.chat().answer_of(*session.runs().find(1)) == begun);
  CHECK(session.chat().tokens_before() == 6);
  CHECK(stop_reason(more, session.chat().tokens_before()) == "stopped at 12 tokens");
}

TEST_CASE("A fork decodes another way from a query of A, beside it") {
  Fixture fixture;
  Session& session = fixture.session;
  session.next_run().set_raw(true);
  session.next_run().set_prompt("some words to begin with");
  CHECK_THROWS_AS(session.fork_run(0), Error);
  fixture.run();
  const auto a = session.runs().a()->run;
  const int q = a->prompt_len + 2;
  CHECK_THROWS_AS(session.fork_run(a->n_tokens()), Error);
  session.fork_run(q);
  CHECK_THAT(run_titles(session.runs().all()).at(2).text,
             Catch::StartsWith("fork of run 1 at query " + std::to_string(q) + ": "));
  fixture.wait([&] { return !session.run_in_progress(); });
  REQUIRE(session.runs().b());
  const RunRecord& b = *session.runs().b()->run;
  CHECK(session.runs().a()->run == a);
  CHECK_THAT(session.messages().notice(), Catch::Contains("repeats A's text"));
  CHECK(b.prompt_len == q + 1);
  CHECK(std::equal(b.ids.begin(), b.ids.begin() + q + 1, a->ids.begin()));
  CHECK(b.n_tokens() == q + 1 + 6);
  CHECK(command_line(b).find(" --prompt-ids " + std::to_string(a->ids[0]) + ",") != std::string::npos);
  // What it draws in the midst of the prompt A has not drawn.
  session.messages().notify("");
  session.fork_run(a->prompt_len - 2);
  fixture.wait([&] { return !session.run_in_progress(); });
  CHECK_THAT(session.messages().notice(), !Catch::Contains("repeats A's text"));
}

TEST_CASE("A fork under A's policy has A's budget, whatever share of its longer text that is") {
  Fixture fixture;
  Session& session = fixture.session;
  session.policy().set(PolicySpec::parse("kvpop:keep=50%,sinks=1,window=2"));
  session.next_run().set_prompt("How warm is it there, and how cold is it here, and what is in between?");
  fixture.run();
  const RunRecord a = *session.runs().a()->run;
  session.fork_run(a.prompt_len + 2);
  fixture.wait([&] { return !session.run_in_progress() && session.runs().b() != nullptr; });
  const RunRecord& b = *session.runs().b()->run;
  CHECK(b.n_positions > a.n_positions);
  CHECK(b.policy.budget_tokens(b.n_positions) == a.policy.budget_tokens(a.n_positions));
}

TEST_CASE("A stopped answer is a turn as far as it came, and a run that fails gives the question back") {
  Fixture fixture("--slow 20");
  Session& session = fixture.session;
  session.next_run().set_max_tokens(400);
  session.next_run().set_prompt("Go on and on.");
  session.start_run();
  fixture.wait([&] { return !session.chat().answer().empty(); });
  CHECK(fixture.chat().turns.size() == 1);
  session.engine().cancel_run();
  fixture.wait([&] { return !session.run_in_progress(); });
  REQUIRE(fixture.chat().turns.size() == 2);
  CHECK(stop_reason(*session.runs().a()->run).starts_with("stopped after "));
  session.next_run().set_max_tokens(1 << 20);  // more than the model has
  session.next_run().set_prompt("Too long.");
  session.start_run();
  fixture.wait([&] { return !session.run_in_progress(); });
  CHECK(session.runs().all().back().run->status == RunStatus::failed);
  CHECK(session.runs().a()->run->status == RunStatus::cancelled);  // what failed without a token takes no place
  CHECK(fixture.chat().turns.size() == 2);
  CHECK(session.parameters().prompt == "Too long.");
}

// It stood there as a turn that nothing answered until it was edited.
TEST_CASE("Who stops an answer before its first word has the question back, and undo knows of it") {
  Fixture fixture("--hold");
  Session& session = fixture.session;
  Layout layout;
  Appearance appearance;
  Undo undo(session, layout, appearance);
  session.next_run().set_prompt("How warm is it?");
  undo.start();
  session.start_run();
  undo.observe();
  session.engine().cancel_run();
  fixture.wait([&] {
    undo.observe_automatic();
    return !session.run_in_progress();
  });
  undo.observe_automatic();
  REQUIRE(session.runs().all().size() == 1);
  CHECK(session.runs().all()[0].run->status == RunStatus::cancelled);
  CHECK(session.runs().a() == nullptr);  // it was stopped before its prompt was read: what it keeps nobody knows
  CHECK(fixture.chat().turns.empty());
  CHECK(session.parameters().prompt == "How warm is it?");
  while (undo.history().can_undo()) undo.undo();
  CHECK(session.parameters().prompt == "How warm is it?");
  CHECK(fixture.chat().turns.empty());
}

TEST_CASE("A question whose engine died before a word of its answer is a turn again when the run goes on") {
  const test::TemporaryFolder folder;
  Fixture fixture("--die-at-token 0 --once " + (folder / "died").string());
  Session& session = fixture.session;
  session.next_run().set_prompt("How warm is it?");
  session.start_run();
  fixture.wait([&] { return session.can_resume() && fixture.chat().turns.empty(); });
  CHECK(session.parameters().prompt == "How warm is it?");
  session.resume_run();
  fixture.wait([&] { return fixture.chat().turns.size() == 2; });
  CHECK(session.parameters().prompt.empty());
  CHECK(fixture.chat().turns[0].content == "How warm is it?");
  CHECK(fixture.chat().turns[1].content == answer_text(*session.runs().a()->run));
  CHECK_FALSE(fixture.chat().turns[1].content.empty());
}

TEST_CASE(
    "A question, its run and its answer are one step, and whoever undoes it in mid-answer finds the answer again") {
  Fixture fixture("--slow 20");
  Session& session = fixture.session;
  Layout layout;
  Appearance appearance;
  Undo undo(session, layout, appearance);
  const auto wait = [&](auto condition) {
    fixture.wait([&] {
      undo.observe_automatic();
      return condition();
    });
    undo.observe_automatic();
  };
  const auto ended = [&] {
    return !session.run_in_progress() && session.runs().all().back().run->status == RunStatus::complete;
  };
  const auto ask = [&](const std::string& question) {
    session.next_run().set_prompt(question);
    undo.observe();
    session.start_run();
    undo.observe();
  };
  undo.start();
  ask("How warm is it?");
  wait(ended);
  CHECK(undo.history().steps() == 2);  // typed, run
  const std::vector<ChatMessage> first = fixture.chat().turns;
  REQUIRE(first.size() == 2);
  undo.undo();
  CHECK(session.parameters().prompt == "How warm is it?");
  CHECK(fixture.chat().turns.empty());
  CHECK(session.runs().a() == nullptr);
  undo.redo();
  CHECK(fixture.chat().turns == first);
  CHECK(session.runs().a()->id == 1);

  ask("And there?");
  wait([&] { return !session.chat().answer().empty(); });
  undo.undo();
  CHECK(session.parameters().prompt == "And there?");
  CHECK(session.runs().a()->id == 1);
  CHECK(session.chat().answer() == first.back().content);  // of the run that goes on this chat knows nothing
  CHECK(session.chat().run() == session.runs().a());
  wait(ended);
  CHECK(fixture.chat().turns == first);  // its last turn has been taken for the one that was asked
  undo.redo();
  REQUIRE(fixture.chat().turns.size() == 4);
  const RunRecord& second = *session.runs().find(2)->run;
  CHECK(fixture.chat().turns[3].content == answer_text(second));
  CHECK(session.runs().a()->id == 2);
  CHECK(session.chat().run() == session.runs().a());

  const std::size_t steps = undo.history().steps();
  session.continue_run();
  undo.observe();
  wait(ended);
  CHECK(undo.history().steps() == steps + 1);
  CHECK(fixture.chat().turns[3].content.size() > answer_text(second).size());
  undo.undo();
  CHECK(fixture.chat().turns[3].content == answer_text(second));
  CHECK(session.runs().a()->id == 2);
}

TEST_CASE("What A of the session before has answered is the chat's turn again, and Continue goes on from it") {
  Fixture fixture;
  Session& session = fixture.session;
  session.next_run().set_prompt("How warm is it?");
  fixture.run();
  const std::string answer = fixture.chat().turns[1].content;
  // The window ended in mid-answer: the chat had the question alone.
  Conversation chat = fixture.chat();
  chat.turns.resize(1);
  session.next_run().set_chat(chat);
  CHECK(session.chat().run() == nullptr);
  session.chat().take_up();
  REQUIRE(fixture.chat().turns.size() == 2);
  CHECK(fixture.chat().turns[1].content == answer);
  CHECK(session.chat().run() == session.runs().a());
  session.continue_run();
  fixture.wait([&] { return !session.run_in_progress(); });
  CHECK(fixture.chat().turns.size() == 2);
  CHECK(fixture.chat().turns[1].content.starts_with(answer));
  CHECK(fixture.chat().turns[1].content.size() > answer.size());
  // Another question is not what A was asked.
  chat.turns = {{"user", "And there?"}};
  session.next_run().set_chat(chat);
  session.chat().take_up();
  CHECK(fixture.chat().turns.size() == 1);
}

// A window that was killed had saved the turn, of which its run had less.
TEST_CASE("After kill -9 the chat's last turn is what its run has") {
  Fixture fixture;
  Session& session = fixture.session;
  session.next_run().set_prompt("How warm is it?");
  fixture.run();
  const RunEntry whole = *session.runs().a();
  RunEntry cut = whole;
  const auto beginning = std::make_shared<RunRecord>(*whole.run);
  beginning->ids.resize(static_cast<std::size_t>(whole.run->prompt_len) + 3);
  beginning->n_queries = beginning->n_tokens();
  beginning->pieces = {};
  for (int t = 0; t < beginning->n_tokens(); ++t)
    beginning->pieces.push_back(whole.run->pieces[static_cast<std::size_t>(t)]);
  finish_run(*beginning, RunStatus::cancelled, "the window closed during the run");
  cut.run = beginning;
  const std::string begun = answer_text(*beginning);
  REQUIRE(begun.size() < fixture.chat().turns[1].content.size());

  Fixture next;
  next.take_up({cut}, fixture.chat(), 1);
  CHECK(next.chat().turns[1].content == begun);
  CHECK(next.session.chat().run() == next.session.runs().a());
  CHECK(next.session.chat().answer() == begun);

  // A run that was resumed had not come as far as the one that it went on from.
  cut.id = 2;
  Fixture resumed;
  resumed.take_up({whole, cut}, fixture.chat());
  CHECK(resumed.chat().turns[1].content == begun);
  CHECK(resumed.session.chat().run() == resumed.session.runs().a());

  // One that a person looks at again is not the newest: the turn is another run's.
  Fixture other;
  cut.id = 1;
  RunEntry newer = whole;
  newer.id = 2;
  other.take_up({cut, newer}, fixture.chat(), 1);
  CHECK(other.chat() == fixture.chat());
}

TEST_CASE("An answer that was continued is one turn of the next session too, with how many tokens it has") {
  Fixture fixture;
  Session& session = fixture.session;
  session.next_run().set_prompt("How warm is it?");
  fixture.run();
  session.continue_run();
  fixture.wait([&] { return !session.run_in_progress(); });
  const int n_before = session.chat().tokens_before();
  REQUIRE(n_before == 6);

  Fixture next;
  next.take_up(session.runs().all(), fixture.chat());
  CHECK(next.session.chat().run() == next.session.runs().a());
  CHECK(next.session.chat().tokens_before() == n_before);
  CHECK(next.session.chat().answer() == session.chat().answer());
  CHECK(next.chat() == fixture.chat());
  // The window ended while it went on: the turn was what it went on from.
  Conversation cut = fixture.chat();
  cut.turns[1].content = answer_text(*session.runs().find(1)->run);
  Fixture cut_off;
  cut_off.take_up(session.runs().all(), cut);
  CHECK(cut_off.chat() == fixture.chat());
  CHECK(cut_off.session.chat().run() == cut_off.session.runs().a());
  CHECK(cut_off.session.chat().tokens_before() == n_before);
  // Without the run that it went on from nobody knows how long it is.
  Fixture alone;
  alone.take_up({*session.runs().find(2)}, fixture.chat());
  CHECK(alone.session.chat().run() == nullptr);
}

TEST_CASE(
    "The answer to the last turn is found at the next start whichever run is A, and no other run becomes a turn") {
  Fixture fixture;
  Session& session = fixture.session;
  for (const char* question : {"How warm is it?", "And in the evening?"}) {
    session.next_run().set_prompt(question);
    fixture.run();
  }
  Fixture next;
  next.take_up(session.runs().all(), fixture.chat(), 1);
  CHECK(next.session.runs().a()->id == 1);
  REQUIRE(next.session.chat().run() != nullptr);
  CHECK(next.session.chat().run()->id == 2);
  CHECK(next.chat() == fixture.chat());
  // A last turn without an answer is not filled by a run that is not on show.
  Conversation asked = fixture.chat();
  asked.turns.pop_back();
  Fixture open;
  open.take_up(session.runs().all(), asked, 1);
  CHECK(open.chat() == asked);
  CHECK(open.session.chat().run() == nullptr);
}

TEST_CASE("A turn ends before the stop text that ended it, which is in the tokens that Continue goes on from") {
  Fixture fixture;
  Session& session = fixture.session;
  session.next_run().set_prompt("How warm is it?");
  fixture.run();
  const RunRecord plain = *session.runs().a()->run;
  const std::string third(plain.pieces[static_cast<std::size_t>(plain.prompt_len) + 2]);
  Conversation chat = fixture.chat();
  chat.turns.clear();
  session.next_run().set_chat(chat);
  session.next_run().set_prompt("How warm is it?");
  session.next_run().set_stop({third});
  fixture.run();
  const RunRecord& stopped = *session.runs().a()->run;
  REQUIRE(stopped.n_tokens() < plain.n_tokens());
  const std::string whole = answer_text(stopped), turn = fixture.chat().turns[1].content;
  CHECK(turn == whole.substr(0, whole.find(third)));
  CHECK(session.chat().answer_of(*session.runs().a()) == turn);
  CHECK(session.runs().a()->stop() == std::vector<std::string>{third});
  session.next_run().set_stop({});
  session.continue_run();
  fixture.wait([&] { return !session.run_in_progress(); });
  CHECK(fixture.chat().turns[1].content.starts_with(whole));
}

TEST_CASE("Chat and stop texts are in what the next start takes up, and what is no chat is refused whole") {
  Fixture fixture;
  Session& session = fixture.session;
  const Conversation chat{"Be kind.", {{"user", "a\nb"}, {"assistant", "\"c\""}}, true};
  session.next_run().set_chat(chat);
  session.next_run().set_stop({"\n\n", "END"});
  Layout layout;
  Appearance appearance;
  const json saved = to_json(capture_state(session, layout, appearance));
  const auto restore = [&](const json& state) {
    apply_state(state_from_json(state, "workspace.json"), session, layout, appearance);
  };
  session.next_run().set_chat({});
  session.next_run().set_stop({});
  restore(saved);
  CHECK(fixture.chat() == chat);
  CHECK(session.parameters().stop == std::vector<std::string>{"\n\n", "END"});
  CHECK(session.next_run().request().stop.size() == 2);

  json wrong = saved;
  wrong["parameters"]["conversation"]["turns"][0]["role"] = "nobody";
  CHECK_THROWS_AS(restore(wrong), Error);
  wrong = saved;
  wrong["parameters"]["stop"] = {""};
  CHECK_THROWS_AS(restore(wrong), Error);
  CHECK(fixture.chat() == chat);
  CHECK_THROWS_AS(session.next_run().set_stop({""}), Error);
}

TEST_CASE("An answer is text: without its end mark, without half a character, and it says why it ends") {
  CHECK(answer_text(answered({"Na", " ja", "<|im_end|>"})) == "Na ja");
  CHECK(answer_text(answered({"a\xc3", "\xa4"})) == "aä");
  CHECK(answer_text(answered({"a\xe4\xb8"}, RunStatus::running)) == "a");
  CHECK(answer_text(answered({"a\xe4\xb8"})) == "a");
  CHECK(answer_text(answered({"a\xb8z"})) == "a\xef\xbf\xbdz");
  CHECK(answer_text(answered({})).empty());
  CHECK(answer_text(answered({"a", "b E", "ND c"}), {"x", "END"}) == "ab ");
  CHECK(answer_text(answered({"a", "b E"}), {"END"}) == "ab E");
  CHECK(stop_reason(answered({"a", "<|im_end|>"})) == "end of text after 2 tokens");
  CHECK(stop_reason(answered({"a", "b"}, RunStatus::complete, 2)) == "stopped at 2 tokens");
  CHECK(stop_reason(answered({"a"})) == "stop text found after 1 token");
  CHECK(stop_reason(answered({"a"}, RunStatus::running)) == "1 of 8 tokens");
  CHECK(stop_reason(answered({"a"}, RunStatus::failed)) == "failed after 1 token");
}

TEST_CASE("Stop texts are written a line each and read back as they were") {
  const std::vector<std::string> texts = {"END", "\n\n", "a\\n", "\t, \"x\"", "ü"};
  CHECK(stop_lines(texts) == "END\n\\n\\n\na\\\\n\n\\t, \"x\"\nü");
  CHECK(stop_texts(stop_lines(texts)) == texts);
  CHECK(stop_texts("\n\none\n\n").size() == 1);
  CHECK(stop_texts("\\").size() == 1);
}

TEST_CASE("A long prompt is counted aside, and the count is that of what was typed last") {
  Fixture fixture;
  Session& session = fixture.session;
  session.next_run().set_raw(true);
  std::string text;
  while (text.size() < (100u << 10)) text += "word ";
  session.next_run().set_prompt(text);
  CHECK(session.next_run().prompt_tokens() == -1);
  session.next_run().set_prompt(text + text);  // while the first is being counted
  fixture.wait([&] { return session.next_run().prompt_tokens() >= 0; });
  const int both = session.next_run().prompt_tokens();
  session.next_run().set_prompt(text);
  fixture.wait([&] { return session.next_run().prompt_tokens() >= 0; });
  CHECK(both == Approx(2 * session.next_run().prompt_tokens()).epsilon(0.001));  // words may join where the texts meet
  session.next_run().set_prompt("short");
  CHECK(session.next_run().prompt_tokens() > 0);  // at once
}

// It took two clicks: a long prompt is counted aside, and the first guess was taken for the answer.
TEST_CASE("A long prompt is cut to the tokens that were asked for at once") {
  Fixture fixture;
  NextRun& next = fixture.session.next_run();
  std::string text;
  for (int i = 0; text.size() < 60000; ++i) text += i < 3000 ? "a " : "incomprehensibilities ";
  next.set_prompt(text);
  fixture.wait([&] { return next.prompt_tokens() > 0; });
  REQUIRE(next.prompt_tokens() > 4000);
  next.shorten_prompt(2000);
  fixture.wait([&] { return next.prompt_tokens() > 0; });
  CHECK(next.prompt_tokens() <= 2000);
  CHECK(next.prompt_tokens() > 1500);
}
