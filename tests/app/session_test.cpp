// The session without a window, on the fake engine: what a person does, and what may go wrong while they do it.

#include "app/session/session.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/session/obstacles.h"
#include "engine/core/record/command_line.h"
#include "engine/core/study/measure/what_if.h"
#include "engine/core/support/error.h"
#include "engine/core/support/text.h"
#include "engine/core/trace/trace_file.h"
#include "tests/app/poll_until.h"
#include "tests/app/process.h"

using namespace kvscope;
using namespace kvscope::app;

namespace {

namespace fs = std::filesystem;

std::string prompt_of(int words) {
  std::string text;
  for (int i = 0; i < words; ++i) text += " word" + std::to_string(i % 17) + (i % 5 == 0 ? " 42" : "");
  return text;
}

class Fixture {
 public:
  explicit Fixture(const std::string& engine_options = "")
      : session({.engine_command = "exec " + test::fake_engine().string() + " " + engine_options,
                 .trace_program = test::kvscope().string(),
                 .wake = [] {}}) {
    session.model().open("some/model");
    wait([&] { return test::has_model(session); });
    session.next_run().set_prompt(prompt_of(250));
    session.policy().set(PolicySpec::parse("kvpop:keep=40%"));
    session.next_run().set_max_tokens(24);
  }
  template <typename Condition>
  void wait(Condition condition) {
    test::poll_until(session, condition);
  }
  void run_to_end() {
    wait([&] { return !session.run_in_progress(); });
  }
  Session session;
};

}  // namespace

TEST_CASE("A run becomes A, grows while it is decoded, and ends complete") {
  Fixture fixture("--slow 10");
  Session& session = fixture.session;
  session.next_run().set_max_tokens(100);
  session.start_run();
  CHECK(session.run_in_progress());
  CHECK_THROWS_AS(session.start_run(), Error);
  fixture.wait([&] {
    return session.runs().shown_a() &&
           session.runs().shown_a()->run->n_tokens() > session.runs().shown_a()->run->prompt_len + 2;
  });
  const auto early = session.runs().shown_a()->run;
  const auto early_revision = session.runs().shown_a()->revision;
  const int early_tokens = early->n_tokens();
  fixture.run_to_end();
  CHECK(early->n_tokens() == early_tokens);  // what was drawn then has not changed under the view
  const RunRecord& run = *session.runs().shown_a()->run;
  CHECK(session.runs().shown_a()->revision > early_revision);
  CHECK(run.status == RunStatus::complete);
  CHECK(run.n_tokens() == run.prompt_len + 100);
  CHECK(run.model.name == "model");
  CHECK(run.oracle_horizon == run.n_tokens());
  CHECK(session.runs().shown_b() == nullptr);
  CHECK(session.engine().state() == EngineState::ready);
}

TEST_CASE("A changed policy shows the what-if of A as a preview, decode again measures it as B") {
  Fixture fixture;
  Session& session = fixture.session;
  session.start_run();
  fixture.run_to_end();
  session.policy().set(PolicySpec::parse("kvpop:keep=30%"));
  CHECK(session.preview().pending());
  fixture.wait([&] { return session.preview().shown(); });
  REQUIRE(session.runs().shown_b());
  CHECK(session.runs().shown_b()->preview);
  CHECK(session.runs().shown_b()->run->evict_at ==
        what_if(*session.runs().shown_a()->run, PolicySpec::parse("kvpop:keep=30%")).evict_at);

  session.decode_again();
  CHECK(session.preview().shown());  // until something measured takes its place
  fixture.run_to_end();
  CHECK_FALSE(session.preview().shown());
  REQUIRE(session.runs().shown_b());
  CHECK_FALSE(session.runs().shown_b()->preview);
  CHECK(session.runs().shown_b()->run->policy == PolicySpec::parse("kvpop:keep=30%"));
  CHECK(session.runs().all().size() == 2);
  CHECK_FALSE(session.preview().pending());  // measured: no preview takes its place
  CHECK(session.runs().shown_a()->run->policy == PolicySpec::parse("kvpop:keep=40%"));

  session.policy().set(PolicySpec::parse("kvpop:keep=35%"));
  fixture.wait([&] { return session.preview().shown(); });
  session.policy().set(PolicySpec::parse("kvpop:keep=40%"));  // A's own: nothing to preview, B is back
  CHECK_FALSE(session.preview().shown());
  CHECK_FALSE(session.runs().shown_b()->preview);
}

