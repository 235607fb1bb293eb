// Head fingerprints in the program: the runs that are compared, the export, saved looks.

#include <catch2/catch.hpp>
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

/// Three policies over one text.
std::string open_three(test::Program& program, const test::TemporaryFolder& folder) {
  std::vector<RunRecord> runs;
  for (const char* policy : {"kvpop:budget=64,sinks=4,window=16,decay=0.9999", "streaming:window=30", "full"})
    runs.push_back(test::random_run(3, {.policy = policy, .prompt_len = 70, .n_new = 9}));
  const std::string path = (folder / "t.h5").string();
  TraceWriter writer(path, runs[0].model, {.max_runs = 3, .max_positions = runs[0].n_tokens()});
  for (RunRecord& run : runs) run.model = runs[0].model, writer.add(run);
  writer.finish();
  program.commands.execute("trace.open", {{"path", path}});
  program.settle();
  return path;
}

}  // namespace

TEST_CASE("Fingerprints that the window exports are what the command line makes of their recipe, byte for byte") {
  test::Program program;
  const test::TemporaryFolder folder;
  open_three(program, folder);
  program.session.runs().show(2, 1);
  auto& selection = program.session.selection();
  selection.layer = 1, selection.kv_head = 2;
  const bool ticked = GENERATE(false, true);
  if (ticked) {
    selection.runs = {2, 3};
    selection.fingerprints = {FingerprintProfile::kind, views::FingerprintOrder::cluster};
  }
  const std::string csv = test::check_export(program, folder, "fingerprints");
  CHECK(csv.starts_with("run,layer,kv_head,cluster,profile,bin,kept,pairs,share\n"));
  CHECK(csv.find("\nB,1,2,") != std::string::npos);
  CHECK(csv.find("\nB,0,") == std::string::npos);
  CHECK((csv.find("\nrun 3,1,2,full,token class,digits,") != std::string::npos) == ticked);
}

TEST_CASE("The command line draws fingerprints by the preset, or refuses a head in a line") {
  test::Program program;
  const test::TemporaryFolder folder;
  const std::string trace = open_three(program, folder), out = (folder / "f.svg").string();
  const auto made = test::kvscope_run({"figure", "--preset", "run-fingerprints", trace, "-o", out, "--set",
                                       "profile=position", "--layer", "1", "--kv-head", "2"});
  INFO(made.err);
  CHECK(made.exit_code == 0);
  const auto refused =
      test::kvscope_run({"figure", "--preset", "run-fingerprints", trace, "-o", out, "--overwrite", "--layer", "9"});
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.err, Catch::Contains("0 to 1"));
}

TEST_CASE("How fingerprints are looked at is kept with the workspace and with each copy of the view") {
  const views::FingerprintLook chosen{FingerprintProfile::position, views::FingerprintOrder::cluster};
  test::Program program;
  program.session.selection().fingerprints = chosen;
  const WorkspaceState state = capture_state(program.session, program.ui, program.ui);
  program.session.selection().fingerprints = {};
  const WorkspaceState again = state_from_json(nlohmann::json::parse(to_json(state).dump()), "w");
  CHECK((again.selection.fingerprints == chosen));
  views::ViewLook look = views::look_of(program.session.selection());
  CHECK((look.fingerprints == views::FingerprintLook{}));
  look.fingerprints = chosen;
  views::set_look(program.session.selection(), look);
  CHECK((program.session.selection().fingerprints == chosen));
}
