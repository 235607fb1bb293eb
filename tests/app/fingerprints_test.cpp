// Head fingerprints in the program: the runs that are compared, the export, saved looks.

#include <catch2/catch.hpp>
#include <string>

#include "app/workspace/look_scope.h"
#include "app/workspace/workspace_state.h"
#include "tests/app/exported_view.h"
#include "tests/app/opened_runs.h"

using namespace kvscope;
using namespace kvscope::app;

TEST_CASE("Fingerprints that the window exports are what the command line makes of their recipe, byte for byte") {
  test::Program program;
  const test::TemporaryFolder folder;
  test::open_three(program, folder);
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
  const std::string trace = test::open_three(program, folder), out = (folder / "f.svg").string();
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
