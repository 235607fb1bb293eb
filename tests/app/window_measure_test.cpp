// What is measured of a run besides its lifetimes: chosen in the panel, there in the views, in the command that is copied.

#include <catch2/catch.hpp>
#include <filesystem>

#include "engine/core/study/measure/output_error.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/trace/trace_file.h"
#include "tests/app/window_driver.h"
#include "tests/support/skip.h"
#include "views/figure/figure_builder.h"

using namespace kvscope;
using nlohmann::json;
using test::skip_without_display;
using test::WindowDriver;
using test::Xvfb;

TEST_CASE("Output error is switched on in the panel, and measured by the next run") {
  if (skip_without_display()) return;
  if (test::real_engine().empty() || !std::filesystem::exists(test::sample_model() / "model.safetensors"))
    return test::skip("kvscope-engine or the sample model is not built");
  const Xvfb display(1600, 1600);  // the panel's end is to be seen without scrolling
  WindowDriver window(display, {.words = {"--device", "cpu", "--size", "1600x1600"}});
  window.wait({{"/engine", "ready"}});
  window.command("run.max_tokens", {{"n", 8}});
  window.command("view.metric", {{"metric", "output_error"}});
  window.command("run.start");
  window.wait({{"/a/status", "complete"}, {"/running", false}});
  CHECK(window.text_soon("measure.why", "Not") == "Not measured in this run.");
  window.click("measure.next");
  window.wait({{"/parameters/output_error", true}});
  window.command("run.output_error", {{"on", false}});
  window.frames(30);  // what the panel says of A has come, and moves nothing any more
  window.click("measure");
  window.click("measure.output_error");
  window.wait({{"/parameters/output_error", true}});
  window.command("run.start");
  window.wait({{"/runs/0/status", "complete"}, {"/runs/1/status", "complete"}, {"/running", false}});
  CHECK_THAT(window.command("run.copy_command").get<std::string>(), Catch::Contains("--output-error"));
  const std::filesystem::path saved = window.folder() / "measured.h5";
  window.command("trace.save", {{"path", saved.string()}});
  window.wait({{"/files_busy", false}, {"/runs", {{"contains", "measured.h5"}}}});
  const RunRecord run = load_trace(saved);
  CHECK(mean_output_error(run) > 0);
  const HeadMap map = head_metric(run, Metric::output_error, run.queries() - 1);
  const std::string value = views::format_number(map.values[0], 3);
  CHECK(window.text_soon("inspector.Output error", value) == value);

  window.command("edit.undo");  // that it is A
  window.command("edit.undo");
  window.wait({{"/parameters/output_error", false}});
}
