// Paths in the window: asked for in one dialog, never replaced unasked; and the list of runs that come from them.

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "app/session/folder_list.h"
#include "engine/core/trace/trace_file.h"
#include "tests/app/window_driver.h"
#include "tests/support/random_run.h"
#include "tests/support/skip.h"

using namespace kvscope;
using nlohmann::json;
using test::decode_short;
using test::fake;
using test::skip_without_display;
using test::WindowDriver;
using test::Xvfb;

namespace {

/// The dialog on a folder with prompts/first.txt and prompts/second.txt.
void open_on_two_prompts(WindowDriver& window) {
  window.wait({{"/model", "kvscope-tiny"}});
  std::filesystem::create_directories(window.folder() / "prompts");
  std::ofstream(window.folder() / "prompts/first.txt") << "the first of two";
  std::ofstream(window.folder() / "prompts/second.txt") << "the second of two";
  window.key("ctrl+o");
  window.wait({{"/ui/dialog", "file.open"}, {"/ui/text_input", true}});
}

}  // namespace

TEST_CASE("A typed path is a folder and what its names begin with, and Tab completes as far as they agree") {
  CHECK(app::split_path("runs/a").folder == "runs/");
  CHECK(app::split_path("runs/a").name == "a");
  CHECK(app::split_path("x.h5").folder.empty());
  CHECK(app::split_path("~").folder == "~/");
  const char* home = std::getenv("HOME");
  if (home) CHECK(app::expand_home("~/x") == std::string(home) + "/x");
  CHECK(app::expand_home("~other/x") == "~other/x");
  const app::FolderListing listing{
      .folder = "", .entries = {{"alpha", true}, {"beta-1.h5"}, {"beta-2.h5"}, {".hidden", true}}, .error = ""};
  CHECK(complete(listing, "a") == "alpha/");
  CHECK(complete(listing, "b") == "beta-");
  CHECK(complete(listing, "beta-1") == "beta-1.h5");
  CHECK(complete(listing, "z") == "z");
  CHECK(complete(listing, ".h") == ".hidden/");
}

WINDOW_TEST("The dialog lists a folder, completes with Tab, walks with the arrows and opens by keys alone") {
  open_on_two_prompts(window);
  window.type("pro");
  window.text_soon("dialog.path", "pro");
  window.rect("dialog.row.prompts/");
  window.key("Tab");
  CHECK(window.text_soon("dialog.path", "prompts/") == "prompts/");
  window.rect("dialog.row.second.txt");
  CHECK(window.text("dialog.row.second.txt") == "prompt");
  window.key("Down Down Down");  // .., first.txt, second.txt
  window.key("Return");
  window.wait({{"/ui/dialog", nullptr}, {"/parameters/prompt", "the second of two"}});
}

WINDOW_TEST("Enter takes the one entry whose name begins as typed, and the dialog says in which folder it looks") {
  open_on_two_prompts(window);
  CHECK(window.text_soon("dialog.folder", "in ") == "in " + (window.folder() / "").string());
  window.type("prompts/fi");
  CHECK(window.text_soon("dialog.only", "first") == "first.txt");
  CHECK(window.text("dialog.folder") == "in " + (window.folder() / "prompts/").string());
  window.key("Return");
  window.wait({{"/ui/dialog", nullptr}, {"/parameters/prompt", "the first of two"}});
  // What has a file's ending is not looked for among the models.
  window.command("file.open", {{"path", "/nowhere/t.h5"}});
  window.wait({{"/banners", {{"contains", "t.h5: no such file"}}}});
  CHECK_THAT(window.state()["banners"].dump(), !Catch::Contains("config.json"));
}

// It closed, and what had been typed was gone.
WINDOW_TEST("A path to open that is not there is said in the dialog, which stays with what was typed") {
  open_on_two_prompts(window);
  for (const char* path : {"prompts/third.txt", "nowhere/third.txt", "third"}) {
    CAPTURE(path);
    window.hold("ctrl", "a");
    window.type(path);
    window.text_soon("dialog.path", path);
    window.key("Return");
    CHECK_THAT(window.text_soon("dialog.refused", path), Catch::Contains("Not opened") && Catch::Contains(path));
    window.wait({{"/ui/dialog", "file.open"}, {"/ui/text_input", true}});
    CHECK(window.text("dialog.path") == path);
  }
  window.type("s");
  window.text_soon("dialog.path", "thirds");
  CHECK(window.text("dialog.refused").empty());
  CHECK(window.state()["banners"].empty());
  window.hold("ctrl", "a");
  window.type("prompts/second.txt");
  window.text_soon("dialog.path", "second.txt");
  window.key("Return");
  window.wait({{"/ui/dialog", nullptr}, {"/parameters/prompt", "the second of two"}});
}

