// The editor's text and lines against plain references that know no cleverness: every state kept whole, every line broken
// anew after every edit.

#include "views/text/text_model.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/core/support/random.h"
#include "engine/core/support/utf8.h"
#include "views/text/text_layout.h"

using namespace kvscope;
using namespace kvscope::views;

namespace {

/// Bytes of one character each, of one to eleven bytes: letters, accents, emoji of several code points, a lone byte.
const std::vector<std::string> kCharacters = {"a", "b",       "_",  " ",  " ", "\n", ".",        "\t",
                                              "é", "e\u0301", "中", "文", "ß", "а",  "👍🏽", "👩‍🚀"};

class WideAndNarrow final : public Advances {
 public:
  float advance(char32_t point, bool) const override {
    if (point >= 0x300 && point < 0x370) return 0;
    return point == ' ' ? 3.f : point > 0x2000 ? 11.f : point % 3 == 0 ? 5.5f : 7.f;
  }
};

/// A text as a list of characters, with all of its past.
struct Plain {
  struct State {
    std::vector<std::string> characters;
    std::size_t caret = 0, anchor = 0;
    std::string text() const {
      std::string all;
      for (const std::string& c : characters) all += c;
      return all;
    }
    std::size_t bytes(std::size_t n) const {
      std::size_t sum = 0;
      for (std::size_t i = 0; i < n; ++i) sum += characters[i].size();
      return sum;
    }
  };
  State now;
  void replace(std::size_t from, std::size_t to, const std::vector<std::string>& with) {
    now.characters.erase(now.characters.begin() + static_cast<long>(from),
                         now.characters.begin() + static_cast<long>(to));
    now.characters.insert(now.characters.begin() + static_cast<long>(from), with.begin(), with.end());
    now.caret = now.anchor = from + with.size();
  }
  std::size_t from() const { return std::min(now.caret, now.anchor); }
  std::size_t to() const { return std::max(now.caret, now.anchor); }
};

std::string typed(const std::string& keys) {
  TextModel model;
  for (const char c : keys) model.insert(std::string(1, c));
  return model.text();
}

std::vector<std::size_t> lines_of(const TextLayout& layout) {
  std::vector<std::size_t> begins;
  for (std::size_t i = 0; i < layout.n_lines(); ++i) begins.push_back(layout.begin_of(i));
  return begins;
}

}  // namespace

TEST_CASE("4,000 random edits leave text, caret and selection as in a list of characters") {
  Random random(20261123);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random.below(n)); };
  TextModel model;
  Plain plain;
  for (int i = 0; i < 4000; ++i) {
    CAPTURE(i, model.text());
    const std::size_t kind = below(10);
    if (kind < 4) {
      const std::string& c = kCharacters[below(kCharacters.size())];
      model.insert(c);
      plain.replace(plain.from(), plain.to(), {c});
    } else if (kind == 4) {
      std::vector<std::string> many;
      std::string all;
      for (std::size_t n = below(12) + 1; n > 0; --n) all += many.emplace_back(kCharacters[below(8)]);
      model.insert(all);
      plain.replace(plain.from(), plain.to(), many);
    } else if (kind == 5) {
      model.erase_left();
      const std::size_t from = plain.from(), to = plain.to();
      if (to > 0) plain.replace(from == to ? from - 1 : from, to, {});
    } else if (kind == 6) {
      model.erase_right();
      const std::size_t from = plain.from(), to = plain.to(), n = plain.now.characters.size();
      if (from < n) plain.replace(from, from == to ? to + 1 : to, {});
    } else if (kind == 7) {
      const bool select = below(2) != 0, right = below(2) != 0;
      right ? model.move_right(select) : model.move_left(select);
      const std::size_t from = plain.from(), to = plain.to();
      if (!select && from != to) {
        plain.now.caret = right ? to : from;
      } else if (right) {
        plain.now.caret = std::min(plain.now.caret + 1, plain.now.characters.size());
      } else if (plain.now.caret > 0) {
        --plain.now.caret;
      }
      if (!select) plain.now.anchor = plain.now.caret;
    } else {
      const std::size_t at = below(plain.now.characters.size() + 1);
      const bool select = below(3) == 0;
      model.place(plain.now.bytes(at), select);
      plain.now.caret = at;
      if (!select) plain.now.anchor = at;
    }
    REQUIRE(model.text() == plain.now.text());
    REQUIRE(model.caret() == plain.now.bytes(plain.now.caret));
    REQUIRE(model.anchor() == plain.now.bytes(plain.now.anchor));
  }
}

