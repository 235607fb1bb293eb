// A point of a study, opened as a run by the real engine: its NLL is the table's, and what is missing is said with a remedy.

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/command/app_commands.h"
#include "app/session/study_point.h"
#include "engine/core/support/error.h"
#include "engine/core/support/hash.h"
#include "engine/core/trace/study_file.h"
#include "engine/core/trace/trace_file.h"
#include "tests/app/poll_until.h"
#include "tests/app/sweep_support.h"
#include "tests/support/random_run.h"
#include "tests/support/skip.h"
#include "tests/support/study_literal.h"
#include "views/view_list.h"

using namespace kvscope;
using namespace kvscope::app;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

struct Program {
  explicit Program(const fs::path& state) : before(std::getenv("XDG_STATE_HOME") ? std::getenv("XDG_STATE_HOME") : "") {
    ::setenv("XDG_STATE_HOME", state.c_str(), 1);
    add_all_commands(commands, session, ui, views);
  }
  ~Program() { before.empty() ? ::unsetenv("XDG_STATE_HOME") : ::setenv("XDG_STATE_HOME", before.c_str(), 1); }
  template <typename Condition>
  void wait(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120 * test::kSlowdown);
    while (!condition()) {
      session.poll();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      if (std::chrono::steady_clock::now() > deadline) FAIL("timed out; " << session.state().dump());
    }
  }
  json studies() const { return session.state()["studies"]; }
  void open_model(const fs::path& model) {
    session.model().open(model.string());
    wait([&] { return test::has_model(session); });
  }
  void open_study(const fs::path& path) {
    commands.execute("study.open", {{"path", path.string()}});
    wait([&] { return studies()["shown"] != 0; });
  }
  void select(int point, int piece = 0) {
    commands.execute("study.select", {{"point", point}, {"piece", piece}});
    wait([&] { return studies()["known"].get<bool>() && !session.files().busy(); });
  }
  /// The run that the point was opened as.
  std::shared_ptr<const RunRecord> open_point() {
    const int id = session.runs().a_id();
    commands.execute("study.open_point");
    wait([&] {
      return (session.runs().a() && session.runs().a()->id != id && !session.run_in_progress()) || has_banner();
    });
    REQUIRE_FALSE(has_banner());
    return session.runs().a()->run;
  }
  bool has_banner() { return !session.messages().banners().empty(); }

  std::string before;
  UiState ui;
  Session session{{.engine_command = "exec " + test::real_engine().string(),
                   .device = "cpu",
                   .trace_program = test::kvscope().string(),
                   .wake = [] {}}};
  CommandRegistry commands;
  views::NullTextureBackend textures;
  views::ItemRegistry items;
  views::Theme theme;
  views::ViewList views = views::make_views({&textures, &items, &theme});
};

double nll_of(const RunRecord& run) {
  double sum = 0;
  for (std::size_t i = 1; i < run.logprobs.size(); ++i) sum -= run.logprobs[i];
  return sum / static_cast<double>(run.logprobs.size() - 1);
}

double piece_nll(const StudyTable& table, int row, int piece) {
  const StudyArray& array = *table.array("piece_nll");
  return array.values[static_cast<std::size_t>(row * array.shape[1] + piece)];
}

bool is_missing() { return test::real_engine().empty() || !fs::exists(test::sample_model() / "model.safetensors"); }

/// Two pieces of a text under four policies, one of them under two gates.
StudyTable make_sweep(const test::TemporaryFolder& folder) {
  const json recipe = {{"model", test::sample_model().string()},
                       {"texts", {"long.txt"}},
                       {"pieces", 2},
                       {"length", 96},
                       {"chunk", 16},
                       {"device", "cpu"},
                       {"policies",
                        {"streaming:window=24",
                         "h2o:keep=50%,window=8",
                         {{"policy", "wg-kv:window=16"}, {"axes", {{"threshold", {0.01, 0.5}}}}},
                         "sp-kv:window=16,threshold=0.5"}}};
  test::write_recipe(folder, recipe);
  std::ofstream(folder / "long.txt")
      << test::read_text(test::source_folder() / "samples/prompts/heldout.txt").substr(0, 4000);
  const test::Sweep sweep{.folder = folder, .options = {"--quiet"}, .engine = ""};
  const test::Result result = sweep.run();
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return sweep.study();
}

}  // namespace