// The views that come with the first token took the keys from a field: what was typed on was lost.
TEST_CASE("A run that begins leaves a dialog its keys, and what is refused because of it is said in the dialog") {
  if (skip_without_display()) return;
  const Xvfb display;
  WindowDriver window(display, {.engine = fake("--slow 300")});
  window.wait({{"/model", "kvscope-tiny"}, {"/engine", "ready"}});
  std::filesystem::create_directories(window.folder() / "other");
  std::ofstream(window.folder() / "other/config.json") << "{}";
  std::ofstream(window.folder() / "other/tokenizer.json") << "{}";
  window.key("Escape");  // the display gives it the keyboard with the first key
  window.command("model.open");
  window.wait({{"/ui/dialog", "model.open"}, {"/ui/text_input", true}});
  window.command("run.start");
  window.wait({{"/running", true}});
  window.hold("ctrl", "a");
  window.type("other");
  window.text_soon("dialog.path", "other");
  window.key("Return");
  CHECK_THAT(window.text_soon("dialog.refused", "not possible now"), Catch::StartsWith("Not opened"));
  CHECK(window.state()["ui"]["dialog"] == "model.open");
}

// It said "It exists", and Save replaced it with the box unchecked.
WINDOW_TEST("A file is replaced only when the box is ticked, by click and by Enter alike") {
  decode_short(window);
  const auto figure = window.folder() / "mine.pdf", data = window.folder() / "other.figure.csv";
  std::ofstream(figure) << "precious";
  std::ofstream(data) << "precious";
  window.key("ctrl+e");
  window.wait({{"/ui/dialog", "figure.export"}, {"/ui/text_input", true}});
  const std::string size = window.text_soon("export.size", "mm");
  CHECK_THAT(size, Catch::Contains(" mm = "));
  // Its picture has the sides that it will have on paper.
  const std::vector<double> picture = window.rect("export.preview");
  const double wide = std::stod(size), high = std::stod(size.substr(size.find("× ") + std::strlen("× ")));
  CHECK(picture[2] / picture[3] == Approx(wide / high).epsilon(0.01));
  window.type("mine");  // the name was selected, its ending was not
  CHECK(window.text_soon("dialog.path", "mine") == "mine.pdf");
  window.rect("dialog.replace");
  window.click("dialog.ok");
  window.key("Return");
  CHECK(window.state()["ui"]["dialog"] == "figure.export");
  CHECK(test::read_text(figure) == "precious");
  window.click("dialog.replace");
  window.click("dialog.ok");
  window.wait({{"/ui/dialog", nullptr}, {"/files_busy", false}});
  CHECK(test::read_text(figure).starts_with("%PDF"));
  std::ofstream(figure) << "precious";
  window.key("ctrl+e");
  window.wait({{"/ui/dialog", "figure.export"}, {"/ui/text_input", true}});
  window.type("mine");
  window.rect("dialog.replace");
  window.key("alt+r Return");  // by keys alone
  window.wait({{"/ui/dialog", nullptr}, {"/files_busy", false}});
  CHECK(test::read_text(figure).starts_with("%PDF"));
  // What stands beside a figure is not replaced either.
  window.command("figure.export", {{"path", (window.folder() / "other.pdf").string()}});
  window.wait({{"/banners", {{"contains", "other.figure.csv"}}}});
  CHECK(test::read_text(data) == "precious");
  CHECK_FALSE(std::filesystem::exists(window.folder() / "other.pdf"));
  // An ending is no name.
  window.key("ctrl+e");
  window.wait({{"/ui/dialog", "figure.export"}, {"/ui/text_input", true}});
  window.key("BackSpace");
  window.rect("dialog.nameless");
  window.click("dialog.ok");
  window.key("Return");
  window.frames(2);
  CHECK(window.state()["ui"]["dialog"] == "figure.export");
  CHECK_FALSE(std::filesystem::exists(window.folder() / ".pdf"));
}

