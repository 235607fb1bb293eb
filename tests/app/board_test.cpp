// The head board's commands: what is exported is the command line's file, and what is measured are exactly those heads.

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/core/files/gate/duo_directory.h"
#include "engine/core/support/error.h"
#include "engine/core/trace/trace_file.h"
#include "tests/app/process.h"
#include "tests/app/program.h"
#include "tests/support/random_run.h"
#include "tests/support/skip.h"
#include "views/selection/head_choice.h"

using namespace kvscope;
using namespace kvscope::app;
namespace fs = std::filesystem;

namespace {

/// The program without a window, with a state folder of its own.
struct StateHome {
  StateHome() { ::setenv("XDG_STATE_HOME", state.path().c_str(), 1); }
  ~StateHome() { before ? ::setenv("XDG_STATE_HOME", before->c_str(), 1) : ::unsetenv("XDG_STATE_HOME"); }
  std::optional<std::string> before =
      std::getenv("XDG_STATE_HOME") ? std::optional<std::string>(std::getenv("XDG_STATE_HOME")) : std::nullopt;
  test::TemporaryFolder state;
};

struct Program : StateHome, test::Program {
  explicit Program(const std::string& engine) : test::Program(engine) {}
  template <typename Condition>
  void wait(Condition condition) {
    test::poll_until(session, condition, 120);
  }
};

/// Name and bytes of every file in a folder.
std::map<std::string, std::string> files_in(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder))
    files[entry.path().filename().string()] = test::read_text(entry.path());
  return files;
}

}  // namespace

TEST_CASE("A strategy on the board is exported as kvscope heads --export exports it, byte for byte") {
  Program program("exit 0");
  const test::TemporaryFolder folder;
  const std::string trace = (folder / "a.h5").string();
  save_trace(trace,
             test::random_run(3, {.policy = "threshold:threshold=0,sinks=4,window=16", .n_layers = 8, .n_kv_heads = 4}),
             false);
  program.session.traces().open(trace);
  program.settle();
  struct Choice {
    std::string command, words;
    nlohmann::json arguments;
  };
  const std::vector<Choice> choices = {{"board.a", "--strategy a", nlohmann::json::object()},
                                       {"board.b", "--strategy b", nlohmann::json::object()},
                                       {"board.c", "--strategy c --share 0.4 --seed 7", {{"share", 0.4}, {"seed", 7}}},
                                       {"board.d", "--strategy d --share 0.3", {{"share", 0.3}}}};
  for (const Choice& choice : choices) {
    INFO(choice.command);
    program.commands.execute(choice.command, choice.arguments);
    const fs::path by_board = folder / (choice.command + ".board"), by_line = folder / (choice.command + ".line");
    program.commands.execute("board.export", {{"path", by_board.string()}});
    const std::string file = (folder / (choice.command + ".json")).string();
    program.commands.execute("board.export", {{"path", file}, {"format", "headkv"}});
    program.settle();
    std::vector<std::string> words = {
        "heads", trace, "--export", "duo:" + by_line.string(), "--export", "headkv:" + file + ".line"};
    std::istringstream more(choice.words);
    for (std::string word; more >> word;) words.push_back(word);
    const test::Result line = test::kvscope_run(words);
    INFO(line.err);
    REQUIRE(line.exit_code == 0);
    CHECK(files_in(by_board).size() == 2);
    CHECK(files_in(by_board) == files_in(by_line));
    CHECK(test::read_text(file) == test::read_text(file + ".line"));
  }
  CHECK_THROWS_WITH(program.commands.execute("board.export", {{"path", "no"}, {"format", "rlkv"}}),
                    Catch::Contains("one of duo:FOLDER"));
  // Once more over what is there: refused, and nothing changes.
  const fs::path there = folder / "board.d.board";
  const auto before = files_in(there);
  program.commands.execute("board.set", {{"heads", "0.0-3"}});
  CHECK(program.session.selection().board.rule.empty());
  program.commands.execute("board.export", {{"path", there.string()}});
  program.wait([&] { return !program.session.files().busy(); });
  program.session.poll();
  CHECK(program.session.messages().banners().size() == 1);
  CHECK(files_in(there) == before);
}

