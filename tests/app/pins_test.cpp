// Pins and notes as a person has them: commands and their undoing, the workspace, the file beside a trace, the real window.

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/command/app_commands.h"
#include "engine/core/support/error.h"
#include "engine/core/trace/trace_file.h"
#include "engine/core/trace/trace_notes.h"
#include "tests/app/window_driver.h"
#include "tests/support/random_run.h"
#include "tests/support/slowdown.h"
#include "views/view_list.h"

using namespace kvscope;
using namespace kvscope::app;
using nlohmann::json;
using test::fake;
using test::skip_without_display;
using test::WindowDriver;
using test::Xvfb;

namespace {

namespace fs = std::filesystem;

/// The program without a window, with a workspace on a folder, or with none.
struct Program {
  std::chrono::steady_clock::time_point now{};
  UiState ui;
  Session session{Session::Options{.engine_command = "exit 0", .trace_program = "", .wake = [] {}}};
  Workspace workspace;
  CommandRegistry commands;
  views::NullTextureBackend textures;
  views::ItemRegistry items;
  views::Theme theme;
  views::ViewList views = views::make_views({&textures, &items, &theme});

  explicit Program(const fs::path& folder = {})
      : workspace(session, ui, ui,
                  {.state = folder, .trace_program = "", .wake = [] {}, .clock = [this] { return now; }}) {
    add_workspace_commands(commands, workspace);
    add_all_commands(commands, session, ui, views);
    wait([&] { return workspace.is_read() && !workspace.state()["restoring"].get<bool>(); });
    workspace.begin();
  }
  template <typename Condition>
  void wait(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(25 * test::kSlowdown);
    while (!condition()) {
      session.poll();
      workspace.poll();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (std::chrono::steady_clock::now() > deadline) FAIL("timed out; " << workspace.state().dump());
    }
  }
  json run(const char* id, const json& arguments = json::object()) { return commands.execute(id, arguments); }
  std::string refusal(const char* id, const json& arguments = json::object()) {
    try {
      run(id, arguments);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  void put(int id, RunRecord record) {
    session.runs().put_back({.id = id, .run = std::make_shared<RunRecord>(std::move(record)), .own = true});
    session.runs().show(id, 0);
  }
  void pin(int layer, int kv_head, int token) {
    run("pin.toggle", {{"layer", layer}, {"kv_head", kv_head}, {"token", token}});
  }
  void open(const std::string& trace) {
    const std::size_t n = session.runs().all().size();
    run("trace.open", {{"path", trace}});
    wait([&] { return session.runs().all().size() > n; });
    save();
  }
  /// All that is to be kept is on disk.
  void save() {
    workspace.save();
    wait([&] { return workspace.saved(); });
  }
  /// "a: L1 H2 t7 (note)", one after the other.
  std::string pins() {
    std::string text;
    const json state = session.state();
    for (const json& pin : state["pins"]) {
      text += (text.empty() ? "" : "; ") + pin["letter"].get<std::string>() + ": L" + pin["layer"].dump() + " H" +
              pin["kv_head"].dump() + " t" + pin["token"].dump();
      if (pin["note"] != "") text += " (" + pin["note"].get<std::string>() + ")";
      if (pin["place"] != "here") text += " " + pin["place"].get<std::string>();
    }
    return text;
  }
  std::string note(int id) {
    const auto& notes = session.selection().run_notes;
    return notes.contains(id) ? notes.at(id) : "";
  }
  std::string banners() {
    std::string all;
    for (const Banner& banner : session.messages().banners()) all += banner.text + "\n";
    return all;
  }
  const std::string& title(const char* id) { return commands.find(id)->title; }
};

std::string bytes_of(const fs::path& file) { return test::read_text(file); }

}  // namespace

TEST_CASE(
    "P pins the cursor and lets it go, each a step with its name, and all steps back and forth are the same pins") {
  Program program;
  program.put(1, test::random_run(3));
  program.workspace.undo().start();
  CHECK_THAT(program.refusal("pin.toggle"), Catch::Contains("click a token first"));
  program.run("selection.set", {{"layer", 1}, {"kv_head", 2}, {"token", 7}});
  CHECK(program.run("pin.toggle") == "a");
  CHECK(program.pins() == "a: L1 H2 t7");
  CHECK(program.title("edit.undo") == "Undo pin a");
  program.pin(0, 1, 12);
  for (const char* text : {"t", "th", "the comma"}) program.run("pin.note", {{"letter", "b"}, {"text", text}});
  CHECK(program.pins() == "a: L1 H2 t7; b: L0 H1 t12 (the comma)");
  CHECK(program.title("edit.undo") == "Undo note");
  program.run("edit.undo");  // typed in one go: one step
  CHECK(program.pins() == "a: L1 H2 t7; b: L0 H1 t12");
  program.run("edit.redo");
  program.run("pin.toggle");
  CHECK(program.pins() == "b: L0 H1 t12 (the comma)");
  CHECK(program.title("edit.undo") == "Undo removal of pin a");
  program.run("run.note", {{"text", "of the run"}});
  const std::string last = to_json(capture_state(program.session, program.ui, program.ui)).dump();
  CHECK(to_json(state_from_json(json::parse(last), "w")).dump() == last);
  int steps = 0;
  for (; program.workspace.undo().can_undo(); ++steps) program.run("edit.undo");
  CHECK((program.pins().empty() && program.note(1).empty()));
  for (; steps > 0; --steps) program.run("edit.redo");
  CHECK(to_json(capture_state(program.session, program.ui, program.ui)).dump() == last);
}

TEST_CASE("One goes from pin to pin by letter, and the ninth pin is refused with what to do") {
  Program program;
  program.put(1, test::random_run(3));
  CHECK_THAT(program.refusal("pin.go", {{"letter", "a"}}), Catch::Contains("not possible now"));
  for (int t = 0; t < 8; ++t) program.pin(1, t % 3, 20 * t);
  const std::string before = program.pins();
  CHECK_THAT(program.refusal("pin.toggle", {{"token", 171}}),
             Catch::Contains("eight pins, a to h") && Catch::Contains("remove one first"));
  CHECK(program.pins() == before);
  const views::Selection& selection = program.session.selection();
  const auto at = [&] { return std::tuple(selection.layer, selection.kv_head, selection.token); };
  program.run("pin.go", {{"letter", "c"}});
  CHECK(at() == std::tuple(1, 2, 40));
  program.run("pin.next");
  CHECK(at() == std::tuple(1, 0, 60));
  program.run("pin.go_h");
  CHECK(at() == std::tuple(1, 1, 140));
  program.run("pin.go");  // round the end
  CHECK(at() == std::tuple(1, 0, 0));
  CHECK_THAT(program.refusal("pin.go", {{"letter", "z"}}), Catch::Contains("a to h"));
  program.put(2, test::random_run(3, {.n_new = 5}));  // the same text, cut short
  CHECK(program.pins().find("t140 after this run's end") != std::string::npos);
  CHECK_THAT(program.refusal("pin.go", {{"letter", "h"}}), Catch::Contains("after this run's end"));
  program.run("pin.clear", {{"letter", "b"}});
  CHECK(program.session.state()["pins"].size() == 7);
  program.run("pin.clear");
  CHECK(program.pins().empty());
  program.put(3, test::random_run(4));  // another text
  program.pin(0, 0, 1);
  program.run("run.show", {{"id", 1}});
  CHECK(program.pins().empty());
}

TEST_CASE("Notes of a trace are beside it, another window has them, and undoing what came before keeps them") {
  const test::TemporaryFolder folder;
  const std::string trace = (folder / "t.h5").string();
  save_trace(trace, test::random_run(3), false);
  {
    Program first(folder.path() / "one");
    first.open(trace);
    CHECK_FALSE(fs::exists(notes_file(trace)));
    first.pin(1, 2, 7);
    first.run("pin.note", {{"letter", "a"}, {"text", "kept by all"}});
    first.run("run.note", {{"text", "of the run"}});
    first.run("run.rename", {{"name", "baseline"}});
    first.save();
  }
  const std::vector<RunNotes> written = read_notes(trace);
  REQUIRE(written.size() == 1);
  CHECK((written[0].name == "baseline" && written[0].note == "of the run" && written[0].pins.size() == 1));
  const std::string bytes = bytes_of(notes_file(trace));

  Program second(folder.path() / "two");
  second.put(7, test::random_run(5));
  second.run("run.max_tokens", {{"n", 77}});
  second.open(trace);
  CHECK(second.pins() == "a: L1 H2 t7 (kept by all)");
  CHECK(second.note(second.session.runs().a()->id) == "of the run");
  CHECK(second.session.runs().a()->name == "baseline");
  while (second.workspace.undo().can_undo()) second.run("edit.undo");  // to before the trace was read
  second.save();
  CHECK(bytes_of(notes_file(trace)) == bytes);
  second.run("run.show", {{"id", second.session.runs().all().back().id}});
  CHECK(second.pins() == "a: L1 H2 t7 (kept by all)");
  second.run("pin.clear");
  second.run("run.note", {{"text", ""}});
  second.run("run.rename", {{"name", ""}});
  second.save();
  CHECK_FALSE(fs::exists(notes_file(trace)));
  second.run("edit.undo");
  second.save();
  CHECK(fs::exists(notes_file(trace)));
}

TEST_CASE("Opening a trace writes nothing, though its text has pins from another run") {
  const test::TemporaryFolder folder;
  const std::string a = (folder / "a.h5").string(), b = (folder / "b.h5").string();
  save_trace(a, test::random_run(3), false);
  save_trace(b, test::random_run(3, {.policy = "streaming:window=60"}), false);
  Program program(folder.path() / "state");
  program.open(a);
  program.pin(1, 2, 7);
  program.save();
  program.open(b);
  CHECK(program.pins() == "a: L1 H2 t7");
  program.run("run.remove");
  program.save();
  program.run("edit.undo");  // nor does one that comes back
  program.save();
  CHECK(fs::exists(notes_file(a)));
  CHECK_FALSE(fs::exists(notes_file(b)));
  const std::string bytes = bytes_of(notes_file(a));
  program.run("session.new");  // takes pins and runs off the window, not notes off the disk
  program.save();
  CHECK(program.pins().empty());
  CHECK(bytes_of(notes_file(a)) == bytes);
  program.run("edit.undo");
  program.run("run.show", {{"id", 2}});
  program.pin(0, 0, 9);
  program.save();
  CHECK(read_notes(b).at(0).pins.size() == 2);
  CHECK(read_notes(a).at(0).pins.size() == 2);
}

TEST_CASE("A notes file that is damaged is one line, and stays as it is whatever is pinned") {
  const test::TemporaryFolder folder;
  const std::string trace = (folder / "t.h5").string();
  save_trace(trace, test::random_run(3), false);
  const std::string damaged = R"({"format": "kvscope-notes", "version": 1, "runs": [{"run": 0)";
  for (const std::string& bytes : {damaged, std::string(R"({"format": "kvscope-notes", "version": 9})")}) {
    std::ofstream(notes_file(trace)) << bytes;
    Program program(folder.path() / ("state of " + std::to_string(bytes.size())));
    program.open(trace);
    REQUIRE(program.session.messages().banners().size() == 1);
    CHECK_THAT(program.banners(), Catch::Contains("t.h5.notes.json") && Catch::Contains("left unchanged"));
    program.pin(1, 2, 7);
    program.save();
    CHECK(program.pins() == "a: L1 H2 t7");
    CHECK(bytes_of(notes_file(trace)) == bytes);
    CHECK(program.session.messages().banners().size() == 1);
    program.run("pin.clear");
    program.save();
    program.workspace.finish();
  }
}

TEST_CASE("Where the notes file cannot be written the notes stay in the workspace, and the next start has them") {
  const test::TemporaryFolder folder;
  // Its own name is as long as names may be, so that the file beside it cannot be made: by root neither.
  const std::string trace = (folder / (std::string(247, 't') + ".h5")).string();
  save_trace(folder / "t.h5", test::random_run(3), false);
  fs::rename(folder / "t.h5", trace);
  {
    Program program(folder / "state");
    program.open(trace);
    CHECK(program.banners().empty());
    program.pin(1, 2, 7);
    program.save();
    CHECK_THAT(program.banners(), Catch::Contains("The notes are saved in the workspace"));
    program.pin(1, 2, 8);
    program.save();
    CHECK(program.session.messages().banners().size() == 1);
    program.workspace.finish();
  }
  Program next(folder / "state");
  CHECK(next.pins() == "a: L1 H2 t7; b: L1 H2 t8");
}

TEST_CASE("Notes of a run of the workspace are there at the next start, and go with the run when it is saved") {
  const test::TemporaryFolder folder;
  const std::string trace = (folder / "mine.h5").string();
  {
    Program first(folder / "state");
    first.put(1, test::random_run(3));
    first.pin(1, 2, 7);
    first.run("run.note", {{"id", 1}, {"text", "mine"}});
    first.run("run.rename", {{"id", 1}, {"name", "one"}});
    first.save();
    first.workspace.finish();
  }
  Program next(folder / "state");
  next.run("run.show", {{"id", 1}});
  CHECK(next.pins() == "a: L1 H2 t7");
  CHECK(next.note(1) == "mine");
  CHECK(next.session.runs().find(1)->name == "one");
  next.run("trace.save", {{"path", trace}});
  next.wait([&] { return !next.session.runs().find(1)->trace_path.empty(); });
  next.save();
  REQUIRE(read_notes(trace).size() == 1);
  CHECK(read_notes(trace)[0].note == "mine");
  CHECK(read_notes(trace)[0].pins.size() == 1);
}

TEST_CASE("kvscope inspect says the notes of a trace's runs, and in one line that they cannot be read") {
  const test::TemporaryFolder folder;
  const std::string trace = (folder / "t.h5").string();
  const RunRecord run = test::random_run(3);
  save_trace(trace, run, false);
  const auto inspect = [&](bool as_json) {
    std::vector<std::string> argv = {test::kvscope().string(), "inspect", trace};
    if (as_json) argv.push_back("--json");
    const auto result = test::run({.argv = argv});
    CHECK(result.exit_code == 0);
    return result.out;
  };
  CHECK(inspect(false).find("notes") == std::string::npos);
  update_notes(trace, {{.run = 0,
                        .ids = ids_hash(run),
                        .name = "baseline",
                        .note = "of the run",
                        .pins = {{.letter = 2, .layer = 1, .kv_head = 2, .token = 7, .note = "kept by all"}}},
                       {.run = 3, .ids = "aa", .name = "", .note = "of a run that is gone", .pins = {}}});
  const json notes = json::parse(inspect(true))["notes"];
  CHECK(notes[0]["name"] == "baseline");
  CHECK(notes[0]["pins"][0]["letter"] == "c");
  CHECK(notes[0]["pins"][0]["note"] == "kept by all");
  CHECK_FALSE(notes[0].contains("of"));
  CHECK(notes[1]["of"] == "not the run that the trace has there");
  const std::string text = inspect(false);
  CHECK_THAT(text, Catch::Contains("run 0, note") && Catch::Contains("of the run"));
  CHECK_THAT(text, Catch::Contains("run 0, pin c") && Catch::Contains("L1 H2, token 7"));
  std::ofstream(notes_file(trace)) << "{";
  CHECK_THAT(json::parse(inspect(true))["notes"].get<std::string>(), Catch::Contains("t.h5.notes.json"));
}

TEST_CASE("In the window P pins and Shift+P notes, and after a clean end and kill -9 all of it is there") {
  if (skip_without_display()) return;
  const Xvfb display;
  const test::TemporaryFolder state;
  const auto ready = [](WindowDriver& window) {
    window.wait({{"/model", {{"not", nullptr}}}, {"/workspace/restoring", false}});
  };
  const std::string trace = (state / "saved.h5").string();
  {
    WindowDriver window(display, {.engine = fake(), .state = state.path()});
    ready(window);
    window.command("prompt.set", {{"text", "one two three four five six seven eight nine ten eleven twelve"}});
    window.command("run.max_tokens", {{"n", 8}});
    window.command("run.start");
    window.wait({{"/running", false}, {"/a/status", "complete"}});
    window.command("selection.set", {{"layer", 1}, {"kv_head", 1}, {"token", 4}});
    window.key("p");
    window.wait({{"/pins/0/letter", "a"}});
    window.frames(3);
    CHECK(window.text("strip.pin.a") == "a");
    CHECK(window.text("timeline.pin.a") == "a");
    CHECK(window.text("deck.pin.a") == "a");
    CHECK(window.text("map.pin.a") == "a");
    CHECK_THAT(window.text("pins.a"), Catch::StartsWith("L1 H1, token 4"));
    window.key("shift+p");
    window.wait({{"/ui/notes", true}});
    window.frames(3);
    window.click("notes.a");
    window.wait({{"/ui/text_input", true}});
    window.type("is it kept");
    window.wait({{"/pins/0/note", "is it kept"}});
    window.click("notes.run");
    window.type("the first");
    window.wait({{"/runs/0/note", "the first"}});
    window.key("Escape");
    window.wait({{"/ui/notes", false}});
    CHECK(window.state()["selection"]["token"] == 4);  // Escape closed the popup, no more
    window.key("Escape");
    window.wait({{"/selection/token", -1}});
    CHECK(window.state()["pins"].size() == 1);  // nor does it take pins away
    window.command("app.quit");
    CHECK(window.exit_code() == 0);
  }
  {
    WindowDriver window(display, {.engine = fake(), .state = state.path()});
    ready(window);
    window.wait({{"/pins/0/note", "is it kept"}, {"/runs/0/note", "the first"}});
    window.command("pin.toggle", {{"layer", 0}, {"kv_head", 0}, {"token", 2}});
    window.wait({{"/pins/1/letter", "b"}, {"/workspace/saved", true}});
    window.kill();
    CHECK(window.exit_code() == -1);
  }
  {
    WindowDriver window(display, {.engine = fake(), .state = state.path()});
    ready(window);
    window.wait({{"/pins/1/token", 2}});
    window.command("trace.save", {{"path", trace}});
    window.wait({{"/runs/0/trace", trace}, {"/workspace/saved", true}});
  }
  CHECK(read_notes(trace).at(0).pins.size() == 2);
  WindowDriver other(display, {.engine = fake(), .words = {trace}});
  other.wait({{"/pins/1/token", 2}, {"/pins/0/note", "is it kept"}, {"/runs/0/note", "the first"}});
  other.frames(3);
  CHECK(other.text("strip.pin.b") == "b");
  other.key("F2");  // a name, written in the run's row
  other.wait({{"/ui/text_input", true}});
  other.type("base line");
  other.wait({{"/runs/0/name", "base line"}, {"/a/label", "A base line"}});
  other.key("Return");
  other.wait({{"/ui/text_input", false}, {"/workspace/saved", true}});
  other.frames(3);
  CHECK_THAT(other.text("run.1.name"), Catch::StartsWith("base line: "));
  CHECK(read_notes(trace).at(0).name == "base line");
}

WINDOW_TEST("Tab and Shift+Tab step through pins and notes, Enter presses what has the keys, and no tab is written") {
  window.wait({{"/model", {{"not", nullptr}}}, {"/workspace/restoring", false}});
  window.command("run.start");
  window.wait({{"/running", false}, {"/a/status", "complete"}});
  window.command("pin.toggle", {{"layer", 1}, {"kv_head", 1}, {"token", 4}});
  window.wait({{"/pins/0/letter", "a"}});
  window.key("shift+p");
  window.wait({{"/ui/notes", true}, {"/ui/text_input", true}});
  window.frames(4);
  const auto is_framed = [&](const std::string& item) {
    window.frames(4);
    const auto button = window.rect(item), framed = window.state()["ui"]["keyboard_frame"].get<std::vector<double>>();
    return std::abs(framed[0] - button[0]) < 3 && std::abs(framed[1] - button[1]) < 3;
  };
  window.type("run");
  window.key("Tab");
  CHECK(is_framed("notes.go.a"));
  window.key("Tab");
  window.frames(3);
  window.key("Tab");
  window.wait({{"/ui/text_input", true}});
  window.frames(3);
  window.type("pin");
  window.wait({{"/runs/0/note", "run"}, {"/pins/0/note", "pin"}});
  window.key("shift+Tab");
  CHECK(is_framed("notes.remove.a"));
  window.key("Return");
  window.wait({{"/pins", json::array()}});
  window.frames(3);
  window.key("space");
  window.key("Tab");
  CHECK(window.state()["runs"][0]["note"] == "run");
  window.key("Escape");
  window.wait({{"/ui/notes", false}});
}