// It ran on whatever model was open, on ids that another tokenizer had made.
TEST_CASE("What takes A's tokens along is refused while another model is open than A's") {
  Fixture fixture;
  Session& session = fixture.session;
  session.start_run();
  fixture.run_to_end();
  const auto open = [&](const char* model) {
    session.model().open(model);
    fixture.wait([&] { return test::has_model(session); });
  };
  const auto refusals = [&] {
    return std::vector{why_not(session, RunKind::decode_again), why_not(session, RunKind::replay),
                       why_not_of_a(session), session.heads().why_not()};
  };
  CHECK(refusals() == std::vector<std::string>(4));
  open("some/other");
  CHECK(refusals() == std::vector<std::string>(4, "The open model is other; A's is model."));
  CHECK(why_not(session, RunKind::start).empty());
  open("elsewhere/model");  // the same weights in another folder
  CHECK(refusals() == std::vector<std::string>(4));
}

TEST_CASE("Only the last of many quick changes is previewed") {
  Fixture fixture;
  Session& session = fixture.session;
  session.start_run();
  fixture.run_to_end();
  for (int keep = 39; keep >= 30; --keep)
    session.policy().set(PolicySpec::parse("kvpop:keep=" + std::to_string(keep) + "%"));
  fixture.wait([&] { return session.preview().shown(); });
  CHECK(session.runs().shown_b()->run->policy == PolicySpec::parse("kvpop:keep=30%"));
}

TEST_CASE("A preview that would not be honest is refused with the reason") {
  Fixture fixture;
  Session& session = fixture.session;
  session.start_run();
  fixture.run_to_end();
  session.policy().set(PolicySpec::parse("kvpop:keep=40%,window=32"));
  fixture.wait([&] { return !session.preview().pending(); });
  CHECK_FALSE(session.preview().shown());
  CHECK(session.preview().note().find("window") != std::string::npos);
}

// W6: "prefill 11 / 12" stood there during the whole answer, "stopping at the next token" ever after.
TEST_CASE("The progress of a run is that of what it does, and a stopped one says where it stopped") {
  Fixture fixture("--slow 10");
  Session& session = fixture.session;
  session.next_run().set_max_tokens(500);
  session.start_run();
  const auto decoded = [&] {
    return session.runs().shown_a()
               ? session.runs().shown_a()->run->n_tokens() - session.runs().shown_a()->run->prompt_len
               : 0;
  };
  const TaskProgress& progress = session.engine().progress();
  fixture.wait([&] { return decoded() > 200 && progress.rate() > 0; });  // the more, the less its first moment counts
  CHECK(progress.phase == "decode");
  CHECK(progress.max == 500);
  CHECK(progress.line().starts_with("decode " + fixed_text(progress.value, 0) + " / 500, "));
  CHECK(progress.line().find(" tok/s, 0:") != std::string::npos);
  CHECK(progress.rate() < 110);  // a step takes 10 ms: the prompt is not counted in
  session.engine().cancel_run();
  fixture.run_to_end();
  CHECK(progress.phase.empty());
  CHECK(session.messages().notice() == "stopped at " + std::to_string(decoded()) + " of 500 new tokens");
}

