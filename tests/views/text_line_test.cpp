// Lines of lists: cut to their room, in any script.

#include "views/text/text_line.h"

#include <catch2/catch.hpp>

#include "tests/views/view_support.h"
#include "views/widgets/chrome.h"

using namespace kvscope;
using namespace kvscope::test;
using namespace kvscope::views;

namespace {

struct Line {
  /// What is painted.
  std::string draw(const std::string& text, float room, Cut cut = Cut::end) {
    for (int i = 0; i < 3; ++i) {
      window.frame([&] {
        text_line(window.services, window.theme.palette.text, text, room, cut);
        window.items.add("line", last_item());
      });
    }
    return window.written_in("line");
  }
  double width() const { return window.items.find("line")->w; }

  HeadlessWindow window;
};

}  // namespace

TEST_CASE("A line of a list shows letters that the loaded fonts lack, and emoji") {
  Line line;
  CHECK(line.draw("a \u05d0\u05d1 b", 400) == "a\u05d0\u05d1b");
  CHECK(line.draw("x\U0001F600y", 400) == "x\U0001F600y");
  CHECK(line.width() < 60);
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