TEST_CASE("Every point of a sweep is opened as the run that it was measured as, gate and text included", "[study]") {
  if (is_missing()) return test::skip("kvscope-engine or the sample model is not built");
  const test::TemporaryFolder folder;
  const StudyTable table = make_sweep(folder);
  REQUIRE(table.n_points() == 6);
  Program program(folder / "state");
  program.open_model(test::sample_model());
  program.open_study(folder / "s.h5");
  // From the last to the first: a gate that was loaded for one point is not there for the next.
  for (int row = 5; row >= 0; --row) {
    const int piece = row % 2;
    INFO("row " << row << ", piece " << piece);
    program.select(row, piece);
    CHECK(program.studies()["why_not"] == "");
    const auto run = program.open_point();
    CHECK(run->status == RunStatus::complete);
    CHECK(run->n_tokens() == 96);
    CHECK(nll_of(*run) == Approx(piece_nll(table, row, piece)).margin(1e-5));
    const std::string asked = table.texts("policy", "")[static_cast<std::size_t>(row)];
    CHECK(program.session.parameters().policy == PolicySpec::parse(asked));
    CHECK_THAT(program.session.messages().notice(), Catch::Contains("in the study"));
    const std::string gate = table.texts("gate", "")[static_cast<std::size_t>(row)];
    CHECK(program.session.engine().gates_to_load().size() == (gate.empty() ? 0u : 1u));
    // Replayed under the same policy it is the same run: it acts after as many tokens.
    program.commands.execute("run.replay");
    program.wait([&] { return !program.session.run_in_progress() || program.has_banner(); });
    REQUIRE(program.session.runs().b());
    CHECK(nll_of(*program.session.runs().b()->run) == nll_of(*run));
  }
  // What the prompt says now is the piece.
  CHECK(test::read_text(folder / "long.txt").find(program.session.parameters().prompt) != std::string::npos);
}

TEST_CASE("A point of a hybrid study is opened with its own heads", "[study]") {
  if (is_missing()) return test::skip("kvscope-engine or the sample model is not built");
  const test::TemporaryFolder folder;
  std::ofstream(folder / "long.txt")
      << test::read_text(test::source_folder() / "samples/prompts/heldout.txt").substr(0, 4000);
  const test::Result made = test::kvscope_run({"hybrid",       test::sample_model().string(),
                                               "--texts",      (folder / "long.txt").string(),
                                               "--pieces",     "2",
                                               "--length",     "96",
                                               "--policy",     "sp-kv:window=16,sinks=2",
                                               "--strategies", "b,d",
                                               "--shares",     "25%",
                                               "--again",      "off",
                                               "-o",           (folder / "h.h5").string(),
                                               "--device",     "cpu",
                                               "--quiet"});
  INFO(made.err);
  REQUIRE(made.exit_code == 0);
  const StudyTable table = read_study(test::kvscope(), folder / "h.h5");
  Program program(folder / "state");
  program.open_model(test::sample_model());
  program.open_study(folder / "h.h5");
  for (int row = 0; row < static_cast<int>(table.n_points()); ++row) {
    INFO(table.texts("point", "")[static_cast<std::size_t>(row)]);
    program.select(row, 1);
    CHECK(program.studies()["why_not"] == "");
    CHECK(nll_of(*program.open_point()) == Approx(piece_nll(table, row, 1)).margin(1e-5));
  }
}

