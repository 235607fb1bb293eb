// The real window: driven by command ids, mouse and keys; judged by its state and by the files it writes.

#include <signal.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <thread>

#include "tests/app/window_driver.h"
#include "tests/support/skip.h"

using namespace kvscope;
using nlohmann::json;
using test::fake;
using test::skip_without_display;
using test::WindowDriver;
using test::Xvfb;

namespace {

std::string long_prompt() {
  std::string text;
  for (int i = 0; i < 240; ++i) text += " word" + std::to_string(i % 13) + (i % 7 == 0 ? " 42" : "");
  return text;
}

bool has_magic(const std::filesystem::path& path, const std::string& magic) {
  return test::read_text(path).starts_with(magic);
}

void load_and_run(WindowDriver& window, int max_tokens = 16) {
  window.wait({{"/model", {{"not", nullptr}}}});
  window.command("prompt.set", {{"text", long_prompt()}});
  window.command("policy.set", {{"policy", "kvpop:keep=40%"}});
  window.command("run.max_tokens", {{"n", max_tokens}});
  window.command("run.start");
}

bool gone(pid_t pid) {
  for (int i = 0; i < 1000; ++i) {
    if (::kill(pid, 0) != 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

// The whole way of a person, whatever the engine: by ids where a person would type a path, by mouse and keys elsewhere.
void whole_way(WindowDriver& window) {
  // Opens on the sample model with a prompt ready.
  window.wait({{"/model", "kvscope-tiny"}, {"/engine", "ready"}});
  // The tokenizer is read beside the engine, and may come after it.
  const auto counted = [&] { return window.state()["parameters"]["prompt_tokens"].get<int>(); };
  for (int i = 0; i < 1000 && counted() < 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(counted() > 300);

  // Type into the prompt, and run by clicking.
  // A field of ImGui 1.86 samples keys and buttons once a frame: on a busy machine one may fall between two and be lost.
  const auto until_text_input = [&](bool wanted, auto act) {
    for (int i = 0; i < 20 && window.state()["ui"]["text_input"].get<bool>() != wanted; ++i) act();
    CHECK(window.state()["ui"]["text_input"].get<bool>() == wanted);
  };
  until_text_input(true, [&] { window.click("prompt.text"); });
  window.key("ctrl+Home");
  window.type("Hello. ");
  CHECK(window.state()["parameters"]["prompt"].get<std::string>().starts_with("Hello. "));
  until_text_input(false, [&] { window.key("Escape"); });
  CHECK(window.state()["parameters"]["prompt"].get<std::string>().starts_with("Hello. "));
  window.command("policy.set", {{"policy", "kvpop:keep=40%"}});
  window.command("run.max_tokens", {{"n", 12}});
  window.click("button.run.start");
  window.wait({{"/a/n_tokens", {{"at_least", 300}}}});
  window.wait({{"/running", false}, {"/a/status", "complete"}});
  const json a = window.state()["a"];
  CHECK(a["n_tokens"].get<int>() >= a["prompt_len"].get<int>() + 1);
  CHECK(a["oracle_horizon"] == a["n_tokens"]);

  // Scrub: keys, then the deck by mouse, then back to the live edge.
  window.key("Home");
  CHECK(window.state()["selection"]["q"] == 0);
  window.key("period");
  window.key("period");
  CHECK(window.state()["selection"]["q"] == 2);
  window.drag("timeline.scrub", 0.2, 0.6);
  const int q = window.state()["selection"]["q"];
  CHECK(q > 0.5 * a["n_tokens"].get<int>());
  CHECK(q < 0.7 * a["n_tokens"].get<int>());
  CHECK(window.state()["selection"]["follow"] == false);
  window.key("End");
  CHECK(window.state()["selection"]["follow"] == true);

  // The menu holds the same commands.
  window.click("button.menu");
  window.click("menu.Time");
  window.click("menu.scrub.home");
  CHECK(window.state()["selection"]["q"] == 0);
  window.key("End");

  // Layer and head by key and by clicking a cell of the map.
  window.key("bracketright");
  CHECK(window.state()["selection"]["layer"] == 1);
  window.click("map.cell.3.2");
  CHECK(window.state()["selection"]["layer"] == 3);
  CHECK(window.state()["selection"]["kv_head"] == 2);

  // Change the budget with the slider: a preview, which decoding again measures.
  window.drag("policy.budget", 0.38, 0.30);
  window.wait({{"/preview/shown", true}, {"/b/preview", true}});
  CHECK(window.state()["b"]["policy"] != a["policy"]);
  window.click("button.run.decode_again");
  window.wait({{"/running", false}, {"/b/preview", false}, {"/b/status", "complete"}});
  CHECK(window.state()["runs"].size() == 2);
  CHECK(window.state()["a"]["id"] == a["id"]);

  // Compare: swap by key, and put B away and back with its button.
  window.key("x");
  CHECK(window.state()["b"]["id"] == a["id"]);
  window.key("x");
  const std::string b_button = "run." + std::to_string(window.state()["b"]["id"].get<int>()) + ".b";
  window.click(b_button);
  CHECK(window.state()["b"] == nullptr);
  window.click(b_button);
  CHECK(window.state()["b"] != nullptr);

  // Export a figure, heads and a trace.
  window.command("figure.export", {{"path", "map.pdf"}, {"view", "layer_head_map"}});
  window.command("figure.export", {{"path", "strip.svg"}, {"view", "token_strip"}});
  window.command("heads.export", {{"path", "heads"}, {"strategy", "c"}, {"count", 6}});
  window.command("trace.save", {{"path", "a.h5"}});
  window.wait({{"/files_busy", false}});
  CHECK(window.state()["banners"].empty());
  CHECK(has_magic(window.folder() / "map.pdf", "%PDF-"));
  CHECK(std::filesystem::exists(window.folder() / "map.figure.csv"));
  CHECK(test::read_text(window.folder() / "strip.svg").find("<svg") != std::string::npos);
  CHECK(std::filesystem::exists(window.folder() / "heads" / "full_attention_heads.tsv"));
  CHECK(has_magic(window.folder() / "a.h5", "\x89HDF"));
  const auto inspected = test::kvscope_run({"inspect", (window.folder() / "a.h5").string(), "--json"});
  CHECK(inspected.exit_code == 0);

  window.command("app.screenshot", {{"path", "window.png"}});
  CHECK(has_magic(window.folder() / "window.png", "\x89PNG"));
  const char* keep = std::getenv("KVSCOPE_KEEP_SCREENSHOT");
  if (keep)
    std::filesystem::copy_file(window.folder() / "window.png", keep, std::filesystem::copy_options::overwrite_existing);

  window.key("ctrl+q", true);
  CHECK(window.exit_code() == 0);
}

}  // namespace

TEST_CASE("A person goes the whole way in the window, on the fake engine") {
  if (skip_without_display()) return;
  const Xvfb display;
  WindowDriver window(display, {.engine = fake("--slow 5")});
  whole_way(window);
}

TEST_CASE("A person goes the whole way in the window, on the real engine and the sample model") {
  if (skip_without_display()) return;
  if (test::real_engine().empty() || !std::filesystem::exists(test::sample_model() / "model.safetensors")) {
    return test::skip("kvscope-engine or the sample model is not built");
  }
  const Xvfb display;
  WindowDriver window(display, {.words = {"--device", "cpu"}});
  whole_way(window);
}

TEST_CASE(
    "When the engine is killed in mid-decode the window keeps what it showed and offers a restart that goes on with it") {
  if (skip_without_display()) return;
  const Xvfb display;
  WindowDriver window(display, {.engine = fake("--slow 30")});
  load_and_run(window, 200);
  window.wait({{"/a/n_tokens", {{"at_least", 320}}}});
  const json before = window.state();
  ::kill(before["engine_pid"].get<pid_t>(), SIGKILL);
  window.wait({{"/engine", "dead"}, {"/a/status", "failed"}, {"/banners/0/command", "run.resume"}});
  CHECK(window.state()["a"]["n_tokens"] >= before["a"]["n_tokens"]);
  window.click("banner.0.button");  // it goes on to its end by itself
  window.wait({{"/running", false}, {"/a/status", "complete"}, {"/engine", "ready"}, {"/banners", json::array()}});
  CHECK(window.state()["a"]["n_tokens"] == before["a"]["n_positions"]);
  CHECK(window.state()["runs"].size() == 2);
}

TEST_CASE("The window draws and answers while the engine hangs, and quits in time without leaving it behind") {
  if (skip_without_display()) return;
  const Xvfb display;
  WindowDriver window(display, {.engine = fake("--hang")});
  window.wait({{"/engine", "loading"}});
  const auto pid = window.state()["engine_pid"].get<pid_t>();
  const auto start = std::chrono::steady_clock::now();
  window.command("palette.open");
  window.wait({{"/ui/palette", true}});
  window.command("palette.open");
  // A frame under llvmpipe on a busy machine takes a tenth of a second; a blocked window would take for ever.
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
  window.command("app.quit");
  CHECK(window.exit_code() == 0);
  CHECK(gone(pid));
}

WINDOW_TEST("The palette finds a command by its words and runs it with the keyboard alone, and no tap is lost") {
  load_and_run(window);
  window.wait({{"/running", false}, {"/a/status", "complete"}});
  window.key("ctrl+k");
  window.wait({{"/ui/palette", true}, {"/ui/text_input", true}});
  window.type("next kv");
  window.key("Return");
  window.wait({{"/ui/palette", false}});
  CHECK(window.state()["selection"]["kv_head"] == 1);
  window.key("Home");
  for (int i = 0; i < 4; ++i) window.key("period period period period period");
  CHECK(window.state()["selection"]["q"].get<int>() % 5 == 0);
  CHECK(window.state()["selection"]["q"] == 20);
}

WINDOW_TEST("A path is asked for where none is given, and typed into the field") {
  load_and_run(window);
  window.wait({{"/running", false}, {"/a/status", "complete"}});
  window.key("ctrl+s");
  window.wait({{"/ui/dialog", "trace.save"}, {"/ui/text_input", true}});
  window.key("ctrl+a");
  window.type("typed.h5");
  window.click("dialog.ok");
  window.wait({{"/ui/dialog", nullptr}, {"/files_busy", false}});
  CHECK(has_magic(window.folder() / "typed.h5", "\x89HDF"));
  window.command("trace.open", {{"path", "typed.h5"}});
  window.wait({{"/notice", {{"contains", "already open"}}}, {"/files_busy", false}});
  CHECK(window.state()["runs"].size() == 1);
}

TEST_CASE("A trace opens without any engine") {
  if (skip_without_display()) return;
  const Xvfb display;
  const test::TemporaryFolder folder;
  const auto trace = folder / "t.h5";
  const auto made = test::kvscope_run({"run", test::sample_model().string(), "--prompt", long_prompt(), "--policy",
                                       "kvpop:keep=40%", "--max-tokens", "4", "--engine", test::fake_engine().string(),
                                       "--trace", trace.string(), "--quiet"});
  REQUIRE(made.exit_code == 0);
  WindowDriver window(display, {.engine = "echo no engine here >&2; exit 3", .words = {trace.string()}});
  window.wait({{"/a/status", "complete"}, {"/engine", "dead"}});
  CHECK(window.state()["banners"][0]["text"].get<std::string>().find("no engine here") != std::string::npos);
  window.command("policy.set", {{"policy", "kvpop:keep=35%"}});
  window.wait({{"/preview/shown", true}});
}

TEST_CASE("A script runs commands in order and writes a picture, without a hand on it") {
  if (skip_without_display()) return;
  const Xvfb display;
  const test::TemporaryFolder folder;
  std::ofstream(folder / "s.json") << R"([
    {"query": "wait", "until": {"/model": {"not": null}}},
    {"command": "prompt.set", "args": {"text": "one two three four five"}},
    {"command": "policy.set", "args": {"policy": "full"}},
    {"command": "run.max_tokens", "args": {"n": 4}},
    {"command": "run.start"},
    {"query": "wait", "until": {"/running": false, "/a/status": "complete"}},
    {"command": "app.screenshot", "args": {"path": "one.png"}}
  ])";
  const auto launch = [&](const std::string& script) {
    return test::run({.argv = {test::kvscope().string(), "--engine", fake(), "--script", script, "--size", "900x700",
                               "--screenshot", "two.png", "--exit"},
                      .environment = {{"DISPLAY", display.display()},
                                      {"WAYLAND_DISPLAY", ""},
                                      {"LIBGL_ALWAYS_SOFTWARE", "1"},
                                      {"XDG_STATE_HOME", folder.path().string()}},
                      .folder = folder.path()});
  };
  const auto result = launch("s.json");
  INFO(result.err);
  CHECK(result.exit_code == 0);
  CHECK(has_magic(folder / "one.png", "\x89PNG"));
  const std::string png = test::read_text(folder / "two.png");
  REQUIRE(png.size() > 24);
  const auto big_endian = [&](std::size_t at) {
    return (static_cast<unsigned char>(png[at + 2]) << 8) | static_cast<unsigned char>(png[at + 3]);
  };
  CHECK(big_endian(16) == 900);
  CHECK(big_endian(20) == 700);

  std::ofstream(folder / "bad.json") << R"([{"command": "run.strat"}])";
  const auto failed = launch("bad.json");
  CHECK(failed.exit_code == 2);
  CHECK(failed.err.find("step 1") != std::string::npos);
}

WINDOW_TEST("A picture waits until the views have computed what they show") {
  load_and_run(window);
  window.wait({{"/running", false}, {"/a/status", "complete"}});
  window.command("app.screenshot", {{"path", "one.png"}});  // the answer comes when it is saved
  CHECK_FALSE(window.text("inspector.run recall").empty());
  CHECK(has_magic(window.folder() / "one.png", "\x89PNG"));
}

WINDOW_TEST("An idle window costs next to nothing") {
  load_and_run(window);
  window.wait({{"/running", false}, {"/a/status", "complete"}});
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const int before = window.state()["frame"];
  std::this_thread::sleep_for(std::chrono::seconds(3));
  const int after = window.state()["frame"];
  // Each question wakes it for a few frames; a window that draws all the time would have drawn 180.
  CHECK(after - before <= 20);
}