// "0.1 tok/s, 10:24 left" stood there as long as the oracle read the prompt, which it does behind the first new token.
TEST_CASE("The speed of a decode is that of its steps alone, and is not said before there are some") {
  Fixture fixture("--slow 20 --slow-oracle 1500");
  Session& session = fixture.session;
  session.next_run().set_max_tokens(100);
  session.start_run();
  const TaskProgress& progress = session.engine().progress();
  std::string early;
  fixture.wait([&] {
    if (progress.phase == "decode" && progress.value < 4) early = progress.line();
    return progress.value >= 10 && progress.rate() > 0;
  });
  CHECK(early.starts_with("decode "));
  CHECK(early.ends_with(" / 100"));
  CHECK(progress.tokens_per_s > 12);  // by the time since the first token it would be 6
  CHECK(progress.tokens_per_s < 50);  // a step takes 20 ms
  CHECK(progress.rate() > 12);
  CHECK_THAT(progress.line(), Catch::Contains(" tok/s, 0:0"));
  session.engine().cancel_run();
  fixture.run_to_end();
}

// W3: the refusal's button must not take the panel's policy.
TEST_CASE("A's tokens can be replayed under B's policy, whatever the panel is set to") {
  Fixture fixture;
  Session& session = fixture.session;
  session.start_run();
  fixture.run_to_end();
  session.policy().set(PolicySpec::parse("streaming:window=80"));
  session.decode_again();
  fixture.run_to_end();
  const PolicySpec of_b = session.runs().shown_b()->run->policy;
  session.policy().set(PolicySpec::parse("kvpop:keep=40%"));
  session.replay(session.runs().shown_b()->run->policy);
  fixture.run_to_end();
  CHECK(session.runs().shown_b()->run->policy == of_b);
}

// W7: the preview froze at the size that the run had when the slider was moved.
TEST_CASE("A preview beside a run that goes on follows it, says how far it reaches, and ends with it") {
  Fixture fixture("--slow 10");
  Session& session = fixture.session;
  session.next_run().set_max_tokens(300);
  session.start_run();
  fixture.wait([&] {
    return session.runs().shown_a() &&
           session.runs().shown_a()->run->n_tokens() > session.runs().shown_a()->run->prompt_len + 5;
  });
  session.policy().set(PolicySpec::parse("kvpop:keep=30%"));
  fixture.wait([&] { return session.preview().shown(); });
  const int seen = session.preview().run()->n_tokens();
  // Whenever it is looked at, what is drawn is of the tokens that the label says, under the policy that was asked for.
  fixture.wait([&] {
    const views::ShownRun* b = session.runs().shown_b();
    REQUIRE(b);
    REQUIRE(b->preview);
    REQUIRE(b->label == "preview of A, up to q " + std::to_string(b->run->n_tokens() - 1));
    REQUIRE(b->run->n_tokens() <= session.runs().shown_a()->run->n_tokens());
    return b->run->n_tokens() > seen + 20;
  });
  session.engine().cancel_run();
  fixture.run_to_end();
  fixture.wait([&] { return session.preview().shown() && !session.preview().pending(); });
  CHECK(session.runs().shown_b()->label == "preview of A");
  const RunRecord expected = what_if(*session.runs().shown_a()->run, PolicySpec::parse("kvpop:keep=30%"));
  CHECK(session.runs().shown_b()->run->evict_at == expected.evict_at);
}

// W16: SP-KV took window 128 although its gate said 64; a preview beside the run was of 128 too.
TEST_CASE(
    "What nobody wrote of a policy is the gate's in the panel, in a preview and in the run, and what was written is not") {
  Fixture fixture("--gate sp_kv,0.25,40");
  Session& session = fixture.session;
  session.policy().set(PolicySpec::parse("sp-kv"));
  const PolicySpec own = session.policy().in_effect();
  CHECK(own.value("threshold") == 0.25);
  CHECK(own.count("window") == 40);
  session.start_run();
  fixture.run_to_end();
  CHECK(session.runs().shown_a()->run->policy == own);
  session.policy().request_preview();
  CHECK_FALSE(session.preview().pending());  // A is of this policy: it was previewed with the method's own numbers

  // The method's own 0.5, but written: the same number as before, another wish.
  session.policy().set(PolicySpec::parse("sp-kv:threshold=0.5"));
  CHECK(session.policy().in_effect().value("threshold") == 0.5);
  fixture.wait([&] { return session.preview().shown(); });
  CHECK(session.runs().shown_b()->run->policy == session.policy().in_effect());
  CHECK(session.runs().shown_b()->run->policy.count("window") == 40);
  session.decode_again();
  fixture.run_to_end();
  CHECK(session.runs().shown_b()->run->policy.to_string() == session.policy().in_effect().to_string());
  CHECK_FALSE(session.runs().shown_b()->preview);
}