// It wrote the densest heads, under the same title, while the board showed others.
TEST_CASE("Where the board is on show Ctrl+H writes its heads, and elsewhere the densest") {
  Program program("exit 0");
  const test::TemporaryFolder folder;
  save_trace((folder / "a.h5").string(), test::random_run(3, {.policy = "threshold:threshold=0.2,sinks=4,window=16"}),
             false);
  program.session.traces().open((folder / "a.h5").string());
  program.settle();
  program.commands.execute("board.set", {{"heads", "0.1 1.0-2"}});
  const auto written = [&](const std::string& name) {
    program.commands.execute("heads.export", {{"path", (folder / name).string()}});
    program.settle();
    return files_in(folder / name);
  };
  program.commands.execute("board.export", {{"path", (folder / "of board").string()}});
  program.settle();
  const auto of_board = files_in(folder / "of board");
  REQUIRE(of_board.size() == 2);
  const auto densest = written("densest");
  CHECK(densest != of_board);
  program.commands.execute("layout.allocate");
  CHECK(written("board") == of_board);
  program.ui.maximised = "layer_head_map";  // nobody sees the board
  CHECK(written("densest again") == densest);
}

TEST_CASE("What the board cannot do it says, and the board stays as it was") {
  Program program("exit 0");
  Session& session = program.session;
  CHECK_THROWS_AS(program.commands.execute("board.d"), Error);  // no run
  const test::TemporaryFolder folder;
  save_trace((folder / "a.h5").string(), test::random_run(3), false);
  session.traces().open((folder / "a.h5").string());
  program.settle();
  program.commands.execute("board.set", {{"heads", "0.1 1.0-2 9.9"}});
  CHECK(views::to_text(session.selection().board.global) == "0.1 1.0-2");
  CHECK_THROWS_WITH(program.commands.execute("board.d"), Catch::Contains("every head keeps the same number of tokens"));
  CHECK_THROWS_AS(program.commands.execute("board.set", {{"heads", "0.x"}}), Error);
  CHECK_THROWS_AS(program.commands.execute("board.c", {{"share", 1.5}}), Error);
  CHECK(views::to_text(session.selection().board.global) == "0.1 1.0-2");
  CHECK_THROWS_WITH(program.commands.execute("board.measure"), Catch::Contains("No model is open"));
  CHECK(program.commands.refusal(*program.commands.find("board.measure")) == "No model is open. Open A's model first.");
}

