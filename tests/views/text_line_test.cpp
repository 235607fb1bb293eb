// Lines of lists: cut to their room, in any script.

#include "views/text/text_line.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <thread>

#include "tests/support/random_run.h"
#include "tests/views/view_support.h"
#include "views/text/glyph_supply.h"
#include "views/widgets/chrome.h"
#include "views/widgets/imgui_compat.h"
#include "views/widgets/token_lines.h"

using namespace kvscope;
using namespace kvscope::test;
using namespace kvscope::views;

namespace {

struct Line {
  Line() {
    window.services.glyphs = &glyphs;
    glyphs.use(window.theme.fonts);
  }
  /// What is painted once the characters have come that were asked for.
  std::string draw(const std::string& text, float room, Cut cut = Cut::end, float down = 0) {
    for (int i = 0; i < 10000 && (i < 3 || glyphs.busy()); ++i) {
      glyphs.add_ready();
      window.frame([&] {
        ImGui::SetCursorPosY(ImGui::GetCursorPosY() + down);
        text_line(window.services, window.theme.palette.text, text, room, cut);
        window.items.add("line", last_item());
      });
      glyphs.send();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    REQUIRE_FALSE(glyphs.busy());
    return window.written_in("line");
  }
  double width() const { return window.items.find("line")->w; }

  HeadlessWindow window;
  GlyphSupply glyphs{window.textures, {}};
};

}  // namespace

TEST_CASE("A line of a list shows letters that the loaded fonts lack, and by its number what has no glyph of 16 bits") {
  Line line;
  CHECK(line.draw("a \u05d0\u05d1 b", 400) == "a\u05d0\u05d1b");
  CHECK(line.draw("x\U0001F600y", 400) == "xU+1F600y");
  CHECK(line.width() < 200);
}

TEST_CASE("Tokens whose letters came after they were measured have them, and are as wide as these") {
  Line line;
  RunRecord run = random_run(3, {.prompt_len = 8, .n_new = 2});
  BytePool pieces;
  for (int t = 0; t < run.n_tokens(); ++t) pieces.push_back(t == 4 ? "\u05d0\u05d1" : "a");
  run.pieces = pieces;
  const ShownRun shown{std::make_shared<const RunRecord>(run), false, "A", 1};
  TokenLines lines;
  lines.measure(line.window.theme, &shown);
  lines.break_at(run, 400, 2, 2);
  CHECK(lines.text(4) == "U+05D0U+05D1");
  const float before = lines.width(4), next = lines.x(5);
  line.draw("\u05d0\u05d1", 400);
  lines.measure(line.window.theme, &shown);
  lines.break_at(run, 400, 2, 2);
  CHECK(lines.text(4) == "\u05d0\u05d1");
  CHECK(lines.text(3) == "a");
  CHECK(lines.width(4) < before);
  CHECK(lines.x(5) < next);
}

TEST_CASE("A line that is too long ends in a mark, or has its end behind it, and is never wider than its room") {
  Line line;
  const std::string text = "first words of a line and then many more of them, 4 heads, window 32";
  const std::string cut = line.draw(text, 200), both = line.draw(text, 200, Cut::middle);
  CHECK(line.width() <= 200);
  CHECK(line.width() > 180);
  CHECK(cut.starts_with("firstwords"));
  CHECK(cut.ends_with("..."));
  CHECK(both.starts_with("firstwords"));
  CHECK(both.find("...") != std::string::npos);
  CHECK(both.ends_with("window32"));
  CHECK(line.draw("short", 200, Cut::middle) == "short");
  std::string hebrew;
  for (int i = 0; i < 60; ++i) hebrew += "\u05d0\u05e9";
  CHECK(line.draw(hebrew, 200).ends_with("..."));
  CHECK(line.width() <= 200);
}

TEST_CASE("A line out of sight asks for no characters") {
  Line line;
  line.draw("\u05d0", 200, Cut::end, 5000);
  CHECK_FALSE(has_glyph(line.window.theme.fonts.text, 0x5d0));
  line.draw("\u05d0", 200);
  CHECK(has_glyph(line.window.theme.fonts.text, 0x5d0));
}