TEST_CASE("A cancelled run keeps what was decoded") {
  Fixture fixture("--slow 20");
  Session& session = fixture.session;
  session.next_run().set_max_tokens(500);
  session.start_run();
  fixture.wait([&] {
    return session.runs().shown_a() &&
           session.runs().shown_a()->run->n_tokens() > session.runs().shown_a()->run->prompt_len;
  });
  session.engine().cancel_run();
  fixture.run_to_end();
  const RunRecord& run = *session.runs().shown_a()->run;
  CHECK(run.status == RunStatus::cancelled);
  CHECK(run.n_tokens() > run.prompt_len);
  CHECK(run.n_tokens() < run.prompt_len + 500);
}

TEST_CASE("When the engine dies in mid-decode nothing shown so far is lost, and a restart works") {
  const test::TemporaryFolder folder;
  Fixture fixture("--slow 15 --die-at-token 12 --once " + (folder / "died").string());
  Session& session = fixture.session;
  session.start_run();
  fixture.wait([&] {
    return session.runs().shown_a() &&
           session.runs().shown_a()->run->n_tokens() > session.runs().shown_a()->run->prompt_len + 3;
  });
  const auto before = session.runs().shown_a()->run;
  fixture.wait([&] { return session.engine().state() == EngineState::dead; });
  const RunRecord& after = *session.runs().shown_a()->run;
  CHECK(after.status == RunStatus::failed);
  CHECK(after.message.find("signal 9") != std::string::npos);
  CHECK(after.n_tokens() == after.prompt_len + 12);  // every token that was sent
  REQUIRE(after.n_tokens() >= before->n_tokens());
  CHECK(std::equal(before->ids.begin(), before->ids.end(), after.ids.begin()));
  REQUIRE(session.messages().banners().size() == 1);
  CHECK(session.messages().banners()[0].command == "run.resume");
  CHECK(session.messages().banners()[0].text.find("out of imaginary memory") != std::string::npos);
  CHECK_FALSE(session.run_in_progress());
  CHECK_THROWS_AS(session.start_run(), Error);  // it would wait for an answer that never comes

  session.restart_engine();
  CHECK(session.messages().banners().empty());
  fixture.wait([&] { return test::has_model(session); });
  session.start_run();
  fixture.run_to_end();
  CHECK(session.runs().shown_a()->run->status == RunStatus::complete);
  CHECK(session.runs().all().size() == 2);
}

TEST_CASE("Restarting a live engine ends its run, keeps its tokens, and hears no more of the old one") {
  Fixture fixture("--slow 20");
  Session& session = fixture.session;
  session.next_run().set_max_tokens(300);
  session.start_run();
  fixture.wait([&] {
    return session.runs().shown_a() &&
           session.runs().shown_a()->run->n_tokens() > session.runs().shown_a()->run->prompt_len;
  });
  const auto before = session.runs().shown_a()->run;
  session.restart_engine();
  CHECK_FALSE(session.run_in_progress());
  CHECK(session.runs().a()->run->status == RunStatus::failed);
  CHECK(session.runs().a()->run->n_tokens() >= before->n_tokens());
  fixture.wait([&] { return test::has_model(session); });
  session.next_run().set_max_tokens(4);
  session.start_run();
  fixture.run_to_end();
  CHECK(session.runs().a()->run->status == RunStatus::complete);
  CHECK(session.runs().a()->run->n_tokens() == session.runs().a()->run->prompt_len + 4);
  CHECK(session.messages().banners().empty());  // the old engine's end is no news
}

