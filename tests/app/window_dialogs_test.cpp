// What a dialog asks besides a path, by keys alone.

#include <catch2/catch.hpp>
#include <filesystem>

#include "tests/app/window_driver.h"

using namespace kvscope;
using test::decode_short;
using test::fake;
using test::skip_without_display;
using test::WindowDriver;
using test::Xvfb;

WINDOW_TEST("Figure and venue of an export are changed by keys alone, to and fro, and what is typed stays the name") {
  decode_short(window);
  window.key("ctrl+e");
  window.wait({{"/ui/dialog", "figure.export"}, {"/ui/text_input", true}});
  const std::string path = window.text_soon("dialog.path", ".pdf"), figure = window.text("export.preset");
  CHECK(figure == "What is on screen");
  const std::string title = window.text("dialog.title");
  CHECK(title == "Export figure: Layer x head map");
  CHECK(window.text_soon("export.venue", "NeurIPS") == "NeurIPS");
  window.key("alt+v");
  CHECK(window.text_soon("export.venue", "ICLR") == "ICLR");
  window.key("alt+shift+v");
  CHECK(window.text_soon("export.venue", "NeurIPS") == "NeurIPS");
  window.key("alt+v");
  CHECK(window.text_soon("export.venue", "ICLR") == "ICLR");
  window.key("alt+f");
  window.frames(3);
  CHECK(window.text("export.preset") != figure);
  CHECK_THAT(window.text("dialog.title"), Catch::StartsWith("Export figure: Token strip: KV heads"));
  CHECK(window.text_soon("dialog.path", "kvpop-fig6") == "kvpop-fig6.pdf");  // else Fig. 6 had the name of the map
  window.key("alt+shift+f");
  window.frames(3);
  CHECK(window.text("export.preset") == figure);
  CHECK(window.text_soon("dialog.path", path) == path);
  CHECK(window.text("dialog.title") == title);
  window.wait({{"/ui/text_input", true}});
  window.type("by-keys");
  CHECK(window.text_soon("dialog.path", "by-keys") == "by-keys.pdf");
  window.key("Return");
  window.wait({{"/ui/dialog", nullptr}, {"/files_busy", false}});
  CHECK(std::filesystem::exists(window.folder() / "by-keys.pdf"));
  CHECK_THAT(test::read_text(window.folder() / "by-keys.json"), Catch::Contains("iclr"));
}

WINDOW_TEST("The hint of a run has its whole name, which the list cuts") {
  decode_short(window);
  const std::string name = "a name that is far too long for the list of runs at the left of the window and goes on";
  window.command("run.rename", {{"id", 1}, {"name", name}});
  window.frames(5);
  const auto row = window.rect("run.1.name");
  window.inputs({"mousemove", "--window", "{window}", std::to_string(static_cast<int>(row[0] + 20)),
                 std::to_string(static_cast<int>(row[1] + row[3] / 2))});
  CHECK_THAT(window.text_soon("hint", name), Catch::Contains(name));
}
