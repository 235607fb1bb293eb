// Every command of the table of keys is reached on keyboards of four layouts. Keys are pressed by their codes, as hands do.

#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "tests/app/window_driver.h"
#include "tests/support/skip.h"

using namespace kvscope;
using test::fake;
using test::WindowDriver;
using test::Xvfb;

namespace {

constexpr int kCtrl = 37, kShift = 50, kAlt = 64, kAltGr = 108;  // X's codes
using Codes = std::vector<int>;

// Written from what is printed on such keyboards. Letters by the code of Q's, A's and Z's row.
struct Layout {
  const char* name;
  const char* rows[3];                 // from the codes 24, 38 and 52 on
  std::map<std::string, Codes> marks;  // as the table of keys has them
};

const Layout kLayouts[] = {{"us",
                            {"qwertyuiop", "asdfghjkl", "zxcvbnm"},
                            {{"/", {61}},
                             {"Shift+/", {kShift, 61}},
                             {".", {60}},
                             {",", {59}},
                             {"Shift+.", {kShift, 60}},
                             {"Shift+,", {kShift, 59}},
                             {"[", {34}},
                             {"]", {35}},
                             {"Shift+[", {kShift, 34}},
                             {"Shift+]", {kShift, 35}},
                             {"=", {21}},
                             {"+", {kShift, 21}},
                             {"-", {20}},
                             {"1", {10}},
                             {"2", {11}},
                             {"3", {12}},
                             {"4", {13}},
                             {"Ctrl+0", {kCtrl, 19}},
                             {"Ctrl+=", {kCtrl, 21}},
                             {"Ctrl++", {kCtrl, kShift, 21}},
                             {"Ctrl+-", {kCtrl, 20}},
                             {"Ctrl+.", {kCtrl, 60}},
                             {"Alt+.", {kAlt, 60}},
                             {"Alt+,", {kAlt, 59}}}},
                           {"de",
                            {"qwertzuiop", "asdfghjkl", "yxcvbnm"},
                            {{"/", {kShift, 16}},
                             {"Shift+/", {kShift, 20}},
                             {".", {60}},
                             {",", {59}},
                             {"Shift+.", {kShift, 60}},
                             {"Shift+,", {kShift, 59}},
                             {"[", {kAltGr, 17}},
                             {"]", {kAltGr, 18}},
                             {"Shift+[", {kAltGr, 16}},
                             {"Shift+]", {kAltGr, 19}},
                             {"=", {kShift, 19}},
                             {"+", {35}},
                             {"-", {61}},
                             {"1", {10}},
                             {"2", {11}},
                             {"3", {12}},
                             {"4", {13}},
                             {"Ctrl+0", {kCtrl, 19}},
                             {"Ctrl+=", {kCtrl, kShift, 19}},
                             {"Ctrl++", {kCtrl, 35}},
                             {"Ctrl+-", {kCtrl, 61}},
                             {"Ctrl+.", {kCtrl, 60}},
                             {"Alt+.", {kAlt, 60}},
                             {"Alt+,", {kAlt, 59}}}},
                           {"fr",
                            {"azertyuiop", "qsdfghjklm", "wxcvbn"},
                            {{"/", {kShift, 60}},
                             {"Shift+/", {kShift, 58}},
                             {".", {kShift, 59}},
                             {",", {58}},
                             {"Shift+.", {kShift, 94}},
                             {"Shift+,", {94}},
                             {"[", {kAltGr, 14}},
                             {"]", {kAltGr, 20}},
                             {"Shift+[", {kAltGr, 13}},
                             {"Shift+]", {kAltGr, 21}},
                             {"=", {21}},
                             {"+", {kShift, 21}},
                             {"-", {15}},
                             {"1", {kShift, 10}},
                             {"2", {kShift, 11}},
                             {"3", {kShift, 12}},
                             {"4", {kShift, 13}},
                             {"Ctrl+0", {kCtrl, 19}},
                             {"Ctrl+=", {kCtrl, 21}},
                             {"Ctrl++", {kCtrl, kShift, 21}},
                             {"Ctrl+-", {kCtrl, 15}},
                             {"Ctrl+.", {kCtrl, kShift, 59}},
                             {"Alt+.", {kAlt, kShift, 59}},
                             {"Alt+,", {kAlt, 58}}}},
                           // Of < > [ ] { } it has none: they are where an American keyboard has them.
                           {"ru",
                            {"qwertyuiop", "asdfghjkl", "zxcvbnm"},
                            {{"/", {kShift, 51}},
                             {"Shift+/", {kShift, 16}},
                             {".", {61}},
                             {",", {kShift, 61}},
                             {"Shift+.", {kShift, 60}},
                             {"Shift+,", {kShift, 59}},
                             {"[", {34}},
                             {"]", {35}},
                             {"Shift+[", {kShift, 34}},
                             {"Shift+]", {kShift, 35}},
                             {"=", {21}},
                             {"+", {kShift, 21}},
                             {"-", {20}},
                             {"1", {10}},
                             {"2", {11}},
                             {"3", {12}},
                             {"4", {13}},
                             {"Ctrl+0", {kCtrl, 19}},
                             {"Ctrl+=", {kCtrl, 21}},
                             {"Ctrl++", {kCtrl, kShift, 21}},
                             {"Ctrl+-", {kCtrl, 20}},
                             {"Ctrl+.", {kCtrl, 61}},
                             {"Alt+.", {kAlt, 61}},
                             {"Alt+,", {kAlt, kShift, 61}}}}};

const std::map<std::string, int> kNamed = {{"enter", 36},  {"tab", 23}, {"space", 65}, {"left", 113},
                                           {"right", 114}, {"up", 111}, {"down", 116}, {"home", 110},
                                           {"end", 115},   {"f10", 76}, {"f11", 95},   {"f12", 96}};

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// F-keys, arrows and the like: the same on all keyboards, and pressed on one of them.
bool is_named(const std::string& word) {
  const std::string key = lower(word.substr(word.rfind('+') + 1));
  return kNamed.contains(key) || (key.size() == 2 && key[0] == 'f');
}

/// How `word` is pressed there; nothing for a second spelling, "Shift+=" of "+" or "Shift++".
std::optional<Codes> codes_of(const Layout& layout, std::string word) {
  if (const auto mark = layout.marks.find(word); mark != layout.marks.end()) return mark->second;
  Codes codes;
  for (const auto& [name, code] : {std::pair("Ctrl+", kCtrl), {"Shift+", kShift}, {"Alt+", kAlt}}) {
    if (word.starts_with(name)) codes.push_back(code), word.erase(0, std::string(name).size());
  }
  const std::string key = lower(word);
  if (const auto named = kNamed.find(key); named != kNamed.end()) return codes.push_back(named->second), codes;
  if (key.size() == 2 && key[0] == 'f') return codes.push_back(66 + key[1] - '0'), codes;
  for (const auto& [row, first] : {std::pair(0, 24), {1, 38}, {2, 52}}) {
    const auto at = std::string(layout.rows[row]).find(key);
    if (key.size() == 1 && at != std::string::npos) return codes.push_back(first + static_cast<int>(at)), codes;
  }
  return std::nullopt;
}

bool skip_without_layouts() {
  if (test::skip_without_display()) return true;
  if (std::filesystem::exists("/usr/bin/setxkbmap")) return false;
  test::skip("setxkbmap is not installed");
  return true;
}

/// While the window runs: who switches layouts does that.
void use_layout(const Xvfb& display, const std::string& name) {
  REQUIRE(test::run({.argv = {"/usr/bin/setxkbmap", "-display", display.display(), name}}).exit_code == 0);
}

void press(WindowDriver& window, const Codes& codes) {
  std::vector<std::string> words;
  for (auto code = codes.begin(); code != codes.end(); ++code)
    words.insert(words.end(), {"keydown", std::to_string(*code)});
  for (auto code = codes.rbegin(); code != codes.rend(); ++code)
    words.insert(words.end(), {"keyup", std::to_string(*code)});
  window.inputs(words);
}

/// The command that a press is for.
std::string command_of(WindowDriver& window, const Codes& codes) {
  const int before = window.state()["key"]["presses"];
  press(window, codes);
  window.wait({{"/key/presses", {{"at_least", before + 1}}}}, 5);
  const nlohmann::json state = window.state();
  CHECK(state["key"]["presses"] == before + 1);  // not twice, as key and as character
  return state["key"]["command"];
}

/// Nothing open, nothing typed in, the arrows the views'.
void calm(WindowDriver& window) {
  for (int i = 0; i < 4; ++i) {
    const nlohmann::json ui = window.state()["ui"];
    const bool open = ui["palette"] == true || ui["help"] == true || ui["notes"] == true || ui["layouts"] == true ||
                      ui["text_input"] == true || !ui["dialog"].is_null() || !ui["keyboard"].is_null();
    if (!open) return;
    window.inputs({"key", "Escape"});
    window.frames(3);
  }
}

/// What opens a field or list that state() does not name is open for a few frames first.
const std::set<std::string> kOpening = {"find.next", "find.prev",  "prompt.focus", "find.open",
                                        "go.to",     "run.rename", "models.show",  "file.open"};

void reach_all(const Layout& layout) {
  const Xvfb display(900, 700);
  WindowDriver window(display, {.engine = fake(), .words = {"--size", "900x700"}});
  test::decode_short(window);
  use_layout(display, layout.name);
  const nlohmann::json commands = window.request({{"query", "commands"}})["commands"];
  int reached = 0;
  for (const auto& command : commands) {
    std::istringstream words(command["shortcut"].get<std::string>());
    const std::string id = command["id"];
    bool any = words.str().empty() || id == "app.quit";
    for (std::string word; words >> word && id != "app.quit";) {
      const auto codes = codes_of(layout, word);
      if (!codes) continue;
      any = true;
      if (is_named(word) && &layout != kLayouts) continue;
      CAPTURE(layout.name, word, *codes);
      CHECK(command_of(window, *codes) == id);
      ++reached;
      if (kOpening.contains(id)) window.frames(4), window.inputs({"key", "Escape"}), window.frames(2);
      calm(window);
    }
    CAPTURE(layout.name, id);
    CHECK(any);
  }
  CHECK(reached > 50);
  window.inputs({"keydown", "37", "key", std::to_string(codes_of(layout, "Q")->back())});
  CHECK(window.exit_code() == 0);
}

}  // namespace