TEST_CASE("A failing load or run is a banner, not an end") {
  {
    Session session(
        {.engine_command = test::fake_engine().string() + " --fail load", .trace_program = "", .wake = [] {}});
    session.model().open("m");
    for (int i = 0; i < 5000 && session.messages().banners().empty(); ++i)
      session.poll(), std::this_thread::sleep_for(std::chrono::milliseconds(2));
    REQUIRE(session.messages().banners().size() == 1);
    CHECK(session.messages().banners()[0].text.find("told to fail at load") != std::string::npos);
    CHECK_FALSE(session.engine().model());
  }
  Fixture fixture("--fail run");
  fixture.session.start_run();
  fixture.run_to_end();
  REQUIRE(fixture.session.messages().banners().size() == 1);
  CHECK(fixture.session.engine().state() == EngineState::ready);
}

TEST_CASE("An engine that cannot be started is a banner with a way to try again") {
  Session session({.engine_command = "exit 9", .trace_program = "", .wake = [] {}});
  session.model().open("m");
  for (int i = 0; i < 5000 && session.messages().banners().empty(); ++i)
    session.poll(), std::this_thread::sleep_for(std::chrono::milliseconds(2));
  REQUIRE(session.messages().banners().size() == 1);
  CHECK(session.messages().banners()[0].command == "engine.restart");
  CHECK(session.engine().state() == EngineState::dead);
}

TEST_CASE("A run that was saved and opened again is the same run") {
  const test::TemporaryFolder folder;
  const std::string path = (folder / "a.h5").string();
  Fixture fixture;
  Session& session = fixture.session;
  session.start_run();
  fixture.run_to_end();
  const auto original = session.runs().shown_a()->run;
  session.traces().save(session.runs().a()->id, path, false);
  fixture.wait([&] { return !session.files().busy(); });
  CHECK(session.runs().a()->trace_path == path);
  fs::copy_file(path, folder / "b.h5");
  session.traces().open((folder / "b.h5").string());
  fixture.wait([&] { return session.runs().all().size() == 2; });
  const RunRecord& loaded = *session.runs().shown_a()->run;
  CHECK(loaded.ids == original->ids);
  CHECK(loaded.evict_at == original->evict_at);
  CHECK(loaded.contests == original->contests);
  CHECK(loaded.policy == original->policy);
  session.traces().save(session.runs().a()->id, path, false);  // it exists
  fixture.wait([&] { return !session.files().busy(); });
  REQUIRE_FALSE(session.messages().banners().empty());
}

// Its prompt became the next turn of a chat, and without a model it took the place of what had been typed.
TEST_CASE("A trace that is opened leaves what is about to be sent as it was") {
  const test::TemporaryFolder folder;
  const std::string path = (folder / "a.h5").string();
  Fixture fixture;
  Session& session = fixture.session;
  session.next_run().set_raw(false);
  session.start_run();
  fixture.run_to_end();
  session.traces().save(session.runs().a()->id, path, false);
  fixture.wait([&] { return !session.files().busy() && !session.parameters().chat.turns.empty(); });
  const Conversation before = session.parameters().chat;
  REQUIRE(session.parameters().prompt.empty());
  fs::copy_file(path, folder / "b.h5");
  session.traces().open((folder / "b.h5").string());
  fixture.wait([&] { return session.runs().all().size() == 2; });
  CHECK(session.parameters().prompt.empty());
  CHECK(session.parameters().chat == before);

  Session viewer({.engine_command = "exit 9", .trace_program = test::kvscope().string(), .wake = [] {}});
  viewer.next_run().set_prompt("what I typed");
  viewer.traces().open(path);
  fixture.wait([&] { return viewer.poll(), viewer.runs().a() != nullptr; });
  CHECK(viewer.parameters().prompt == "what I typed");
  CHECK(viewer.policy().n_positions() == viewer.runs().a()->run->n_positions);  // what a share of the budget is of
}

