// Map and head board in the real window, and what --bench-ui says of it.

#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "app/window/bench_runs.h"
#include "app/window/bench_ui.h"
#include "engine/core/record/check.h"
#include "engine/core/trace/study_file.h"
#include "engine/core/trace/trace_file.h"
#include "tests/app/window_driver.h"
#include "tests/support/random_run.h"
#include "tests/support/skip.h"

using namespace kvscope;

TEST_CASE("In the window heads are marked and made global by mouse, and each gesture is one step of Undo") {
  if (test::skip_without_display()) return;
  const test::TemporaryFolder folder;
  const std::string trace = (folder / "a.h5").string();
  save_trace(trace,
             test::random_run(3, {.policy = "threshold:threshold=0,sinks=4,window=16", .n_layers = 4, .n_kv_heads = 4}),
             false);
  const test::Xvfb display;
  test::WindowDriver window(display, {.engine = test::fake(), .words = {trace}});
  window.wait({{"/a/n_tokens", {{"at_least", 9}}}});
  window.command("view.show", {{"view", "head_board"}, {"instead_of", "cache_timeline"}});
  window.frames(3);
  window.drag("map.cell.1.0", 0.5, 2.5);
  window.frames(2);
  CHECK(window.text("map.marked") == "3 of 16 heads marked");
  window.click("board.cell.2.3");
  window.frames(2);
  CHECK(window.text("board.facts").starts_with("1 of 16 heads global, share 0.0625"));
  window.drag("board.cell.0.0", 0.5, 3.5);
  window.frames(2);
  CHECK(window.text("board.facts").starts_with("5 of 16 heads global"));
  window.key("ctrl+z");
  window.frames(3);
  CHECK(window.text("board.facts").starts_with("1 of 16 heads global"));
  CHECK(window.text("map.marked") == "3 of 16 heads marked");
  window.key("ctrl+shift+z");
  window.frames(3);
  CHECK(window.text("board.facts").starts_with("5 of 16 heads global"));
  window.click("board.marked");
  window.frames(2);
  CHECK(window.text("board.facts").starts_with("3 of 16 heads global"));
  window.key("Escape");
  window.frames(3);
  CHECK(window.text("map.marked").empty());
}

TEST_CASE(
    "The window's bench (--bench-ui) measures frames, rest and taps in the real window, and says why where it cannot") {
  if (test::skip_without_display()) return;
  const test::TemporaryFolder folder;
  const std::string trace = (folder / "a.h5").string();
  save_trace(trace, test::random_run(3), false);
  const test::Xvfb display;
  const auto bench = [&](std::vector<std::string> words) {
    words.insert(words.begin(), test::kvscope().string());
    return test::run({.argv = words,
                      .environment = {{"DISPLAY", display.display()},
                                      {"XDG_STATE_HOME", (folder / "state").string()},
                                      {"XDG_CONFIG_HOME", (folder / "config").string()}}});
  };
  const test::Result result =
      bench({"--bench-ui", trace, "--frames", "20", "--tokens", "3000", "--idle", "0.5", "--json"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const auto report = nlohmann::json::parse(result.out);
  for (const char* part : {"live", "trace"}) {
    INFO(part);
    CHECK(report.at(part).at("frames") == 20);
    for (const char* kind : {"own_ms", "raster_ms", "frame_ms"}) {
      const auto& ms = report.at(part).at(kind);
      CHECK(ms.at("p50").get<double>() > 0);
      CHECK(ms.at("p50") <= ms.at("p95"));
      CHECK(ms.at("p95") <= ms.at("p99"));
      CHECK(ms.at("p99") <= ms.at("longest"));
    }
  }
  CHECK(report.at("live").at("what").get<std::string>().find("3000 tokens") != std::string::npos);
  CHECK(report.at("trace").at("what").get<std::string>().find("180 tokens") != std::string::npos);
  CHECK(report.at("trace").at("first_run_s").get<double>() > 0);
  CHECK(report.at("trace").at("open_s") >= report.at("trace").at("first_run_s"));
  CHECK(report.at("idle").at("settled_s").get<double>() >= 2);
  CHECK(report.at("idle").at("seconds").get<double>() >= 0.5);
  CHECK(report.at("idle").at("cpu_percent").get<double>() < 50);
  CHECK(report.at("taps").at("sent") == 50);
  CHECK(report.at("taps").at("lost") == 0);
  CHECK_FALSE(std::filesystem::exists(folder / "state"));  // nothing is left behind
  const test::Result start = bench({"--bench-startup", "--json"});
  REQUIRE(start.exit_code == 0);
  CHECK(nlohmann::json::parse(start.out).at("first_frame_ms").get<double>() > 0);
  CHECK_FALSE(nlohmann::json::parse(start.out).contains("live"));
  CHECK(bench({"--bench-startup", "--frames", "5"}).exit_code == 1);
  CHECK(bench({"--bench-ui", (folder / "none.h5").string()}).exit_code == 2);
  CHECK(test::run({.argv = {test::kvscope().string(), "--frames", "5"}}).exit_code == 1);
  CHECK(bench({"--bench-ui", folder.path().string()}).exit_code == 1);
}

TEST_CASE("kvscope bench ui measures frames of the window, and writes them as a study") {
  if (test::skip_without_display()) return;
  const test::TemporaryFolder folder;
  const test::Xvfb display;
  const test::Result result =
      test::run({.argv = {test::kvscope().string(), "bench", "ui", "--frames", "20", "--prompt-tokens", "3000",
                          "--json", "-o", (folder / "u.h5").string()},
                 .environment = {{"DISPLAY", display.display()},
                                 {"XDG_STATE_HOME", (folder / "state").string()},
                                 {"XDG_CONFIG_HOME", (folder / "config").string()}}});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const auto row = nlohmann::json::parse(result.out.substr(0, result.out.find('\n')));
  CHECK(row.at("frames") == 20);
  CHECK(row.at("what").get<std::string>().find("3000 tokens") != std::string::npos);
  CHECK(row.at("frame_p50_ms") <= row.at("frame_p99_ms"));
  CHECK(std::abs(row.at("ratio_to_floor").get<double>() - row.at("frame_p99_ms").get<double>() / (1000.0 / 60)) < 1e-9);
  const StudyTable study = read_study("", folder / "u.h5");
  CHECK(study.kind == kBenchStudy);
  CHECK(study.numbers("frame_p99_ms", "")[0] == row.at("frame_p99_ms").get<double>());
}

TEST_CASE("The bench's percentile is the nearest rank, and its run is one that a trace may hold") {
  std::vector<double> values;
  for (int i = 200; i > 0; --i) values.push_back(i);
  CHECK(app::percentile(values, 0.5) == 100);
  CHECK(app::percentile(values, 0.99) == 198);
  CHECK(app::percentile(values, 0.991) == 199);
  CHECK(app::percentile(values, 1) == 200);
  CHECK(app::percentile({7}, 0.01) == 7);
  CHECK(std::isnan(app::percentile({}, 0.5)));
  RunRecord run = app::made_up_run(3, 2, 1000, true);
  CHECK(run.status == RunStatus::running);
  finish_run(run, RunStatus::complete);
  check_run(run);
  int kept = 0;
  for (const std::int32_t e : run.evict_at.row(0, 0)) kept += e == kNever;
  CHECK(kept > 300);
  CHECK(kept < 600);
}
