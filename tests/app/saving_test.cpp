// Where what is saved is likely wanted, and what a window asks the disk while it draws.

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>

#include "app/session/obstacles.h"
#include "app/support/paths.h"
#include "engine/core/trace/trace_file.h"
#include "tests/app/process.h"
#include "tests/app/program.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using namespace kvscope::app;
namespace fs = std::filesystem;

namespace {

struct Program : test::Program {
  Program() {
    session.runs().put_back({.id = 1, .run = std::make_shared<RunRecord>(test::random_run(3)), .own = true});
    session.runs().show(1, 0);
  }
  std::string folder_asked(const char* command) {
    commands.execute(command);
    return ui.dialog ? ui.dialog->folder : "no dialog";
  }
};

}  // namespace

TEST_CASE("A dialog that saves begins where a file was saved or opened last, before that in the person's documents") {
  const test::TemporaryFolder home, other;
  const test::Variable at_home("HOME", home.path().string()), config("XDG_CONFIG_HOME", (home / "config").string());
  CHECK(documents_folder() == home.path());
  fs::create_directories(home / "config");
  std::ofstream(home / "config/user-dirs.dirs") << "# of a desktop\nXDG_MUSIC_DIR=\"$HOME\"\n"
                                                << "XDG_DOCUMENTS_DIR=\"$HOME/Papers\"\n";
  CHECK(documents_folder() == home.path());  // there is no such folder
  fs::create_directories(home / "Papers");
  CHECK(documents_folder() == home / "Papers");
  Program program;
  for (const char* command : {"trace.save", "figure.export"})
    CHECK(program.folder_asked(command) == (home / "Papers").string());
  program.commands.execute("trace.save", {{"path", (other / "a.h5").string()}});
  program.settle();
  CHECK(program.folder_asked("figure.export") == other.path().string());
  program.commands.execute("figure.export", {{"path", (home / "a.pdf").string()}});
  program.settle();
  CHECK(program.folder_asked("trace.save") == home.path().string());
  program.session.traces().open((other / "a.h5").string());
  program.settle();
  CHECK(program.folder_asked("trace.save") == other.path().string());
}

TEST_CASE("A picture that no program takes to the clipboard is a notice, which ends by itself") {
  const test::TemporaryFolder state;
  const test::Variable no_programs("PATH", state.path().string()), at_home("XDG_STATE_HOME", state.path().string());
  Program program;
  program.commands.execute("figure.copy");
  program.settle();
  CHECK(program.session.messages().banners().empty());
  CHECK_THAT(program.session.messages().notice(), Catch::Contains("clipboard"));
  CHECK(program.session.messages().notice_is_fresh());
}

TEST_CASE("The sample prompts are looked for once, and a model's folder when another one is asked about") {
  const auto before = sample_prompts(true);
  const test::TemporaryFolder empty, model;
  const test::Variable nowhere("KVSCOPE_SAMPLES", empty.path().string());
  CHECK(sample_prompts(true) == before);
  Program program;
  CHECK(program.session.model().has_folder(model.path().string()));
  fs::remove_all(model.path());
  CHECK(program.session.model().has_folder(model.path().string()));
  CHECK_FALSE(program.session.model().has_folder((empty / "other").string()));
  CHECK_FALSE(program.session.model().has_folder(model.path().string()));
}