TEST_CASE("A text that has changed or gone, another model and a running engine are said, with what cures them",
          "[study]") {
  if (is_missing()) return test::skip("kvscope-engine or the sample model is not built");
  const test::TemporaryFolder folder;
  const StudyTable table = make_sweep(folder);
  Program program(folder / "state");
  program.open_study(folder / "s.h5");
  program.select(1);
  CHECK_THAT(program.studies()["why_not"].get<std::string>(), Catch::Contains("No model is open"));
  CHECK(program.studies()["remedy"] == "study.open_model");
  program.commands.execute("study.open_model");
  program.wait([&] { return program.studies()["why_not"] == ""; });
  CHECK(program.session.engine().model()->name == "kvscope-tiny");

  const std::string text = test::read_text(folder / "long.txt");
  std::ofstream(folder / "long.txt") << text << "!";
  program.select(2);
  CHECK_THAT(program.studies()["why_not"].get<std::string>(),
             Catch::Contains("long.txt") && Catch::Contains("its hash differs"));
  CHECK(program.studies()["remedy"] == "study.find_text");
  CHECK_THROWS_WITH(program.commands.execute("study.open_point"), Catch::Contains("its hash differs"));
  program.commands.execute("study.find_text");
  REQUIRE(program.ui.dialog);
  CHECK(program.ui.dialog->command == "study.find_text");
  fs::create_directory(folder / "elsewhere");
  std::ofstream(folder / "elsewhere/moved.txt") << text;
  program.commands.execute("study.find_text", {{"path", (folder / "elsewhere/moved.txt").string()}});
  program.wait([&] { return program.studies()["why_not"] == ""; });
  CHECK(nll_of(*program.open_point()) == Approx(piece_nll(table, 2, 0)).margin(1e-5));

  fs::remove(folder / "long.txt"), fs::remove(folder / "elsewhere/moved.txt");
  program.select(3);
  CHECK_THAT(program.studies()["why_not"].get<std::string>(), Catch::Contains("long.txt was not found"));
}

TEST_CASE("A point whose trace was kept is that trace, whatever model is open", "[study]") {
  const test::TemporaryFolder folder;
  save_trace(folder / "kept.h5", test::random_run(3), false);
  write_study(folder / "t.h5", test::study_of("density,nll,trace\n0.5,2,kept.h5\n1,1,\n", kBenchStudy), false);
  Program program(folder / "state");
  program.open_study(folder / "t.h5");
  program.select(1);
  CHECK_THAT(program.studies()["why_not"].get<std::string>(), Catch::Contains("reads no text"));
  program.select(0);
  CHECK(program.studies()["why_not"] == "");
  const auto run = program.open_point();
  CHECK(run->ids == test::random_run(3).ids);
  CHECK(program.session.runs().a()->trace_path == (folder / "kept.h5").string());
}

TEST_CASE("What a point was measured with is read from the study alone: questions of tasks are no run", "[study]") {
  const test::TemporaryFolder folder;
  const json recipe = test::usual_recipe();
  test::write_recipe(folder, recipe);
  const StudyTable table = test::undisturbed_sweep(folder);
  int n_texts = 0, n_tasks = 0;
  for (int row = 0; row < static_cast<int>(table.n_points()); ++row) {
    const MeasuredPoint point = measured_point(table, row, 99);
    const auto at = static_cast<std::size_t>(row);
    INFO(table.texts("policy", "")[at] << " " << table.texts("item", "")[at]);
    if (table.texts("item", "")[at] == "needle") {
      CHECK_THAT(point.why_not, Catch::Contains("questions of a task"));
      ++n_tasks;
      continue;
    }
    ++n_texts;
    CHECK(point.why_not.empty());
    CHECK(point.policy == table.texts("policy", "")[at]);
    CHECK(fs::path(point.text).filename() == table.texts("item", "")[at]);
    CHECK(point.chunk == table.numbers("chunk", "")[at]);
    CHECK(point.piece == 2);
    CHECK(point.length > 0);
    const std::string gate = table.texts("gate", "")[at];
    CHECK(point.gates == (gate.empty() ? std::vector<std::string>{} : std::vector<std::string>{gate}));
    CHECK_FALSE(point.hash_of(table.texts("item", "")[at]).empty());
  }
  CHECK(n_texts > 0);
  CHECK(n_tasks > 0);
}