TEST_CASE("Measure replays A's tokens under exactly the heads on the board, twice over and after another choice") {
  if (test::real_engine().empty() || !fs::exists(test::sample_model() / "model.safetensors"))
    return test::skip("kvscope-engine or the sample model is not there");
  Program program("exec " + test::real_engine().string());
  Session& session = program.session;
  session.model().open(test::sample_model().string());
  program.wait([&] { return test::has_model(session); });
  std::string prompt;
  for (int i = 0; i < 60; ++i) prompt += " key" + std::to_string(i % 7) + " is " + std::to_string(i) + ".";
  session.next_run().set_prompt(prompt);
  session.next_run().set_max_tokens(8);
  session.policy().set(PolicySpec::parse("streaming:sinks=4,window=40"));
  session.start_run();
  program.wait([&] { return !session.run_in_progress(); });
  REQUIRE(session.runs().a()->run->status == RunStatus::complete);
  const auto a = session.runs().a()->run;
  const ModelInfo& model = a->model;
  const auto measure = [&](const std::string& heads) {
    program.commands.execute("board.set", {{"heads", heads}});
    const int id = session.runs().b_id();
    program.commands.execute("board.measure");
    program.wait([&] { return session.runs().b() && session.runs().b()->id != id && !session.run_in_progress(); });
    REQUIRE(session.messages().banners().empty());
    const RunRecord& b = *session.runs().b()->run;
    CHECK(b.status == RunStatus::complete);
    CHECK(b.ids == a->ids);
    CHECK(b.policy.name == "hybrid");
    CHECK(b.local_heads() == views::local_heads_of(session.selection().board.global, model.n_layers, model.n_kv_heads));
    CHECK(session.runs().a()->run == a);
    CHECK(session.parameters().policy.name == "hybrid");
    return session.runs().b()->run;
  };
  const auto first = measure("0.0 1.1");
  // A local head keeps 4 sinks and 40 newest tokens, a global one everything.
  const int q = first->queries() - 1;
  const auto kept = [&](int layer, int head) {
    int n = 0;
    for (int t = 0; t <= q; ++t) n += first->evict_at.row(layer, head)[static_cast<std::size_t>(t)] > q;
    return n;
  };
  CHECK(kept(0, 0) == q + 1);
  CHECK(kept(1, 1) == q + 1);
  CHECK(kept(0, 1) == 44);
  CHECK(session.policy().is_of(*first));
  const auto other = measure("0.1");
  CHECK(other->local_heads() != first->local_heads());
  CHECK(session.policy().is_of(*other));
  const auto third = measure("0.1 1.0");  // as many heads as the first, and others
  CHECK(session.policy().is_of(*third));
  CHECK_FALSE(session.policy().is_of(*first));
  const auto again = measure("0.0 1.1");
  CHECK(again->evict_at.row(0, 1) == first->evict_at.row(0, 1));
  CHECK(views::paired_nll(*a, *again).b == Approx(views::paired_nll(*a, *first).b).epsilon(1e-5));
  // One directory a choice, readable as what it is.
  int folders = 0;
  for (const auto& entry : fs::directory_iterator(program.state / "kvscope/heads"))
    folders += import_duo(entry.path()).n_heads() == model.n_layers * model.n_kv_heads;
  CHECK(folders == 3);
  // The engine has been given the last board alone.
  CHECK(std::ranges::count_if(session.engine().gates_to_load(),
                              [](const std::string& path) { return path.find("board-") != std::string::npos; }) == 1);

  // The next start has the engine load that board with the model; another one takes its place there too.
  Program next("exec " + test::real_engine().string());
  ::setenv("XDG_STATE_HOME", program.state.path().c_str(), 1);
  next.session.model().open(test::sample_model().string(), session.engine().gates_to_load());
  next.wait([&] { return test::has_model(next.session); });
  save_trace((next.state / "a.h5").string(), *a, false);
  next.session.traces().open((next.state / "a.h5").string());
  next.settle();
  next.commands.execute("board.set", {{"heads", "1.0-1"}});
  next.commands.execute("board.measure");
  next.wait([&] { return next.session.runs().b() && !next.session.run_in_progress(); });
  CHECK(next.session.runs().b()->run->local_heads() ==
        views::local_heads_of({{1, 0}, {1, 1}}, model.n_layers, model.n_kv_heads));
}

TEST_CASE("After a run the map stands on a metric that varies, unless a person chose one") {
  const bool chosen = GENERATE(false, true);
  Program program("exit 0");
  Session& session = program.session;
  if (chosen) program.commands.execute("view.metric", {{"metric", "density"}});
  const test::TemporaryFolder folder;
  save_trace((folder / "fixed.h5").string(), test::random_run(3), false);
  session.traces().open((folder / "fixed.h5").string());
  program.wait([&] { return session.runs().a() && (chosen || session.selection().metric != Metric::density); });
  program.settle();
  CHECK(session.selection().metric == (chosen ? Metric::density : Metric::recall));
  CHECK(session.selection().metric_chosen == chosen);
}
