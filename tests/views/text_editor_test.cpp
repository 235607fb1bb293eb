// The editor as it is drawn: keys in the order typed, the caret where one clicks, and characters that the fonts lack.

#include "views/text/text_editor.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <thread>

#include "engine/core/support/utf8.h"
#include "tests/views/view_support.h"
#include "views/widgets/imgui_compat.h"

using namespace kvscope;
using namespace kvscope::test;
using namespace kvscope::views;

namespace {

/// An editor of 300 pixels in a window, with a hand that types.
struct Desk {
  explicit Desk(TextModel::Lines lines = TextModel::Lines::many) : editor(services(), lines) {}
  ViewServices& services() {
    window.services.typed = &typed;
    return window.services;
  }
  bool draw(int frames = 1) {
    bool changed = false;
    for (int i = 0; i < frames; ++i) {
      typed.begin_frame();
      window.frame([&] {
        if (above) above();
        changed |= editor.draw(look);
      });
      typed.events.clear();
      look.focus = false;
    }
    return changed;
  }
  bool type(std::string_view utf8) {
    for (std::size_t at = 0; at < utf8.size();) {
      const Utf8Char c = decode_utf8(utf8, at);
      typed.events.push_back({.key = "", .character = c.code_point});
      at += c.length;
    }
    return draw();
  }
  void key(const std::string& name, bool ctrl = false, bool shift = false) {
    typed.events.push_back({.key = name, .ctrl = ctrl, .shift = shift});
  }
  void focus() {
    look.focus = true;
    draw(2);
  }
  /// At a share of a line that is in sight.
  void click(int line, double share, int times = 1) {
    const auto rect = window.items.find("text." + std::to_string(line));
    REQUIRE(rect.has_value());
    ImGuiIO& io = ImGui::GetIO();
    io.MousePos = {rect->x + static_cast<float>(rect->w * share), rect->centre_y()};
    draw();
    for (int i = 0; i < times; ++i) {
      for (const bool down : {true, false}) io.MouseDown[0] = down, draw();
    }
  }
  /// So long that another click is a first one.
  void rest() {
    ImGui::GetIO().MousePos = {-1, -1};
    draw(60);
  }

  HeadlessWindow window;
  TextInput typed;
  TextEditor editor;
  TextEditorLook look{.item = "text", .size = {300, 200}};
  std::function<void()> above;  // controls that are drawn before it
};

const std::string kText = "The cache keeps what later tokens attend to, and a policy decides what else may go from it.";

}  // namespace

TEST_CASE("All that is typed between two frames is in the text, in the order in which it was typed") {
  Desk desk;
  desk.focus();
  CHECK(desk.editor.focused());
  for (int i = 0; i < 15; ++i) {
    desk.typed.events.push_back({.key = "", .character = U'x'});
    desk.key("home");
    desk.typed.events.push_back({.key = "", .character = U'é'});
    desk.key("end");
  }
  CHECK(desk.draw());
  std::string expected;
  for (int i = 0; i < 15; ++i) expected = "é" + expected + "x";
  CHECK(desk.editor.text() == expected);
  for (int i = 0; i < 5; ++i) desk.key("backspace");
  CHECK(desk.draw());
  CHECK(desk.editor.text() == expected.substr(0, expected.size() - 5));
}

// An answer that came token by token was one line high until its end.
TEST_CASE("A text that grows has the lines that it was drawn with until it is drawn again") {
  Desk desk;
  desk.editor.set_text(kText);
  desk.draw(2);
  const std::size_t lines = desk.editor.n_lines();
  REQUIRE(lines >= 3);
  for (int i = 0; i < 3; ++i) {
    desk.editor.set_text(kText + std::string(kText));
    CHECK(desk.editor.n_lines() == lines);
    desk.draw();
    CHECK(desk.editor.n_lines() > lines);
    desk.editor.set_text(kText);
    desk.draw(2);
  }
}

TEST_CASE("A text wraps, and a click in the middle of a line puts the caret there") {
  Desk desk;
  desk.editor.set_text(kText);
  desk.draw(2);
  REQUIRE(desk.editor.n_lines() >= 3);
  CHECK(desk.window.written_in("text").starts_with("Thecachekeepswhat"));
  desk.click(1, 0.5);
  REQUIRE(desk.editor.focused());
  desk.type("ZZZ");
  const std::size_t at = desk.editor.text().find("ZZZ");
  CHECK(at > 40);
  CHECK(at < 70);
  desk.key("z", true);
  desk.draw();
  CHECK(desk.editor.text() == kText);
}

