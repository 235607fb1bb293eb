// The first minute: a recorded run is on show before an engine has started, with a headline whose parts select what they name.
//
//   KVSCOPE_WRITE_SAMPLES=run.h5 app_tests "The recorded run*"     writes samples/traces/first-run.h5 out of run.h5

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "app/support/paths.h"
#include "engine/core/study/measure/eviction_headline.h"
#include "engine/core/support/text.h"
#include "engine/core/trace/trace_file.h"
#include "tests/app/program.h"
#include "tests/app/window_driver.h"

using namespace kvscope;
using nlohmann::json;
using test::skip_without_display;
using test::TemporaryFolder;
using test::WindowDriver;
using test::Xvfb;

namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kMostBytes = 250'000;  // it is in the repository and in every package

fs::path first_run() { return test::sample_model().parent_path().parent_path() / "traces" / "first-run.h5"; }

/// Without the masses of other oracles, which are two thirds of the file.
void write_first_run(const fs::path& whole) {
  RunRecord run = load_trace(whole);
  run.future = {};
  save_trace(first_run(), run, true);
}

/// An engine that never answers: what is on show comes from no engine.
WindowDriver::Options silent(const fs::path& state = {}) {
  return {.engine = "exec sleep 600", .state = state, .first_run = true};
}

void wait_for_first_run(WindowDriver& window) { window.wait({{"/a/n_tokens", {{"at_least", 100}}}}); }

}  // namespace

TEST_CASE("The recorded run is small, complete, of no one's machine, and has lost what its answer needs") {
  if (const char* whole = std::getenv("KVSCOPE_WRITE_SAMPLES")) write_first_run(whole);
  REQUIRE(fs::file_size(first_run()) <= kMostBytes);
  const std::string bytes = test::read_text(first_run());
  for (const char* place : {"/root", "/home", "/tmp"}) CHECK(bytes.find(place) == std::string::npos);
  const RunRecord run = load_trace(first_run());
  CHECK(run.status == RunStatus::complete);
  // The policy that a first window has chosen: beside this run it is no untrue statement, and no preview opens.
  CHECK(run.policy.written().starts_with(app::NextRun::defaults().policy.written() + ","));
  std::string text;
  for (std::size_t t = 0; t < run.pieces.size(); ++t) text += run.pieces[t];
  const std::string prompt = text.substr(0, run.prompt_text.size()), answer = text.substr(run.prompt_text.size());
  CHECK(prompt.find("The gate code is 48213.") != std::string::npos);
  CHECK(answer.find("48213") == std::string::npos);
  const auto found = eviction_headline(run);
  REQUIRE((found && found->costliest));
  CHECK(std::string(run.pieces[static_cast<std::size_t>(found->costliest->t)]) == "4");  // of the code
}

TEST_CASE("Without an engine a first window shows the recorded run, and its headline is that of the record") {
  if (skip_without_display()) return;
  const Xvfb display;
  const TemporaryFolder state;
  const auto found = eviction_headline(load_trace(first_run()));
  REQUIRE((found && found->worst && found->costliest));
  {
    WindowDriver window(display, silent(state.path()));
    wait_for_first_run(window);
    const json shown = window.state();
    CHECK(shown["model"] == nullptr);
    CHECK(shown["runs"].size() == 1);
    CHECK(shown["runs"][0]["name"] == "Recorded run");
    CHECK(shown["selection"]["colour"] == static_cast<int>(views::ColourMode::oracle));
    CHECK(shown["selection"]["layer"] == found->costliest->layer);
    CHECK(shown["selection"]["kv_head"] == found->costliest->kv_head);
    CHECK(shown["selection"]["token"] == found->costliest->t);
    CHECK(shown["b"] == nullptr);  // no preview
    CHECK(shown["banners"].empty());
    CHECK(shown["workspace"]["undo"] == "");  // it is no step of the person's
    CHECK(window.text_soon("headline.wrong", "evictions") ==
          fixed_text(100 * found->wrong_share(), 0) + " % of evictions were wrong");
    CHECK(window.text("headline.recorded") == "Recorded run");
    const std::string head = std::to_string(found->worst->layer) + " H" + std::to_string(found->worst->kv_head);
    CHECK(window.text("headline.head") == "worst head L" + head);
    CHECK(window.text("headline.token") == "costliest lost token \"4\"");
    window.command("app.quit");
    CHECK(window.exit_code() == 0);
  }
  WindowDriver again(display, silent(state.path()));  // as any other run that was on show
  wait_for_first_run(again);
  CHECK(again.state()["runs"].size() == 1);
  CHECK(again.text_soon("headline.recorded", "Recorded") == "Recorded run");
}

