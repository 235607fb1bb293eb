// Gates while they train, from a training of the sample model to the view: what its file has, the figure of it, a training that is
// killed, and what the window saves.

#include <chrono>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/studies/train/training_curves.h"
#include "app/workspace/workspace_state.h"
#include "engine/core/study/table/gate_probe.h"
#include "engine/core/study/table/probe_summary.h"
#include "engine/core/support/error.h"
#include "engine/core/trace/study_file.h"
#include "tests/app/capture_support.h"
#include "tests/app/exported_view.h"
#include "tests/app/program.h"
#include "tests/app/small_recipe.h"
#include "tests/support/folders.h"
#include "tests/support/skip.h"

using namespace kvscope;
using namespace kvscope::test;

namespace {

bool can_train() {
  if (!real_engine().empty() && fs::exists(sample_model() / "model.safetensors")) return true;
  skip("kvscope-engine or the sample model is not built");
  return false;
}

std::vector<std::string> train_words(const fs::path& folder, int steps, const std::vector<std::string>& more = {}) {
  json recipe = small_recipe(steps);
  recipe["probe"] = {{"tokens", 48}, {"every", 2}};
  std::ofstream(folder / "r.json") << recipe;
  std::vector<std::string> words = {"train",    (folder / "r.json").string(),
                                    "--base",   sample_model().string(),
                                    "--data",   in_source("samples/prompts/heldout.txt"),
                                    "-o",       (folder / "out").string(),
                                    "--device", "cpu",
                                    "--quiet"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

fs::path curve_in(const fs::path& folder) { return folder / "out/wg-kv-0.5_loss.h5"; }

std::vector<double> probed_steps(const fs::path& file) {
  const StudyTable table = read_study("", file);
  return n_probes(table) == 0 ? std::vector<double>{} : table.array(kProbeStep)->values;
}

/// As the engine tells one: scores of 1 layer, 2 heads and 3 tokens.
json told_probe(int step, const std::string& name = "gate") {
  std::vector<std::uint8_t> bytes(6 * sizeof(float));
  for (int i = 0; i < 6; ++i) {
    const float score = 0.125F * static_cast<float>(i) + static_cast<float>(step);
    std::memcpy(bytes.data() + i * sizeof(float), &score, sizeof score);
  }
  return {{"name", name},
          {"probe",
           {{"step", step},
            {"threshold", 0.25},
            {"shape", {1, 2, 3}},
            {"tokens", {5, 6, 7}},
            {"pieces", {"a", "b", "\xc3"}},
            {"scores", json::binary(bytes)}}}};
}

json told_rows(int first, std::vector<std::vector<double>> rows) {
  return {{"name", "gate"}, {"columns", {"step", "loss_all"}}, {"first", first}, {"rows", std::move(rows)}};
}

}  // namespace

TEST_CASE(
    "A training with probes writes their scores as float32, and the window and the command line draw the same of them") {
  if (!can_train()) return;
  const TemporaryFolder folder;
  const Result result = kvscope_run(train_words(folder.path(), 5));
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const StudyTable table = read_study(test::kvscope(), curve_in(folder.path()));
  CHECK(table.array(kProbeStep)->values == std::vector<double>{0, 2, 4, 5});
  const StudyArray& scores = *table.array(kProbeScore);
  CHECK(scores.is_float32);
  CHECK(scores.axes == std::vector<std::string>{"probe", "layer", "kv_head", "token"});
  CHECK(scores.shape == std::vector<std::int64_t>{4, 6, 4, 48});
  for (const double score : scores.values) CHECK((score > 0 && score < 1));
  const ProbeSummary probes = summarise_probes(table, "");
  CHECK(probes.pieces.size() == 48);
  CHECK(probes.score[0] > probes.score[probes.score.size() - 1]);  // a price on open gates

  const std::string figure = (folder / "f.svg").string();
  const Result drawn = kvscope_run(
      {"figure", "--preset", "gates-in-training", (folder / "out").string(), "-o", figure, "--set", "step=2"});
  INFO(drawn.err);
  REQUIRE(drawn.exit_code == 0);
  CHECK(read_text(folder / "f.figure.csv").starts_with("mark,step,layer,kv_head,token,text,kept,score\nhead,2,0,0,"));

  Program program;
  program.commands.execute("study.open", {{"path", (folder / "out").string()}});
  program.settle();
  program.session.selection().gate_training.step = GENERATE(-1, 2);
  CHECK(check_export(program, folder, "gate_training").starts_with("mark,step,layer,"));
}

TEST_CASE("A training that is killed leaves its probes readable, and one that goes on has them all in order") {
  if (!can_train()) return;
  const TemporaryFolder folder;
  std::vector<std::string> argv = {test::kvscope().string()};
  for (const std::string& word : train_words(folder.path(), 60, {"--checkpoint-seconds", "0"})) argv.push_back(word);
  const auto enough = [&] {
    try {
      return fs::exists(curve_in(folder.path())) && probed_steps(curve_in(folder.path())).size() >= 4;
    } catch (const Error&) {
      return false;
    }
  };
  const auto killed = test::run({.argv = argv, .kill_when = enough});
  const std::vector<double> before = probed_steps(curve_in(folder.path()));
  CHECK(before.size() >= 4);
  for (std::size_t i = 0; i < before.size(); ++i) CHECK(before[i] == 2 * static_cast<double>(i));
  if (killed.killed_by == 0) return;  // it was faster
  Result again;
  for (int i = 0; i < 100 && again.exit_code != 0; ++i) {  // the engine ends a moment after its client
    again = kvscope_run(train_words(folder.path(), 60, {"--resume"}));
    if (again.err.find("another process") == std::string::npos) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  INFO(again.err);
  REQUIRE(again.exit_code == 0);
  const std::vector<double> after = probed_steps(curve_in(folder.path()));
  REQUIRE(after.size() >= before.size());
  CHECK(after.front() == 0);
  CHECK(after.back() == 60);
  CHECK(std::ranges::is_sorted(after));
}

TEST_CASE("Probes are written with the curve, kept by a training that goes on, and lost by one that starts over") {
  const TemporaryFolder folder;
  const auto steps = [&] { return probed_steps(folder / "gate_loss.h5"); };
  {
    app::TrainingCurves curves(folder.path(), json::object());
    curves.take(told_rows(0, {}));
    curves.take(told_probe(0));
    CHECK(fs::is_empty(folder.path()));  // a study has a row
    curves.take(told_rows(0, {{1, 3}}));
    curves.take(told_probe(2));
    curves.take(told_rows(1, {{2, 2}}));
    curves.take(told_probe(4));
  }
  CHECK(steps() == std::vector<double>{0, 2, 4});
  const ProbeSummary probes = summarise_probes(read_study("", folder / "gate_loss.h5"), "");
  CHECK(probes.pieces == std::vector<std::string>{"a", "b", "\xef\xbf\xbd"});
  CHECK(probes.kept == std::vector<float>{1.F / 3, 1, 1, 1, 1, 1});
  {
    app::TrainingCurves curves(folder.path(), json::object());
    curves.take(told_rows(0, {{1, 3}, {2, 2}}));  // of a checkpoint
    CHECK(steps() == std::vector<double>{0, 2});
    curves.take(told_probe(4));
    curves.take(told_probe(6));
  }
  CHECK(steps() == std::vector<double>{0, 2, 4, 6});
  {
    app::TrainingCurves curves(folder.path(), json::object());
    curves.take(told_rows(0, {}));
    curves.take(told_probe(0));
    curves.take(told_rows(0, {{1, 3}}));
  }
  CHECK(steps() == std::vector<double>{0});
}

TEST_CASE("A probe that does not fit is an engine's error") {
  const TemporaryFolder folder;
  app::TrainingCurves curves(folder.path(), json::object());
  CHECK_THROWS_AS(curves.take(told_probe(0)), Error);  // of a curve that has not begun
  curves.take(told_rows(0, {}));
  const auto wrong = [&](const std::string& key, const json& value) {
    json probe = told_probe(2);
    probe["probe"][key] = value;
    CAPTURE(key, value.dump());
    CHECK_THROWS_AS(curves.take(probe), Error);
  };
  wrong("shape", {1, 2}), wrong("shape", {1, 2, 4}), wrong("shape", {-1, -2, 3}), wrong("shape", {100000, 100000, 3});
  wrong("tokens", {1, 2}), wrong("tokens", "x"), wrong("scores", "x"), wrong("scores", json::binary({1, 2, 3}));
  wrong("step", "x");
  curves.take(told_rows(0, {{1, 3}}));
  CHECK(n_probes(read_study("", folder / "gate_loss.h5")) == 0);
}

TEST_CASE("Step, training and quantity of the gates are kept with the workspace and each copy of the view") {
  Program program;
  views::Selection& selection = program.session.selection();
  selection.gate_training = {.source = "wg-kv-0.5", .step = 40, .quantity = ProbeQuantity::score};
  const app::WorkspaceState state = app::capture_state(program.session, program.ui, program.ui);
  const app::WorkspaceState again = app::state_from_json(json::parse(app::to_json(state).dump()), "w");
  CHECK(again.selection.gate_training == selection.gate_training);
  views::ViewLook look = views::look_of(selection);
  CHECK(look.gate_training == selection.gate_training);
  look.gate_training.step = 7;
  views::set_look(selection, look);
  CHECK(selection.gate_training.step == 7);
}