WINDOW_TEST("The export says how large the figure will be for the venue that is chosen, and why no picture is copied") {
  decode_short(window);
  window.command("figure.measure", {{"venue", "icml"}});
  window.wait({{"/notice", {{"contains", "= 3.25 × "}}}});
  window.command("figure.measure", {{"venue", "icml:full"}});
  window.wait({{"/notice", {{"contains", "= 6.75 × "}}}});
  window.command("figure.copy");
  window.wait({{"/files_busy", false}});
  CHECK_THAT(window.state()["notice"].get<std::string>(),
             Catch::StartsWith("copied ") || Catch::Contains("xclip, or wl-copy"));
  CHECK(window.state()["banners"].empty());
}

WINDOW_TEST("The runs of one trace are one entry with previous and next, each with its prompt, NLL and recall") {
  decode_short(window, "kvpop:budget=6,sinks=1,window=2");
  window.wait({{"/files_busy", false}});
  const std::string detail = window.text_soon("run.1.detail", "NLL");
  CHECK_THAT(detail, Catch::Contains("recall 0.") || Catch::Contains("recall 1."));
  CHECK(window.text("run.1.prompt").starts_with("one two three"));
  const auto trace = window.folder() / "many.h5";
  {
    const auto run = [](int i) {
      return test::random_run(static_cast<std::uint64_t>(i), {.prompt_len = 70, .n_new = 9});
    };
    TraceWriter writer(trace, run(0).model, {.max_runs = 3, .max_positions = run(0).n_tokens()});
    for (int i = 0; i < 3; ++i) writer.add(run(i));
    writer.finish();
  }
  window.command("trace.open", {{"path", trace.string()}});
  window.wait({{"/files_busy", false}, {"/runs/3/status", "complete"}, {"/a/id", 2}});
  window.frames(3);
  CHECK(window.text("trace.many.h5") == "many.h5   1 of 3");
  CHECK(window.text("run.3.name").empty());  // folded
  window.click("trace.many.h5.all");
  window.wait({{"/selection/runs", {2, 3, 4}}});
  window.frames(3);
  CHECK(window.text("trace.many.h5.all") == "on");
  CHECK(window.text("map.set") == "median of 3 runs, each at its last query");
  CHECK(window.text("status.shown").starts_with("3 runs combined"));
  // A preset that is over runs is over these.
  window.command("figure.export", {{"preset", "kvpop-fig8"}, {"path", (window.folder() / "f8.svg").string()}});
  window.wait({{"/files_busy", false}});
  std::ifstream recipe(window.folder() / "f8.json");
  CHECK(nlohmann::json::parse(recipe)["runs"] == nlohmann::json({0, 1, 2}));
  const auto row = window.rect("run.2.row");
  window.inputs({"mousemove", "--window", "{window}", std::to_string(static_cast<int>(row[0] + 9)),
                 std::to_string(static_cast<int>(row[1] + 9)), "keydown", "ctrl"});
  window.frames(3);
  window.inputs({"click", "1"});
  window.wait({{"/selection/runs", {3, 4}}});
  window.inputs({"keyup", "ctrl"});
  window.click("trace.many.h5.next");
  window.wait({{"/a/id", 3}});
  CHECK(window.text("trace.many.h5") == "many.h5   2 of 3");
  const auto button = window.rect("trace.many.h5.next");
  window.inputs({"click", "1"});  // where the mouse is
  window.wait({{"/a/id", 4}});
  window.frames(6);
  CHECK(window.rect("trace.many.h5.next") == button);
  window.command("run.previous_in_trace");
  window.command("run.next_in_trace");
  window.command("run.next_in_trace");
  CHECK(window.state()["a"]["id"] == 4);
  window.click("trace.many.h5.previous");
  window.wait({{"/a/id", 3}});
  window.command("run.rename", {{"id", 1}, {"name", "the full one"}});
  window.frames(3);
  CHECK(window.text("run.1.name").starts_with("the full one: KVpop"));
  window.click("trace.many.h5.close");  // folded, with one of its runs as A
  window.wait({{"/runs/0/id", 1}, {"/runs/1", nullptr}});
  window.frames(3);
  CHECK(window.text("trace.many.h5").empty());
  window.key("ctrl+z");
  window.wait({{"/runs/3/id", 4}});
}

