// A study in the real window: by mouse, by keys, back by Ctrl+Z, before there is any run.

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "engine/core/trace/study_file.h"
#include "tests/app/study_support.h"
#include "tests/app/window_driver.h"

using namespace kvscope;

TEST_CASE("In the window a study of the command line is clicked, walked by keys, given other axes, and undone",
          "[study]") {
  if (test::skip_without_display()) return;
  const test::TemporaryFolder folder;
  const std::string study = (folder / "a.h5").string();
  write_study(study, test::small_study(), false);
  const test::Xvfb display;
  test::WindowDriver window(display, {.engine = test::fake(), .words = {study}});
  window.wait({{"/studies/shown", 1}});
  window.frames(3);
  CHECK(window.text("study.list") == "a.h5: sweep, 3 points");
  window.click("study.point.2.0");
  window.wait({{"/studies/point", 2}});
  window.frames(2);
  CHECK(window.text("study.value.nll_difference") == "0.3 nats/token");
  window.key("alt+Right");
  window.wait({{"/studies/point", 1}});
  window.key("ctrl+z");
  window.wait({{"/studies/point", 2}});
  window.click("study.front");
  window.wait({{"/studies/axes/front", false}});
  window.click("study.x");
  window.frames(2);
  window.click("study.x.0");  // the first column with several values: policy
  window.wait({{"/studies/axes/x", "policy"}});
  window.click("study.close");
  window.wait({{"/studies/shown", 0}});
  window.frames(2);
  window.key("ctrl+z");
  window.wait({{"/studies/shown", 1}, {"/studies/axes/x", "policy"}});
}