TEST_CASE("A run of the middle of a trace that is saved is the first of its new file") {
  const test::TemporaryFolder folder;
  const fs::path all = folder / "all.h5", alone = folder / "alone.h5";
  Fixture fixture;
  Session& session = fixture.session;
  session.start_run();
  fixture.run_to_end();
  const RunRecord run = *session.runs().a()->run;
  TraceWriter writer(all, run.model, {.max_runs = 3, .max_positions = run.n_positions});
  for (int i = 0; i < 3; ++i) writer.add(run);
  writer.finish();
  session.traces().open(all.string());
  fixture.wait([&] { return session.runs().all().size() == 4; });
  const RunEntry middle = session.runs().all()[2];
  REQUIRE(middle.trace_run == 1);
  session.traces().save(middle.id, alone.string(), false);
  fixture.wait([&] { return session.runs().find(middle.id)->trace_path == alone.string(); });
  CHECK(session.runs().find(middle.id)->trace_run == 0);  // where the next start looks for it
  CHECK(load_trace(alone, 0).ids == run.ids);
}

TEST_CASE("A foreign file that is opened is a banner and changes nothing") {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "x.h5") << "no trace";
  Fixture fixture;
  fixture.session.traces().open((folder / "x.h5").string());
  fixture.wait([&] { return !fixture.session.messages().banners().empty(); });
  CHECK(fixture.session.runs().all().empty());
  CHECK(fixture.session.messages().banners()[0].text.find("x.h5") != std::string::npos);
}

TEST_CASE("A and B are any two runs, and removing A puts B in its place") {
  Fixture fixture;
  Session& session = fixture.session;
  session.start_run();
  fixture.run_to_end();
  session.policy().set(PolicySpec::parse("streaming:window=100"));
  session.decode_again();
  fixture.run_to_end();
  const int first = session.runs().a()->id, second = session.runs().b()->id;
  CHECK(session.runs().divergence() == -1);  // the fake engine answers alike under every policy
  session.runs().swap();
  CHECK(session.runs().a()->id == second);
  CHECK(session.runs().b()->id == first);
  session.runs().remove(second);
  CHECK(session.runs().a()->id == first);
  CHECK(session.runs().b() == nullptr);
  CHECK_THROWS_AS(session.runs().show(99, 0), Error);
}

TEST_CASE("The selection stays inside run A") {
  Fixture fixture;
  Session& session = fixture.session;
  session.start_run();
  fixture.run_to_end();
  session.selection().layer = 99;
  session.selection().kv_head = -3;
  session.selection().token = 1 << 20;
  session.selection().q = 1 << 20;
  session.runs().clamp_selection();
  CHECK(session.selection().layer == 5);
  CHECK(session.selection().kv_head == 0);
  CHECK(session.selection().token == session.runs().shown_a()->run->n_tokens() - 1);
  CHECK(session.selection().q == session.runs().shown_a()->run->n_tokens() - 1);
}

TEST_CASE("The attention of a token is asked once the engine is free, for whoever looks, and once") {
  Fixture fixture("--slow 10");
  Session& session = fixture.session;
  session.next_run().set_max_tokens(500);
  session.start_run();
  fixture.wait([&] {
    return session.runs().shown_a() &&
           session.runs().shown_a()->run->n_tokens() > session.runs().shown_a()->run->prompt_len;
  });
  session.selection().layer = 1, session.selection().token = 7;
  const auto look = [&] {
    session.attention().asked().wanted = true;
    session.attention().poll(session.runs().shown_a(), session.selection());
    return session.attention().asked().answer;
  };
  CHECK_FALSE(look());
  CHECK(session.attention().asked().why_not.find("run ends") != std::string::npos);
  session.engine().cancel_run();
  fixture.run_to_end();
  session.next_run().set_max_tokens(24);
  fixture.wait([&] { return look() != nullptr; });
  const auto answer = look();
  CHECK(answer->layer == 1);
  CHECK(answer->tokens == std::vector<std::int32_t>{7});
  CHECK(answer->n_queries == session.runs().shown_a()->run->n_tokens());
  CHECK(answer->row(0, 1)[9] == Approx(1.0 / (9 - 7 + 2 + 1)));  // as the fake engine makes it up
  session.selection().token = 8;
  CHECK_FALSE(look());
  fixture.wait([&] { return look() != nullptr; });
  session.selection().token = 7;
  CHECK(look() == answer);  // it was kept
  session.start_run();
  fixture.run_to_end();
  CHECK(session.runs().shown_a()->run->status == RunStatus::complete);
}