TEST_CASE("Each part of the headline is a click to what it names, and Undo goes back") {
  if (skip_without_display()) return;
  const Xvfb display;
  WindowDriver window(display, silent());
  wait_for_first_run(window);
  const auto found = eviction_headline(load_trace(first_run()));
  window.text_soon("headline.token", "lost");
  const auto selection = [&] { return window.state()["selection"]; };
  window.command("selection.set", {{"layer", 0}, {"kv_head", 0}, {"token", -1}});
  window.command("view.colour_state");
  window.click("headline.head");
  CHECK(selection()["layer"] == found->worst->layer);
  CHECK(selection()["kv_head"] == found->worst->kv_head);
  window.click("headline.token");
  CHECK(selection()["token"] == found->costliest->t);
  CHECK(selection()["layer"] == found->costliest->layer);
  CHECK(selection()["kv_head"] == found->costliest->kv_head);
  window.click("headline.wrong");
  CHECK(selection()["colour"] == static_cast<int>(views::ColourMode::oracle));
  window.key("ctrl+z");
  CHECK(selection()["colour"] == static_cast<int>(views::ColourMode::state));
  window.key("ctrl+z");
  CHECK(selection()["token"] == -1);
  CHECK(selection()["layer"] == found->worst->layer);
  window.click("headline.own");
  window.wait({{"/ui/text_input", true}});
}

TEST_CASE(
    "A file on the command line, --empty, and samples that are not there leave a first window without the recorded run") {
  if (skip_without_display()) return;
  const Xvfb display;
  const TemporaryFolder folder;
  const auto traces_of = [](const json& state) {
    std::vector<std::string> traces;
    for (const json& run : state["runs"]) traces.push_back(run["trace"]);
    return traces;
  };
  {
    const fs::path copy = folder / "mine.h5";
    fs::copy_file(first_run(), copy);
    WindowDriver::Options options = silent();
    options.words = {copy.string()};
    WindowDriver window(display, options);
    wait_for_first_run(window);
    window.frames(10);
    CHECK(traces_of(window.state()) == std::vector<std::string>{copy.string()});
    window.text_soon("headline.wrong", "wrong");
    CHECK(window.text("headline.recorded") == "");  // a person's file
  }
  {
    WindowDriver window(display, {.engine = "exec sleep 600"});
    window.frames(20);
    CHECK(window.state()["runs"].empty());
    CHECK(window.state()["files_busy"] == false);
  }
  const test::Variable none("KVSCOPE_SAMPLES", folder.path().string());
  WindowDriver window(display, silent());
  window.frames(20);
  CHECK(window.state()["runs"].empty());
  CHECK(window.state()["banners"].empty());
}

TEST_CASE("A recorded run that cannot be read is a line of the log, and one that comes late stays away") {
  const TemporaryFolder folder;
  test::Program program;
  std::ofstream(folder / "broken.h5") << "no trace";
  program.session.traces().show_first((folder / "broken.h5").string());
  program.settle();
  CHECK(program.session.runs().all().empty());
  CHECK(program.session.messages().log_lines().back().find("no recorded run") != std::string::npos);

  program.session.traces().open(first_run().string());
  program.session.traces().show_first(first_run().string());
  program.settle();
  CHECK(program.session.runs().all().size() == 1);
  CHECK(program.session.runs().all()[0].name.empty());  // the opened one
}

TEST_CASE("The recorded run is no file that was opened, and leaves the next run as it was") {
  test::Program program;
  const auto policy = program.session.parameters().policy;
  program.session.traces().show_first(first_run().string());
  program.settle();
  REQUIRE(program.session.runs().shown_a());
  CHECK(program.session.files().recent().empty());
  CHECK(program.session.files().place().empty());
  CHECK(program.session.parameters().policy == policy);
}
