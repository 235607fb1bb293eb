// The lost fact in the program: the runs of the list that read the same text, its export, undo and saved layouts.

#include <catch2/catch.hpp>
#include <fstream>
#include <string>

#include "app/workspace/look_scope.h"
#include "app/workspace/workspace_state.h"
#include "engine/core/trace/trace_file.h"
#include "tests/app/exported_view.h"
#include "tests/app/process.h"
#include "tests/app/program.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using namespace kvscope::app;

namespace {

/// Three policies over one text, and a run of another.
void open_runs(test::Program& program, const test::TemporaryFolder& folder) {
  std::vector<RunRecord> runs;
  for (const char* policy : {"kvpop:budget=64,sinks=4,window=16,decay=0.9999", "streaming:window=30", "full"})
    runs.push_back(test::random_run(3, {.policy = policy, .prompt_len = 70, .n_new = 9}));
  runs.push_back(test::random_run(4, {.prompt_len = 70, .n_new = 9}));
  TraceWriter writer(folder / "t.h5", runs[0].model, {.max_runs = 4, .max_positions = runs[0].n_tokens()});
  for (RunRecord& run : runs) run.model = runs[0].model, writer.add(run);
  writer.finish();
  program.commands.execute("trace.open", {{"path", (folder / "t.h5").string()}});
  program.settle();
}

}  // namespace

TEST_CASE("The lost fact has A, B and the other runs of the list with A's text, and none of another text") {
  test::Program program;
  const test::TemporaryFolder folder;
  open_runs(program, folder);
  Session& session = program.session;
  session.runs().show(2, 3);
  const auto labels = [&](int n) {
    std::string all;
    for (const views::ShownRun& run : session.runs().same_text(n)) all += (all.empty() ? "" : ", ") + run.label;
    return all;
  };
  CHECK(labels(40) == "A, B, run 1");
  session.runs().rename(1, "first");
  CHECK(labels(40) == "A, B, first");
  CHECK(labels(100000).starts_with("A"));
  session.runs().show(4, 0);
  CHECK(labels(40) == "A");
}

TEST_CASE("The lost fact that the window exports is what the command line makes of its recipe, byte for byte") {
  test::Program program;
  const test::TemporaryFolder folder;
  open_runs(program, folder);
  program.session.runs().show(2, 1);
  auto& selection = program.session.selection();
  selection.token = 30;
  if (GENERATE(false, true)) selection.brush = {28, 34}, selection.view = {20, 75}, selection.lost_by_layer = true;
  const std::string csv = test::check_export(program, folder, "lost_fact");
  CHECK(csv.starts_with("run,layer,kv_head,tokens,held_at_answer,held_at_end,gone_at,"));
  for (const char* run : {"\nA,", "\nB,", "\nrun 3,"}) CHECK(csv.find(run) != std::string::npos);
}

TEST_CASE("The command line draws the lost fact of all runs of a trace with one text, or refuses it in a line") {
  test::Program program;
  const test::TemporaryFolder folder;
  open_runs(program, folder);
  const std::string trace = (folder / "t.h5").string(), out = (folder / "f.svg").string();
  std::ofstream(folder / "r.json") << R"({"figure":"lost_fact","token":30,"n_tokens":4})";
  const std::string recipe = (folder / "r.json").string();
  CHECK(test::kvscope_run({"figure", recipe, trace, "-o", out, "--run", "1"}).exit_code == 0);
  const auto all = test::kvscope_run({"figure", recipe, trace, "-o", out, "--run", "-1", "--overwrite"});
  CHECK(all.exit_code == 2);
  CHECK_THAT(all.err, Catch::Contains("other tokens"));
  CHECK(test::kvscope_run({"figure", recipe, trace, "-o", out, "--set", "token=5000", "--overwrite"}).exit_code == 2);
}

TEST_CASE("The order of the lost fact's heads is kept with the workspace and with each copy of the view") {
  test::Program program;
  program.session.selection().lost_by_layer = true;
  const WorkspaceState state = capture_state(program.session, program.ui, program.ui);
  program.session.selection().lost_by_layer = false;
  const WorkspaceState again = state_from_json(nlohmann::json::parse(to_json(state).dump()), "w");
  CHECK(again.selection.lost_by_layer);
  views::ViewLook look = views::look_of(program.session.selection());
  CHECK_FALSE(look.lost_by_layer);
  look.lost_by_layer = true;
  views::set_look(program.session.selection(), look);
  CHECK(program.session.selection().lost_by_layer);
}