TEST_CASE("The attention of the shown query is asked once, kept, and the last answer is shown while time plays") {
  Fixture fixture("--slow 10");
  Session& session = fixture.session;
  session.start_run();
  fixture.run_to_end();
  const auto look = [&](int q) {
    session.selection().q = q;
    session.query_attention().asked().wanted = true;
    session.query_attention().poll(session.runs().shown_a(), session.selection());
    return session.query_attention().asked().answer;
  };
  fixture.wait([&] { return look(40) != nullptr; });
  const auto answer = look(40);
  CHECK(answer->n_tokens == 41);
  CHECK(answer->n_layers == session.runs().shown_a()->run->model.n_layers);
  float sum = 0;
  for (int t = 0; t < 41; ++t) sum += static_cast<float>(1 + (t + 1) % 5);
  CHECK(answer->row(1, 0)[9] == Approx((1 + 10 % 5) / sum));  // as the fake engine makes it up
  CHECK(look(41) == answer);                                  // the last one, until the next is there
  const auto n_answered = [&](int q) { return look(q) ? look(q)->n_tokens : 0; };
  fixture.wait([&] { return n_answered(41) == 42; });
  CHECK(look(40) == answer);  // it was kept
  session.selection().play.on = true;
  int q = 50;
  fixture.wait([&] { return n_answered(q = std::min(q + 1, 199)) >= 51; });  // however fast it plays
  session.selection().play.on = false;
  fixture.wait([&] { return n_answered(220) == 221; });
  session.start_run();
  look(5);
  CHECK(session.query_attention().asked().answer == nullptr);
  CHECK_FALSE(session.query_attention().asked().why_not.empty());
  fixture.run_to_end();
}

TEST_CASE(
    "A run that recorded no scores is previewed by those that the engine's gates give its tokens, asked for once") {
  Fixture fixture("--gate sp_kv,0.35,40 --gate kvpop_mlstm,0,64");
  Session& session = fixture.session;
  session.policy().set(PolicySpec::parse("full"));
  session.start_run();
  fixture.run_to_end();
  const auto full = session.runs().shown_a()->run;
  session.policy().set(PolicySpec::parse("sp-kv"));
  CHECK(session.policy().gate_probe().pending());
  CHECK(session.preview().pending());
  fixture.wait([&] { return session.preview().shown(); });
  const RunRecord& preview = *session.preview().run();
  CHECK(preview.policy.value("threshold") == 0.35);  // the gate's own
  CHECK(preview.scorer.kind == "sp_kv");
  CHECK(session.runs().shown_b()->preview);
  int kept = 0;
  for (int t = preview.policy.geometry(full->n_positions).n_sink; t < full->queries() - 40; ++t) {
    const bool stays = (7 * t + 3 * 4) % 11 > 3;  // as the fake engine scores the fifth head
    CHECK(preview.evict_at.row(4 / full->model.n_kv_heads, 4 % full->model.n_kv_heads)[t] == (stays ? kNever : t + 40));
    kept += stays;
  }
  CHECK(kept > 50);
  session.policy().set(PolicySpec::parse("kvpop:keep=40%"));
  CHECK_FALSE(session.policy().gate_probe().pending());  // one pass has scored the tokens for all gates
  CHECK_FALSE(session.engine().question_pending());
  fixture.wait([&] { return session.preview().shown(); });
  CHECK(session.preview().run()->scorer.kind == "kvpop_mlstm");
  session.policy().set(PolicySpec::parse("wg-kv"));  // whose gate the engine does not have
  fixture.wait([&] { return !session.preview().pending(); });
  CHECK_FALSE(session.preview().shown());
  CHECK_FALSE(session.preview().note().empty());
}

