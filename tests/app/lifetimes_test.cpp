// Lifetimes in the program: the export and the preset, undo, what shows the whole run again.

#include <catch2/catch.hpp>
#include <string>

#include "app/workspace/state_change.h"
#include "app/workspace/workspace_state.h"
#include "engine/core/trace/trace_file.h"
#include "tests/app/exported_view.h"
#include "tests/app/process.h"
#include "tests/app/program.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using namespace kvscope::app;

namespace {

std::string open_run(test::Program& program, const test::TemporaryFolder& folder) {
  const std::string path = (folder / "t.h5").string();
  save_trace(path, test::random_run(3, {.prompt_len = 70, .n_new = 30}), false);
  program.commands.execute("trace.open", {{"path", path}});
  program.settle();
  return path;
}

}  // namespace

TEST_CASE("The lifetimes that the window exports are what the command line makes of their recipe, byte for byte") {
  test::Program program;
  const test::TemporaryFolder folder;
  const std::string trace = open_run(program, folder);
  auto& selection = program.session.selection();
  const bool part = GENERATE(false, true);
  if (part) {
    selection.layer = 1, selection.kv_head = 2, selection.brush = {10, 60}, selection.view = {5, 90};
    selection.lifetimes = {LifeOrder::cost, {3, 20}, {10, 60}};
  }
  const std::string csv = test::check_export(program, folder, "lifetimes"), again = (folder / "again.svg").string();
  CHECK(csv.starts_with("token,text,born,left_window,evict_at,life,verdict,cost\n"));
  // The same numbers by the preset.
  std::vector<std::string> words = {"figure", "--preset", "run-lifetimes", trace, "-o", again, "--overwrite"};
  if (part)
    for (const char* set :
         {"layer=1", "kv_head=2", "order=cost", "token=10", "n_tokens=50", "row=3", "n_rows=17", "first=5", "count=85"})
      words.insert(words.end(), {"--set", set});
  const auto by_preset = test::kvscope_run(words);
  INFO(by_preset.err);
  REQUIRE(by_preset.exit_code == 0);
  CHECK((test::read_text(folder / "again.figure.csv") == csv));
  const auto refused = test::kvscope_run(
      {"figure", "--preset", "run-lifetimes", trace, "-o", again, "--overwrite", "--set", "token=5000"});
  CHECK(refused.exit_code == 2);
}

TEST_CASE("Order and rows of the lifetimes are kept with the workspace, and undo names their change") {
  test::Program program;
  const test::TemporaryFolder folder;
  open_run(program, folder);
  auto& selection = program.session.selection();
  const WorkspaceState before = capture_state(program.session, program.ui, program.ui);
  selection.lifetimes = {LifeOrder::life, {3, 20}, {10, 60}};
  selection.brush = {10, 60};
  const WorkspaceState state = capture_state(program.session, program.ui, program.ui);
  const WorkspaceState again = state_from_json(nlohmann::json::parse(to_json(state).dump()), "w");
  CHECK(again.selection.lifetimes == selection.lifetimes);
  WorkspaceState ordered = before, zoomed = before;
  ordered.selection.lifetimes.order = LifeOrder::cost;
  zoomed.selection.lifetimes.rows = {3, 9};
  zoomed.selection.view = {20, 60};
  CHECK(describe_change(before, ordered).label == "order of the tokens position to cost");
  CHECK(describe_change(before, zoomed).label == "shown range");
}

TEST_CASE("The whole run is shown again in the lifetimes too") {
  test::Program program;
  const test::TemporaryFolder folder;
  open_run(program, folder);
  auto& selection = program.session.selection();
  selection.lifetimes = {LifeOrder::life, {3, 20}, {}};
  selection.view = {20, 60};
  program.commands.execute("view.fit");
  CHECK((selection.lifetimes.rows.empty() && selection.view.empty()));
  CHECK(selection.lifetimes.order == LifeOrder::life);
}