TEST_CASE("On an American keyboard every command of the table of keys is reached") {
  if (skip_without_layouts()) return;
  reach_all(kLayouts[0]);
}

TEST_CASE("On a German keyboard every command of the table of keys is reached") {
  if (skip_without_layouts()) return;
  reach_all(kLayouts[1]);
}

TEST_CASE("On a French keyboard every command of the table of keys is reached") {
  if (skip_without_layouts()) return;
  reach_all(kLayouts[2]);
}

TEST_CASE("On a Russian keyboard every command of the table of keys is reached") {
  if (skip_without_layouts()) return;
  reach_all(kLayouts[3]);
}

TEST_CASE("On every keyboard the prompt hears Ctrl with its letters, marks as text, and no shortcut of them") {
  if (skip_without_layouts()) return;
  const Xvfb display(900, 700);
  WindowDriver window(display, {.engine = fake(), .words = {"--size", "900x700"}});
  for (const Layout& layout : kLayouts) {
    CAPTURE(layout.name);
    use_layout(display, layout.name);
    window.command("prompt.set", {{"text", "ab"}});
    press(window, *codes_of(layout, "Ctrl+P"));
    window.frames(4);
    for (const char* word : {"Ctrl+A", "Ctrl+X", "Ctrl+V", "Ctrl+V", "/", "Shift+/", "1", "."}) {
      press(window, *codes_of(layout, word));
      window.frames(2);
    }
    window.wait({{"/parameters/prompt", "abab/?1."}}, 5);
    press(window, *codes_of(layout, "Ctrl+Z"));
    window.wait({{"/parameters/prompt", {{"not", "abab/?1."}}}}, 5);
    CHECK(window.state()["ui"]["help"] == false);
    window.inputs({"key", "Escape"});
    window.frames(3);
  }
}