TEST_CASE("Undo goes back through every text there was to the first, and redo forth again to the last") {
  Random random(7);
  TextModel model;
  std::vector<std::string> before;  // each state at which a step began
  for (int i = 0; i < 600; ++i) {
    if (random.below(3) == 0) model.place(random.below(model.text().size() + 1), random.below(2) != 0);
    const std::string old = model.text();
    switch (random.below(5)) {
      case 0:
        model.erase_left();
        break;
      case 1:
        model.erase_word_left();
        break;
      case 2:
        model.erase_word_right();
        break;
      default:
        model.insert(kCharacters[random.below(kCharacters.size())]);
    }
    if (model.text() != old) before.push_back(old);
  }
  const std::string last = model.text();
  std::vector<std::string> back;
  while (model.undo()) back.push_back(model.text());
  CHECK(model.text().empty());
  // Steps are joined, never torn: what undo shows was there, in that order.
  auto at = before.rbegin();
  for (const std::string& text : back) {
    at = std::find(at, before.rend(), text);
    REQUIRE(at != before.rend());
  }
  CHECK(back.size() < before.size());
  while (model.redo()) {
  }
  CHECK(model.text() == last);
}

TEST_CASE("Undo takes back a word of what was typed, not a letter and not all of it") {
  TextModel model;
  for (const char c : std::string("one two three")) model.insert(std::string(1, c));
  model.undo();
  CHECK(model.text() == "one two ");
  model.undo();
  CHECK(model.text() == "one ");
  model.redo();
  CHECK(model.text() == "one two ");
  model.insert("x");
  CHECK_FALSE(model.redo());
  model.place(0, false);
  model.insert("a");
  model.place(0, false);
  model.insert("b");
  model.undo();
  CHECK(model.text() == "aone two x");
}

TEST_CASE(
    "What is pasted becomes text: line ends of all kinds, no control characters, no bytes that are no character") {
  TextModel model;
  model.insert(std::string("a\r\nb\rc\td\0\x1b\x7f", 11) + "\xff" + "é");
  CHECK(model.text() == "a\nb\nc\td\xef\xbf\xbdé");
  TextModel line(TextModel::Lines::one);
  line.insert("a\r\nb\nc");
  CHECK(line.text() == "a b c");
}

TEST_CASE("Words end at blanks and punctuation, and a double click takes the one under it") {
  TextModel model;
  model.insert("der Kaffee, bitte\nnoch");
  model.place(0, false);
  std::vector<std::size_t> stops;
  while (model.caret() < model.text().size()) model.move_word_right(false), stops.push_back(model.caret());
  CHECK(stops == std::vector<std::size_t>{3, 10, 11, 17, 22});
  stops.clear();
  while (model.caret() > 0) model.move_word_left(false), stops.push_back(model.caret());
  CHECK(stops == std::vector<std::size_t>{18, 12, 10, 4, 0});
  model.select_word(6);
  CHECK(model.selected() == "Kaffee");
  model.select_word(17);  // behind the last letter of a line
  CHECK(model.selected() == "bitte");
  model.select_paragraph(5);
  CHECK(model.selected() == "der Kaffee, bitte\n");
  model.select_all();
  model.erase_left();
  CHECK(model.text().empty());
  CHECK(typed("xy") == "xy");
}

TEST_CASE("Bytes that are no UTF-8 stay as they are, each a character of its own") {
  TextModel model;
  model.set_text("a\xc3\xe4z\xe2\x82");
  std::size_t n = 0;
  for (model.place(0, false); model.caret() < model.text().size(); model.move_right(false)) ++n;
  CHECK(n == 6);
  model.erase_left();
  CHECK(model.text() == "a\xc3\xe4z\xe2");
}

