// A field as it is drawn: typed into, changed from outside, too long to edit.

#include "views/widgets/text_field.h"

#include <imgui_internal.h>

#include <catch2/catch.hpp>
#include <chrono>

#include "engine/core/support/utf8.h"
#include "tests/views/view_support.h"
#include "views/widgets/imgui_compat.h"

using namespace kvscope;
using namespace kvscope::test;
using namespace kvscope::views;

namespace {

/// A field of 300 pixels in a window, with a hand that types.
struct Desk {
  explicit Desk(TextField::Lines lines = TextField::Lines::many) : field(window.services, lines) {
    ImGui::GetIO().ConfigInputTrickleEventQueue = true;
  }
  bool draw(int frames = 1) {
    bool changed = false;
    for (int i = 0; i < frames; ++i) {
      window.frame([&] { changed |= field.draw(look); });
      if (field.focused()) look.focus = false;
    }
    return changed;
  }
  bool type(const std::string& utf8) {
    ImGui::GetIO().AddInputCharactersUTF8(utf8.c_str());
    return draw(2);
  }
  void tap(ImGuiKey key, ImGuiKey modifier = ImGuiKey_None) {
    ImGuiIO& io = ImGui::GetIO();
    if (modifier != ImGuiKey_None) io.AddKeyEvent(modifier, true);
    io.AddKeyEvent(key, true), draw();
    io.AddKeyEvent(key, false);
    if (modifier != ImGuiKey_None) io.AddKeyEvent(modifier, false);
    draw();
  }
  void focus() {
    look.focus = true;
    draw(4);
    REQUIRE(field.focused());
  }
  std::string seen() { return window.written_in("text"); }

  HeadlessWindow window;
  TextField field;
  TextFieldLook look{.item = "text", .size = {300, 200}};
};

const std::string kText = "The cache keeps what later tokens attend to, and a policy decides what else may go from it.";

}  // namespace

TEST_CASE("A text wraps in its field, and its height is that of its lines") {
  Desk desk;
  desk.field.set_text(kText);
  desk.draw(2);
  CHECK(desk.seen().starts_with("Thecachekeepswhat"));
  float one = 0, all = 0;
  desk.window.frame([&] {
    all = desk.field.height_of(300);
    one = ImGui::GetFontSize();
  });
  CHECK(all > 3 * one);
  CHECK(all < 6 * one);
  desk.field.set_text("");
  desk.window.frame([&] { CHECK(desk.field.height_of(300) < 2 * one); });
}

TEST_CASE("What is typed is in the text, and bytes that are not UTF-8 stay as they were") {
  Desk desk;
  const std::string invalid = "a\xff\xc3 b\r\n";
  desk.field.set_text(invalid);
  desk.focus();
  CHECK_FALSE(desk.draw(2));
  CHECK(desk.field.text() == invalid);
  desk.tap(ImGuiKey_End, ImGuiMod_Ctrl);
  CHECK(desk.type("é\u05d0\U0001F600"));
  CHECK(desk.field.text() == invalid + "é\u05d0\U0001F600");
  desk.tap(ImGuiKey_Backspace);
  CHECK(desk.field.text() == invalid + "é\u05d0");
}

TEST_CASE("A text that is changed from outside while it has the keyboard is the new one, and typing goes on in it") {
  Desk desk;
  desk.focus();
  desk.type("old");
  CHECK(desk.field.text() == "old");
  desk.field.set_text("newer text");
  desk.draw(2);
  CHECK(desk.seen() == "newertext");
  desk.tap(ImGuiKey_End, ImGuiMod_Ctrl);
  desk.type("!");
  CHECK(desk.field.text() == "newer text!");
  desk.field.set_text("");
  CHECK_FALSE(desk.draw(2));
  CHECK(desk.field.text().empty());
}

TEST_CASE("A field that lost the keyboard draws a shorter text in a new width") {
  Desk desk;
  desk.look.read_only = GENERATE(false, true);
  desk.field.set_text(kText + "\n" + kText);
  desk.focus();
  desk.tap(ImGuiKey_End, ImGuiMod_Ctrl);
  desk.tap(ImGuiKey_Escape);
  REQUIRE_FALSE(desk.field.focused());
  desk.field.set_text("short");
  desk.look.size.x = 200;
  desk.draw();
  const ImGuiInputTextState& state = ImGui::GetCurrentContext()->InputTextState;
  CHECK(state.TextLen == 5);
  CHECK(state.GetCursorPos() <= 5);
  CHECK(desk.seen() == "short");
}

TEST_CASE("Escape leaves a field with what was typed, and what is typed then is not for it") {
  Desk desk(GENERATE(TextField::Lines::one, TextField::Lines::many));
  desk.focus();
  desk.type("a");
  CHECK(ImGui::GetIO().WantTextInput);
  desk.tap(ImGuiKey_Escape);
  desk.draw(2);
  CHECK_FALSE(desk.field.focused());
  CHECK_FALSE(ImGui::GetIO().WantTextInput);
  desk.type("b");
  CHECK(desk.field.text() == "a");
}

