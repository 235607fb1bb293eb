// What the window says while other things are looked at: errors in one line, the dialog for a path that keeps what was typed.

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/app/window_driver.h"

using namespace kvscope;
using test::decode_short;
using test::fake;
using test::skip_without_display;
using test::WindowDriver;
using test::Xvfb;

namespace {

void open_export(WindowDriver& window) {
  window.key("ctrl+e");
  window.wait({{"/ui/dialog", "figure.export"}, {"/ui/text_input", true}});
}

}  // namespace

WINDOW_TEST(
    "Several errors are one line, which covers nothing of the time and what else is shown, until a click shows them all") {
  decode_short(window);
  const std::string path = "/nowhere/" + std::string(120, 'x') + " " + std::string(120, 'y') + "/";
  for (const char* name : {"first", "second", "third"}) {
    window.command("file.open", {{"path", path + name}});
    window.wait({{"/banners", {{"contains", name}}}});
  }
  window.frames(3);
  CHECK(window.text("banner.0").empty());
  CHECK(window.text("banner.1").empty());
  CHECK_THAT(window.text("banner.2"), Catch::StartsWith("/nowhere/") && Catch::EndsWith("…"));
  const auto scrub = window.rect("timeline.scrub"), banner = window.rect("banner.2"),
             shown = window.rect("status.shown");
  CHECK(banner[1] > scrub[1] + scrub[3]);
  CHECK(banner[0] + banner[2] < shown[0]);
  window.click("banners.fold");
  window.frames(3);
  CHECK_THAT(window.text("banner.0"), Catch::Contains("first"));
  CHECK_THAT(window.text("banner.1"), Catch::Contains("second"));
  CHECK_THAT(window.text("banner.2"), Catch::Contains("third"));
  window.click("banners.fold");
  window.frames(3);
  CHECK(window.text("banner.0").empty());
  window.click("banner.2.close");
  window.frames(3);
  CHECK_THAT(window.text("banner.1"), Catch::StartsWith("/nowhere/"));
  CHECK(window.state()["banners"].size() == 2);
}

// The first one, which has a button, stayed in front of all that went wrong later.
TEST_CASE("Of several messages the newest is seen, unless there is no engine") {
  if (skip_without_display()) return;
  const Xvfb display;
  WindowDriver window(display, {.engine = fake("--fail load:broken")});
  decode_short(window);
  const auto broken = window.folder() / "broken";
  test::link_sample_model(broken);
  window.command("file.open", {{"path", broken.string()}});
  window.wait({{"/banners/0/command", "model.open"}, {"/engine", "ready"}});
  window.command("file.open", {{"path", "/nowhere/second"}});
  window.wait({{"/banners", {{"contains", "second"}}}});
  window.frames(3);
  CHECK_THAT(window.text("banner.1"), Catch::Contains("second"));
  CHECK(window.text("banner.0").empty());
  ::kill(window.state()["engine_pid"].get<int>(), SIGKILL);
  window.wait({{"/engine", "dead"}});
  window.command("file.open", {{"path", "/nowhere/fourth"}});
  window.wait({{"/banners", {{"contains", "fourth"}}}});
  window.frames(3);
  CHECK_THAT(window.text("banner.2"), Catch::Contains("engine"));
  CHECK(window.text("banner.3").empty());
}

TEST_CASE("Of several errors that are shown one is dismissed, by a double click too, and the others stay in sight") {
  if (skip_without_display()) return;
  const Xvfb display;
  // Small: of frames that take 0.15 s a double click would be two.
  WindowDriver window(display, {.engine = fake(), .words = {"--size", "800x600"}});
  decode_short(window);
  for (const char* name : {"first", "second", "third"}) {
    window.command("file.open", {{"path", std::string("/nowhere/") + name}});
    window.wait({{"/banners", {{"contains", name}}}});
  }
  window.frames(3);
  window.click("banners.fold");
  window.frames(3);
  const auto close = window.rect("banner.1.close");
  const std::string x = std::to_string(static_cast<int>(close[0] + close[2] / 2)),
                    y = std::to_string(static_cast<int>(close[1] + close[3] / 2));
  window.inputs({"mousemove", "--window", "{window}", x, y});
  window.frames(2);
  window.inputs({"click", "--repeat", "2", "--delay", "60", "1"});
  window.frames(6);
  REQUIRE(window.state()["banners"].size() == 2);
  CHECK_THAT(window.text("banner.0"), Catch::Contains("first"));
  CHECK_THAT(window.text("banner.1"), Catch::Contains("third"));
  window.click("banner.1.close");
  window.frames(3);
  REQUIRE(window.state()["banners"].size() == 1);
  CHECK_THAT(window.text("banner.0"), Catch::Contains("first"));
  const auto left = window.rect("banner.0");
  CHECK(left[1] + left[3] < window.rect("status")[1]);  // where it was shown, not folded away beside what goes on
}

WINDOW_TEST(
    "Escape closes a list that is open in the dialog before it, and a folder that is not there keeps what was typed") {
  decode_short(window);
  open_export(window);
  window.click("export.venue");
  window.frames(3);
  window.key("Escape");
  window.frames(3);
  CHECK(window.state()["ui"]["dialog"] == "figure.export");
  window.key("Escape");
  window.wait({{"/ui/dialog", nullptr}});
  open_export(window);
  window.hold("ctrl", "a");
  window.type("nowhere/a.pdf");
  window.text_soon("dialog.path", "nowhere/a.pdf");
  window.key("Return");
  window.rect("dialog.no_folder");
  window.click("dialog.ok");
  window.frames(3);
  CHECK(window.state()["ui"]["dialog"] == "figure.export");
  CHECK(window.text("dialog.path") == "nowhere/a.pdf");
  CHECK(window.state()["banners"].empty());
}

WINDOW_TEST("A name that Enter was refused for keeps the keyboard") {
  decode_short(window);
  std::ofstream(window.folder() / "mine.pdf") << "precious";
  open_export(window);
  window.type("mine");
  window.rect("dialog.replace");
  window.key("Return");
  window.frames(3);
  window.wait({{"/ui/dialog", "figure.export"}, {"/ui/text_input", true}});
  window.type("x");
  CHECK(window.text_soon("dialog.path", "x") == "mine.pdfx");
}