TEST_CASE("Marks typed as fast as a machine types are all heard, and each of them once") {
  if (skip_without_layouts()) return;
  const Xvfb display(900, 700);
  WindowDriver window(display, {.engine = fake(), .words = {"--size", "900x700"}});
  test::decode_short(window);
  for (const Layout& layout : kLayouts) {
    CAPTURE(layout.name);
    use_layout(display, layout.name);
    window.command("scrub.home");
    Codes dot = layout.marks.at(".");
    std::vector<std::string> words;
    const std::string key = std::to_string(dot.back());
    if (dot.size() > 1) words = {"keydown", std::to_string(dot[0])};
    for (int i = 0; i < 4; ++i) words.insert(words.end(), {"keydown", key, "keyup", key});
    if (dot.size() > 1) words.insert(words.end(), {"keyup", std::to_string(dot[0])});
    const int before = window.state()["key"]["presses"];
    window.inputs(words);
    window.wait({{"/key/presses", {{"at_least", before + 4}}}}, 5);
    CHECK(window.state()["selection"]["q"] == 4);
    // The search that a mark opens gets what is typed after it, and not the mark.
    words.clear();
    for (const char* word : {"/", "T", "O"}) {
      const Codes codes = *codes_of(layout, word);
      for (const int code : codes) words.insert(words.end(), {"keydown", std::to_string(code)});
      for (const int code : codes) words.insert(words.end(), {"keyup", std::to_string(code)});
    }
    window.inputs(words);
    window.frames(8);
    CHECK(window.state()["ui"]["text_input"] == true);
    CHECK(window.text("find.input") == (layout.name == std::string("ru") ? "ещ" : "to"));
    window.inputs({"key", "Escape"});
    window.frames(3);
    window.inputs({"key", "Escape"});
    window.frames(3);
  }
}