TEST_CASE("A run that begins does not wait for a question, and an engine that dies leaves none open") {
  Fixture fixture("--slow 30 --die-at-token 3");
  Session& session = fixture.session;
  session.next_run().set_max_tokens(2);
  session.start_run();
  fixture.run_to_end();
  session.selection().token = 5;
  session.attention().asked().wanted = true;
  session.attention().poll(session.runs().shown_a(), session.selection());
  CHECK(session.engine().question_pending());
  session.next_run().set_max_tokens(24);
  session.start_run();
  fixture.wait([&] { return session.engine().state() == EngineState::dead; });
  CHECK_FALSE(session.engine().question_pending());
  session.selection().token = 6;
  session.attention().asked().wanted = true;
  session.attention().poll(session.runs().shown_a(), session.selection());
  CHECK_FALSE(session.attention().asked().why_not.empty());
  CHECK_FALSE(session.engine().question_pending());
}

TEST_CASE("A run whose engine died goes on from its last token after the restart, as if nothing had been") {
  RunRecord whole;
  {
    Fixture undisturbed;
    undisturbed.session.start_run();
    undisturbed.run_to_end();
    whole = *undisturbed.session.runs().a()->run;
  }
  const test::TemporaryFolder folder;
  Fixture fixture("--slow 5 --die-at-token 11 --once " + (folder / "died").string());
  Session& session = fixture.session;
  CHECK_FALSE(session.can_resume());
  session.start_run();
  fixture.wait([&] { return session.engine().state() == EngineState::dead; });
  REQUIRE(session.can_resume());
  const auto cut = session.runs().a()->run;
  CHECK(cut->status == RunStatus::failed);
  CHECK(cut->n_tokens() > cut->prompt_len);
  CHECK(cut->n_tokens() < whole.n_tokens());

  session.resume_run();
  fixture.wait([&] { return session.run_in_progress(); });
  CHECK_FALSE(session.can_resume());
  fixture.run_to_end();
  const RunRecord& run = *session.runs().a()->run;
  CHECK(run.status == RunStatus::complete);
  CHECK(run.ids == whole.ids);
  for (int t = run.prompt_len; t < run.n_tokens(); ++t) CHECK(run.pieces[t] == whole.pieces[t]);
  CHECK(run.policy == whole.policy);
  CHECK(run.prompt_len == whole.prompt_len);
  CHECK(run.prompt_text == whole.prompt_text);
  CHECK(command_line(run) == command_line(*cut));
  CHECK(run.asked->origin.kind == RunOrigin::Kind::resumed);
  CHECK(run.asked->origin.of == cut->asked->key);
  CHECK(run.asked->origin.q == cut->n_tokens() - 1);
  CHECK(run.asked->key != cut->asked->key);
  for (int layer = 0; layer < run.evict_at.n_layers(); ++layer)
    CHECK(run.evict_at.row(layer, 0) == whole.evict_at.row(layer, 0));
  CHECK(session.runs().all().size() == 2);  // what was kept of the first is kept
  CHECK(session.messages().banners().empty());
  bool said = false;
  for (const std::string& line : session.messages().log_lines())
    said = said || line.find("resumed from token " + std::to_string(cut->n_tokens()) + ": its ") != std::string::npos;

  CHECK(said);
}

TEST_CASE("A run whose engine died before its first token is asked for again, and a restart alone runs nothing") {
  const test::TemporaryFolder folder;
  Fixture fixture("--die-at-token 0 --once " + (folder / "died").string());
  Session& session = fixture.session;
  session.start_run();
  fixture.wait([&] { return session.engine().state() == EngineState::dead; });
  session.restart_engine();
  fixture.wait([&] { return test::has_model(session); });
  CHECK_FALSE(session.run_in_progress());
  REQUIRE(session.can_resume());
  session.resume_run();
  CHECK(session.run_in_progress());
  fixture.run_to_end();
  CHECK(session.runs().a()->run->status == RunStatus::complete);
  CHECK_FALSE(session.can_resume());
  CHECK_THROWS_AS(session.resume_run(), Error);
}
