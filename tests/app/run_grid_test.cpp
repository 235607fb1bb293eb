// Methods by cache size in the program: the export, the command line, saved looks.

#include "app/workspace/workspace_state.h"
#include "tests/app/exported_view.h"
#include "tests/app/opened_runs.h"

using namespace kvscope;
using namespace kvscope::app;

TEST_CASE("A grid of runs that the window exports is what the command line makes of its recipe, byte for byte") {
  test::Program program;
  const test::TemporaryFolder folder;
  test::open_three(program, folder);
  program.session.runs().show(2, 1);
  const bool tokens = GENERATE(false, true);
  program.session.selection().run_grid.cells = tokens ? views::RunGridCells::tokens : views::RunGridCells::heads;
  if (tokens) program.session.selection().runs = {1, 3};
  const std::string csv = test::check_export(program, folder, "run_grid");
  CHECK(csv.starts_with("run,policy,method,column,cache_size,nll_answer,layer,"));
  CHECK((csv.find("\nrun 2,") != std::string::npos) == !tokens);
  CHECK(csv.find("\nrun 3,full,") != std::string::npos);
}

TEST_CASE("The command line draws all runs of its traces as a grid, or refuses those of another prompt in a line") {
  test::Program program;
  const test::TemporaryFolder folder;
  const std::string trace = test::open_three(program, folder), out = (folder / "f.svg").string();
  const auto made = test::kvscope_run({"figure", "--preset", "methods-by-cache-size", trace, "-o", out});
  INFO(made.err);
  CHECK(made.exit_code == 0);
  const std::string csv = test::read_text(folder / "f.figure.csv");
  CHECK((csv.find("\nrun 1,") != std::string::npos && csv.find("\nrun 3,") != std::string::npos));
  const std::string other = (folder / "other.h5").string();
  test::write_runs(other, {test::random_run(4, {.prompt_len = 70, .n_new = 9})});
  const auto refused =
      test::kvscope_run({"figure", "--preset", "methods-by-cache-size", trace, other, "-o", out, "--overwrite"});
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.err, Catch::Contains("another prompt"));
}

TEST_CASE("How a grid of runs is looked at is kept with the workspace") {
  const views::RunGridLook chosen{views::RunGridCells::tokens, RunMeasure::cache_size_end};
  test::Program program;
  program.session.selection().run_grid = chosen;
  const WorkspaceState state = capture_state(program.session, program.ui, program.ui);
  const WorkspaceState again = state_from_json(nlohmann::json::parse(to_json(state).dump()), "w");
  CHECK((again.selection.run_grid == chosen));
}