TEST_CASE("The menu's entry and the list of keys show what the keyboard needs, also after another layout was chosen") {
  if (skip_without_layouts()) return;
  const Xvfb display(900, 700);
  WindowDriver window(display, {.engine = fake(), .words = {"--size", "900x700"}});
  const auto keys_of = [&](const std::string& id) {
    window.frames(2);
    const nlohmann::json answer = window.request({{"query", "commands"}});
    for (const auto& command : answer["commands"])
      if (command["id"] == id) return command["keys"].get<std::string>();
    return std::string("no such command");
  };
  CHECK(keys_of("find.open") == "/ Ctrl+F");
  use_layout(display, "de");
  CHECK(keys_of("find.open") == "Shift+7 Ctrl+F");
  CHECK(keys_of("help.keys") == "Shift+ß F1");
  CHECK(keys_of("selection.layer_next") == "AltGr+9");
  use_layout(display, "fr");
  CHECK(keys_of("find.open") == "Shift+: Ctrl+F");
  CHECK(keys_of("view.normal_size") == "Ctrl+0");
  use_layout(display, "ru");
  CHECK(keys_of("help.keys") == "Shift+7 F1");
  CHECK(keys_of("selection.layer_prev") == "х");
  CHECK(keys_of("palette.open") == "Ctrl+K Ctrl+Shift+P");
}