WINDOW_TEST("All of a trace that A is not of has its first run as A, and once more leaves A alone") {
  decode_short(window);
  const auto trace = window.folder() / "two.h5";
  {
    const RunRecord run = test::random_run(1);
    TraceWriter writer(trace, run.model, {.max_runs = 2, .max_positions = run.n_tokens()});
    writer.add(run), writer.add(test::random_run(2));
    writer.finish();
  }
  window.command("trace.open", {{"path", trace.string()}});
  window.wait({{"/files_busy", false}, {"/runs/2/status", "complete"}});
  window.command("run.show", {{"id", 1}});
  window.frames(3);
  CHECK(window.text("trace.two.h5") == "two.h5   2 runs");
  CHECK(window.text("trace.two.h5.all") == "off");
  window.click("trace.two.h5.all");
  window.wait({{"/selection/runs", {2, 3}}, {"/a/id", 2}});
  window.frames(3);
  CHECK(window.text("trace.two.h5.all") == "on");
  window.click("run.2.b");  // a run beside itself
  CHECK(window.state()["b"].is_null());
  window.click("trace.two.h5.all");
  window.wait({{"/selection/runs", json::array()}, {"/a/id", 2}});
}

TEST_CASE("A run that begins, and one that is opened again, is in sight in the list of runs") {
  if (skip_without_display()) return;
  const Xvfb display(1200, 700);
  WindowDriver window(display, {.engine = fake(), .words = {"--size", "1200x700"}});
  decode_short(window);
  window.wait({{"/files_busy", false}});
  window.command("trace.save", {{"path", (window.folder() / "first.h5").string()}});
  window.wait({{"/runs/0/trace", (window.folder() / "first.h5").string()}});
  for (int i = 2; i <= 9; ++i) {
    window.command("run.start");
    window.wait({{"/running", false}, {"/a/id", i}, {"/a/status", "complete"}});
  }
  const auto is_in_sight = [&](int id) {
    window.frames(8);
    const auto list = window.rect("runs.list"), row = window.rect("run." + std::to_string(id) + ".a");
    return row[1] >= list[1] && row[1] + row[3] <= list[1] + list[3];
  };
  CHECK(is_in_sight(9));
  CHECK_FALSE(is_in_sight(1));
  window.command("trace.open", {{"path", (window.folder() / "first.h5").string()}});
  window.wait({{"/a/id", 1}, {"/files_busy", false}});
  CHECK(window.state()["runs"].size() == 9);
  CHECK(is_in_sight(1));
  CHECK_FALSE(is_in_sight(9));
  window.command("run.start");
  window.wait({{"/running", false}, {"/a/id", 10}});
  CHECK(is_in_sight(10));
}

TEST_CASE("Failed runs are folded away with what they said, and each run's own command can be copied from its menu") {
  if (skip_without_display()) return;
  const Xvfb display;
  WindowDriver window(display, {.engine = fake("--fail run:tova")});
  decode_short(window);
  window.command("policy.set", {{"policy", "tova:keep=50%,window=4"}});
  window.command("run.start");
  window.wait({{"/running", false}, {"/runs/1/status", "failed"}});
  window.frames(3);
  CHECK(window.text("runs.failed") == "1 failed run");
  CHECK(window.text("run.2.message").empty());
  CHECK(window.text("run.2.name").empty());
  window.click("runs.failed");
  CHECK_THAT(window.text("run.2.message"), Catch::Contains("told to fail at run"));
  window.click("run.2.remove");
  CHECK(window.state()["runs"].size() == 1);
  window.click("run.1.menu");
  window.click("run.1.copy");
  window.wait({{"/notice", "copied the command of run 1"}});
}

WINDOW_TEST("The palette puts what is possible first and says of the rest why it is not") {
  decode_short(window);
  window.key("ctrl+k");
  window.wait({{"/ui/palette", true}, {"/ui/text_input", true}});
  window.type("replay");
  window.frames(3);
  const auto first = window.rect("palette.run.replay"), second = window.rect("palette.run.replay_as_b");
  CHECK(window.text("palette.run.replay") == "possible");
  CHECK(window.text("palette.run.replay_as_b") == "not possible now. There is no run B.");
  CHECK(first[1] < second[1]);
  window.key("Down Return");  // a command that is not possible is not run, and the palette stays
  CHECK(window.state()["ui"]["palette"].get<bool>());
}

