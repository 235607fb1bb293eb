// The curve of a training in the real window, while it is written.

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/core/trace/study_file.h"
#include "tests/app/window_driver.h"
#include "tests/support/study_literal.h"

using namespace kvscope;
namespace fs = std::filesystem;

namespace {

/// The curve with these rows, as kvscope train replaces its file.
void write_curve(const fs::path& file, const std::string& rows) {
  const std::string heading = "step,tokens,learning_rate,loss_all,tokens_per_s[tokens/s],seconds[s]\n";
  write_study(file, test::study_of(heading + rows, kTrainingStudy), true);
}

constexpr const char* kTwoSteps = "1,8,0.1,3,100,1\n2,16,0.1,2,100,2\n";

}  // namespace

TEST_CASE("In the window the curves of trainings in a folder grow as they are written, and stay when they go",
          "[study]") {
  if (test::skip_without_display()) return;
  const test::TemporaryFolder folder;
  const fs::path gates = folder / "gates", one = gates / "one_loss.h5", two = gates / "more/two_loss.h5";
  fs::create_directories(gates / "more");
  write_curve(one, kTwoSteps);
  const test::Xvfb display;
  test::WindowDriver window(display, {.engine = test::fake(), .words = {gates.string()}});
  const auto points = [](int n) { return nlohmann::json{{"/studies/open/0/points", n}}; };
  window.wait(points(2));
  window.wait({{"/studies/open/0/kind", "training"}, {"/studies/axes/x", "step"}, {"/studies/axes/y", "loss_all"}});
  window.frames(3);
  CHECK(window.text("study.newest.1") == "one: step 2, loss_all 2, 100 tokens/s, 2 s");
  window.click("study.point.0.0");
  window.wait({{"/studies/point", 0}});

  window.click("study.smooth");
  window.frames(2);
  window.click("study.smooth.1");
  window.wait({{"/studies/axes/smooth", 5}});
  write_curve(one, std::string(kTwoSteps) + "3,24,0.1,1.5,100,3\n");
  window.wait(points(3));
  write_curve(one, std::string(kTwoSteps) + "3,24,0.1,1.5,100,3\n4,32,0.1,1.25,100,4\n");
  window.wait(points(4));
  CHECK(window.state()["studies"]["point"] == 0);

  write_curve(two, "1,8,0.1,4,50,1\n");  // before the other by name: its rows move
  window.wait(points(5));
  window.wait({{"/studies/axes/by", "source"}, {"/studies/point", 1}});
  window.frames(3);
  CHECK(window.text("study.value.step") == "1");
  CHECK(window.text("study.value.source") == "one");
  window.key("alt+Return");  // a step has no run: nothing comes of it
  window.frames(3);
  CHECK(window.state()["runs"].empty());

  fs::remove_all(gates);
  window.wait({{"/studies/open/0/stale", {{"contains", "gates"}}}});
  window.frames(3);
  CHECK(window.text("study.list") == "gates: training, 5 points");
  fs::create_directories(gates);
  write_curve(one, "1,8,0.1,3,100,1\n");
  window.wait({{"/studies/open/0/points", 1}, {"/studies/open/0/stale", ""}});
  CHECK(window.state()["studies"]["point"] == 0);
}