TEST_CASE("Home and End know the line that is drawn, and up and down keep to their column") {
  Desk desk;
  desk.editor.set_text(kText);
  desk.draw(2);
  desk.click(1, 0.5);
  desk.key("end");
  desk.type("<");
  const std::size_t end = desk.editor.text().find('<');
  desk.key("z", true);
  desk.rest();
  desk.click(1, 0.5);
  desk.key("home");
  desk.type(">");
  const std::size_t begin = desk.editor.text().find('>');
  CHECK(begin < end);
  CHECK(kText.substr(0, begin).ends_with(' '));
  CHECK(kText.substr(0, end).ends_with(' '));  // the blank that hangs over is the line's
  desk.key("z", true);
  desk.rest();
  desk.click(1, 0.5);
  for (const char* name : {"down", "up", "up", "down"}) desk.key(name);
  desk.type("|");
  CHECK(desk.editor.text().find('|') > begin);
  CHECK(desk.editor.text().find('|') < end);
}

TEST_CASE("Two clicks take a word, three the paragraph, and what is typed replaces it") {
  Desk desk;
  desk.editor.set_text("first line\nsecond line");
  desk.draw(2);
  desk.click(0, 0.1, 2);
  desk.type("X");
  CHECK(desk.editor.text() == "X line\nsecond line");
  desk.rest();
  desk.click(1, 0.3, 3);
  desk.type("Y");
  CHECK(desk.editor.text() == "X line\nY");
}

TEST_CASE("What is cut is pasted, and select all takes all") {
  Desk desk;
  std::string held;
  ImGuiPlatformIO& platform = ImGui::GetPlatformIO();
  platform.Platform_ClipboardUserData = &held;
  const auto clipboard = [] { return static_cast<std::string*>(ImGui::GetPlatformIO().Platform_ClipboardUserData); };
  static const auto get = clipboard;
  platform.Platform_SetClipboardTextFn = [](ImGuiContext*, const char* text) { *get() = text; };
  platform.Platform_GetClipboardTextFn = [](ImGuiContext*) { return get()->c_str(); };
  desk.editor.set_text("keep");
  desk.focus();
  for (const char* name : {"a", "x", "v", "v"}) desk.key(name, true);
  desk.draw();
  CHECK(held == "keep");
  CHECK(desk.editor.text() == "keepkeep");
  desk.look.read_only = true;
  desk.key("a", true), desk.key("x", true), desk.key("c", true);
  desk.draw();
  CHECK(held == "keepkeep");
  CHECK(desk.editor.text() == "keepkeep");
}

TEST_CASE("Escape gives the keyboard back, and what is typed then is nobody's here") {
  Desk desk;
  desk.focus();
  desk.type("a");
  CHECK(ImGui::GetIO().WantTextInput);
  desk.key("escape");
  desk.type("b");
  desk.draw(2);
  CHECK_FALSE(desk.editor.focused());
  CHECK_FALSE(ImGui::GetIO().WantTextInput);
  desk.type("c");
  CHECK(desk.editor.text() == "a");
}

TEST_CASE("Who walks by keys enters the text with Enter or the blank, which are no part of it, and Escape walks on") {
  Desk desk(GENERATE(TextModel::Lines::one, TextModel::Lines::many));
  ImGuiIO& io = ImGui::GetIO();
  io.ConfigFlags |= ImGuiConfigFlags_NavEnableKeyboard;
  const bool by_blank = GENERATE(false, true);
  const ImGuiKey down = ImGuiKey_DownArrow, activate = by_blank ? ImGuiKey_Space : ImGuiKey_Enter;
  const auto set = [&](ImGuiKey key, bool pressed) { io.AddKeyEvent(key, pressed); };
  const auto press = [&](auto key) {
    set(key, true), desk.draw();
    set(key, false), desk.draw();
  };
  const auto around = [&] {
    ImGui::Button("before");
    ImGui::Button("between");
  };
  desk.above = around;
  desk.draw(3);
  ImGui::SetWindowFocus("test");
  desk.draw(2);
  press(down);
  press(down);
  press(down);
  CHECK_FALSE(desk.editor.focused());

  if (by_blank) {
    desk.typed.events.push_back({.key = "", .character = ' '});
  } else {
    desk.key("enter");
  }
  press(activate);
  desk.draw(2);
  REQUIRE(desk.editor.focused());
  CHECK(desk.editor.text().empty());
  desk.type("a b");
  CHECK(desk.editor.text() == "a b");
  desk.draw(3);
  CHECK(desk.editor.focused());

  desk.key("escape");
  desk.draw(2);
  CHECK_FALSE(desk.editor.focused());
  press(activate);  // the frame is still there
  desk.draw(2);
  CHECK(desk.editor.focused());
}