TEST_CASE("A field of one line takes no line ends, and Enter leaves it") {
  Desk desk(TextField::Lines::one);
  desk.look.size = {120, 0};
  desk.focus();
  desk.type("a b");
  desk.tap(ImGuiKey_Enter);
  desk.draw(2);
  CHECK_FALSE(desk.field.focused());
  CHECK(desk.field.text() == "a b");
}

TEST_CASE("A text to read is selected and copied, not changed, and takes no typing") {
  Desk desk;
  static std::string held;
  ImGui::GetPlatformIO().Platform_SetClipboardTextFn = [](ImGuiContext*, const char* text) { held = text; };
  ImGui::GetPlatformIO().Platform_GetClipboardTextFn = [](ImGuiContext*) { return held.c_str(); };
  desk.look.read_only = true;
  desk.field.set_text("keep");
  desk.focus();
  CHECK_FALSE(ImGui::GetIO().WantTextInput);  // shortcuts go on to the window
  CHECK_FALSE(desk.type("x"));
  desk.tap(ImGuiKey_A, ImGuiMod_Ctrl);
  desk.tap(ImGuiKey_X, ImGuiMod_Ctrl);
  CHECK(held.empty());
  desk.tap(ImGuiKey_C, ImGuiMod_Ctrl);
  CHECK(held == "keep");
  CHECK(desk.field.text() == "keep");
}

TEST_CASE("A text of 16 MiB is shown by its beginning at full frame rate, is not edited, and can be cleared") {
  Desk desk;
  std::string text;
  while (text.size() < 16u << 20) text += "words without an end é ";
  desk.field.set_text(text);
  desk.draw(3);
  const auto begin = std::chrono::steady_clock::now();
  desk.draw(30);
  const std::chrono::duration<double> used = std::chrono::steady_clock::now() - begin;
  CHECK(used.count() / 30 < 1. / 60);
  CHECK(desk.field.text() == text);
  CHECK(desk.seen().find("wordswithout") != std::string::npos);
  CHECK(desk.seen().find("64KiBof16MiB") != std::string::npos);
  desk.focus();
  CHECK_FALSE(desk.type("x"));
  CHECK(desk.field.text() == text);
  const auto button = desk.window.items.find("text.clear");
  REQUIRE(button.has_value());
  ImGuiIO& io = ImGui::GetIO();
  io.AddMousePosEvent(button->centre_x(), button->centre_y()), desk.draw();
  io.AddMouseButtonEvent(0, true), desk.draw();
  io.AddMouseButtonEvent(0, false);
  CHECK(desk.draw());
  CHECK(desk.field.text().empty());
  desk.draw(2);
  desk.focus();
  CHECK(desk.type("y"));
}

TEST_CASE("A text with a NUL byte is shown whole and stays as it is") {
  Desk desk;
  const std::string text("a\0b", 3);
  desk.field.set_text(text);
  desk.focus();
  CHECK(desk.seen().find('b') != std::string::npos);
  CHECK_FALSE(desk.type("x"));
  CHECK(desk.field.text() == text);
}

TEST_CASE("A text that grows stays at its end until the user scrolls up") {
  Desk desk;
  desk.look.read_only = desk.look.follow = true;
  std::string text;
  const auto grow = [&] {
    for (int i = 0; i < 10; ++i) text += "line\n";
    desk.field.set_text(text + "last");
    desk.draw(4);
  };
  for (int i = 0; i < 5; ++i) grow();
  CHECK(desk.seen().ends_with("last"));
  const auto box = desk.window.items.find("text");
  ImGui::GetIO().AddMousePosEvent(box->centre_x(), box->centre_y()), desk.draw();
  ImGui::GetIO().AddMouseWheelEvent(0, 3), desk.draw(2);
  CHECK_FALSE(desk.seen().ends_with("last"));
  grow();
  CHECK_FALSE(desk.seen().ends_with("last"));
}

TEST_CASE(
    "Characters that the program's fonts lack come from the machine's, and a script from right to left is noted") {
  Desk desk;
  desk.field.set_text("a \u05d0\u05d1 \u0e01 b");
  desk.draw(3);
  CHECK(desk.field.right_to_left());
  CHECK(desk.seen().find("\u05d0\u05d1") != std::string::npos);
  desk.field.set_text("a \u4e2d b");
  CHECK_FALSE(desk.field.right_to_left());
  std::string text;
  constexpr unsigned kFirst = 0x4e00, kCount = 8000;
  for (char32_t c = kFirst; c < kFirst + kCount; ++c) append_utf8(text, c);
  desk.field.set_text(text);
  desk.draw(10);
  CHECK(ImGui::GetIO().Fonts->TexData->Height <= desk.window.textures.max_side());
}