WINDOW_TEST("A message lies over the corner and moves nothing, and a value can be typed beside its slider") {
  decode_short(window);
  window.frames(3);
  const auto before = window.rect("timeline.scrub");
  window.command("file.open", {{"path", "/nowhere"}});
  window.wait({{"/banners", {{"contains", "no such folder or name"}}}});
  window.frames(3);
  CHECK(window.rect("timeline.scrub") == before);
  window.click("banner.0.close");
  CHECK(window.state()["banners"].empty());

  window.command("policy.set", {{"policy", "streaming:sinks=4,window=8"}});
  window.click("policy.sinks.field");
  window.key("ctrl+a");
  window.type("7");
  window.key("Return");
  window.frames(3);
  CHECK_THAT(window.state()["parameters"]["policy"].get<std::string>(), Catch::Contains("sinks=7"));
  CHECK(window.text("policy.sinks.field") == "7");
}

TEST_CASE("On a small screen the views keep their room, and every control of the bar is on the screen") {
  if (skip_without_display()) return;
  const Xvfb display(800, 600);
  WindowDriver window(display, {.engine = fake("--gate kvpop_mlstm,0,64,64"), .words = {"--size", "800x600"}});
  decode_short(window);
  window.command("policy.set", {{"policy", "kvpop:budget=3"}});
  window.frames(3);
  for (const char* item : {"button.menu", "button.run.start", "button.run.decode_again", "run.obstacle", "run.remedy.0",
                           "button.palette.open"}) {
    const auto r = window.rect(item);
    CAPTURE(item, r[0], r[2]);
    CHECK(r[0] + r[2] <= 800);
  }
  const auto obstacle = window.rect("run.obstacle"), remedy = window.rect("run.remedy.0"),
             search = window.rect("button.palette.open"), canvas = window.rect("timeline.scrub");
  CHECK(obstacle[0] + obstacle[2] <= remedy[0]);
  CHECK(remedy[0] + remedy[2] <= search[0]);
  CHECK(canvas[2] > 200);
}

WINDOW_TEST("The next run of a trace is not possible where no run is of one, and the refusal says why") {
  decode_short(window);
  for (const char* id : {"run.next_in_trace", "run.previous_in_trace"})
    CHECK_THROWS_WITH(window.command(id), Catch::Contains("There is no run from a trace in the list."));
}

TEST_CASE("The models and gates are a click or Ctrl+M away, and Escape closes what was opened, one after the other") {
  if (skip_without_display()) return;
  const Xvfb display;
  WindowDriver window(display, {.engine = fake("--gate kvpop_mlstm,0,64,64")});
  window.wait({{"/model", "kvscope-tiny"}, {"/engine", "ready"}});
  window.key("ctrl+m");
  CHECK(window.text_soon("menu.model.kvscope-tiny", "open") == "open");
  CHECK_THAT(window.text_soon("gate.wg-kv-0.01", "wg_kv"), Catch::Contains("window 64"));
  window.key("Escape");
  window.frames(3);
  CHECK(window.text("menu.model.kvscope-tiny").empty());
  window.click("button.models");
  window.click("gate.wg-kv-0.01");
  window.wait({{"/gate", "wg-kv-0.01"}, {"/engine", "ready"}});
  CHECK(window.state()["parameters"]["policy"].get<std::string>().starts_with("wg-kv"));
  window.click("policy.combo");
  CHECK(window.text("policy.choice.wg-kv") == "Gated (available)");
  CHECK(window.text("policy.choice.duo") == "Gated (no gate found)");
  CHECK(window.text("policy.choice.full") == "Needs nothing");
  window.key("Escape");
  window.frames(3);
  CHECK(window.text("policy.choice.wg-kv").empty());
  // Methods stand beside each other at the same memory.
  window.command("policy.set", {{"policy", "kvpop:keep=70%"}});
  window.frames(2);
  window.click("policy.combo");
  window.click("policy.choice.tova");
  window.frames(2);
  CHECK_THAT(window.state()["parameters"]["policy"].get<std::string>(), Catch::Contains("tova:keep=0.7"));
}