TEST_CASE("One line stays one line, its end is in sight while one types, and Enter leaves it") {
  Desk desk(TextModel::Lines::one);
  desk.look.size = {120, 0};
  desk.focus();
  desk.type("a path that is longer than its field\nand its end");
  desk.draw(2);
  CHECK(desk.editor.n_lines() == 1);
  CHECK(desk.editor.text().find('\n') == std::string::npos);
  const std::string seen = desk.window.written_in("text");
  CHECK(seen.ends_with("end"));
  CHECK_FALSE(seen.starts_with("a"));
  const std::string text = desk.editor.text();
  desk.key("enter");
  desk.draw(2);
  CHECK_FALSE(desk.editor.focused());
  CHECK(desk.editor.text() == text);
}

TEST_CASE("The caret asks for a frame twice a second, and for none once nobody has typed for a while") {
  Desk desk;
  desk.focus();
  desk.type("a");
  CHECK(desk.typed.redraw_in <= 0.54);
  CHECK(desk.typed.redraw_in > 0);
  ImGui::GetIO().DeltaTime = 4;
  desk.draw(4);
  CHECK(desk.typed.redraw_in == TextInput::never());
}

TEST_CASE(
    "A character that the loaded fonts lack comes from another font of the machine, and one that none has shows its number") {
  Desk desk;
  const ImWchar hebrew = 0x5d0, unknown = 0xe123;  // DejaVu has the first, no font a private one
  desk.editor.set_text("a \u05d0\u05d1 \ue123 b");
  desk.draw(3);
  CHECK(desk.editor.right_to_left());
  CHECK(desk.window.written_in("text").find("\u05d0") != std::string::npos);
  ImFont* font = desk.window.theme.fonts.small;
  ImTextureData& atlas = *ImGui::GetIO().Fonts->TexData;
  const auto ink = [&](ImWchar c) {
    const ImFontGlyph glyph = *font->GetFontBaked(font_size(font))->FindGlyphNoFallback(c);
    const auto at = [](float share, int n) { return static_cast<int>(share * static_cast<float>(n) + 0.5f); };
    int n = 0;
    for (int y = at(glyph.V0, atlas.Height); y < at(glyph.V1, atlas.Height); ++y) {
      for (int x = at(glyph.U0, atlas.Width); x < at(glyph.U1, atlas.Width); ++x)
        n += static_cast<unsigned char*>(atlas.GetPixelsAt(x, y))[atlas.BytesPerPixel - 1] > 128;
    }
    return n;
  };
  CHECK(ink(hebrew) > 8);
  CHECK(ink(unknown) > 8);

  load_fonts(desk.window.theme);  // another size of the window: what was seen is there again
  desk.draw(3);
  font = desk.window.theme.fonts.small;
  CHECK(glyph_advance(font, hebrew) > 3);
}

TEST_CASE("Thousands of new characters are all there, and fit the texture") {
  Desk desk;
  constexpr unsigned kFirst = 0x4e00, kCount = 8000;
  std::string text;
  for (char32_t c = kFirst; c < kFirst + kCount; ++c) append_utf8(text, c);
  desk.editor.set_text(text);
  desk.draw(200);  // a part of the lines in each
  ImFont& font = *desk.window.theme.fonts.small;
  unsigned missing = 0;
  for (unsigned c = kFirst; c < kFirst + kCount; ++c)
    missing += font.GetFontBaked(font_size(&font))->FindGlyphNoFallback(static_cast<ImWchar>(c)) == nullptr;
  CHECK(missing == 0);
  CHECK(ImGui::GetIO().Fonts->TexData->Height <= desk.window.textures.max_side());
}

TEST_CASE("What one does not see is a frame with its number, as wide as it is measured") {
  Desk desk;
  desk.editor.set_text("a\U0001F600b\u200bc\xff.");
  desk.draw(2);
  const std::string seen = desk.window.written_in("text");
  CHECK(seen == "a\U0001F600bU+200BcFF.");
  desk.focus();
  desk.key("home"), desk.key("right"), desk.key("delete");
  desk.draw();
  CHECK(desk.editor.text() == "ab\u200bc\xff.");
}