TEST_CASE("After each of 3,000 random edits the lines are those of the whole text laid out anew") {
  const WideAndNarrow advances;
  for (const float width : {60.f, 9.f, 4.f, 0.f}) {
    Random random(static_cast<std::uint64_t>(width) + 11);
    TextModel model;
    TextLayout layout(advances);
    layout.reset(width);
    for (int i = 0; i < 3000; ++i) {
      CAPTURE(width, i, model.text());
      if (random.below(4) == 0) model.place(random.below(model.text().size() + 1), random.below(3) == 0);
      if (random.below(5) == 0) {
        random.below(2) != 0 ? model.erase_word_left() : model.erase_right();
      } else {
        std::string with;
        for (std::size_t n = random.below(6) + 1; n > 0; --n) with += kCharacters[random.below(kCharacters.size())];
        if (model.text().size() > 400) model.select_word(random.below(400));
        model.insert(with);
      }
      for (const TextEdit& edit : model.take_edits()) layout.edited(model.text(), edit);
      // Sometimes laid out to the end, sometimes as far as a place in it.
      if (random.below(2) != 0) layout.reach_offset(model.text(), random.below(model.text().size() + 1));
      if (random.below(4) != 0) continue;
      layout.reach_offset(model.text(), model.text().size());
      TextLayout fresh(advances);
      fresh.reset(width);
      fresh.reach_offset(model.text(), model.text().size());
      REQUIRE(lines_of(layout) == lines_of(fresh));
      REQUIRE(layout.complete());
      if (random.below(4) == 0) layout.reset(width);
    }
  }
}

TEST_CASE("Lines break behind blanks, around ideographs and within a word that is too long, never before an accent") {
  const WideAndNarrow advances;  // 7 or 5.5 a letter, 3 a blank, 11 an ideograph
  const auto broken = [&](const std::string& text, float width) {
    TextLayout layout(advances);
    layout.reset(width);
    layout.reach_offset(text, text.size());
    std::vector<std::string> lines;
    for (std::size_t i = 0; i < layout.n_lines(); ++i)
      lines.push_back(text.substr(layout.begin_of(i), layout.end_of(text, i) - layout.begin_of(i)));
    return lines;
  };
  CHECK(broken("aa bb   cc", 18) == std::vector<std::string>{"aa ", "bb   ", "cc"});
  CHECK(broken("中文字体", 25) == std::vector<std::string>{"中文", "字体"});
  CHECK(broken("aaaaaa", 15) == std::vector<std::string>{"aa", "aa", "aa"});
  CHECK(broken("one\n\ntwo\n", 100) == std::vector<std::string>{"one", "", "two", ""});
  for (const std::string& line : broken("e\u0301e\u0301e\u0301e\u0301", 12)) CHECK(line.starts_with("e"));
}

TEST_CASE("A click finds the nearest boundary, and the caret is drawn where the click was") {
  const WideAndNarrow advances;
  Random random(3);
  std::string text;
  for (int i = 0; i < 300; ++i) text += kCharacters[random.below(kCharacters.size())];
  TextLayout layout(advances);
  layout.reset(80);
  layout.reach_offset(text, text.size());
  for (std::size_t line = 0; line < layout.n_lines(); ++line) {
    for (std::size_t at = layout.begin_of(line); at < layout.end_of(text, line); at = next_character(text, at)) {
      const float x = layout.x_of(text, line, at);
      CHECK(layout.offset_at(text, line, x) == at);
      CHECK(layout.line_of(text, at) == line);
    }
    CHECK(layout.offset_at(text, line, 1e6f) == layout.end_of(text, line));
  }
}

TEST_CASE("Of a text of two megabytes a screen costs what a screen of text costs") {
  struct Counted final : Advances {
    float advance(char32_t, bool) const override { return ++n, 7.f; }
    mutable std::size_t n = 0;
  } advances;
  TextModel model;
  std::string text;
  while (text.size() < (2u << 20)) text += "some words of a line that goes on and on ";
  model.set_text(text);
  TextLayout layout(advances);
  layout.reset(300);
  layout.reach_line(text, 40);
  CHECK(advances.n < 6000);
  CHECK(layout.estimated_lines(text) > 40000);
  layout.reach_offset(text, text.size());
  CHECK(layout.estimated_lines(text) == static_cast<double>(layout.n_lines()));
  model.take_edits();
  // And a letter in its midst what a few lines cost.
  advances.n = 0;
  model.place(1u << 20, false);
  model.insert("x");
  for (const TextEdit& edit : model.take_edits()) layout.edited(model.text(), edit);
  CHECK(advances.n < 3000);
  CHECK(layout.complete());
}
