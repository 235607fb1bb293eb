#include "views/figure/token_text.h"

#include <catch2/catch.hpp>
#include <random>

#include "engine/core/support/utf8.h"
#include "views/figure/fonts.h"

using namespace kvscope::views;

TEST_CASE("white space in a token is visible") {
  CHECK(token_label(" the") == "·the");
  CHECK(token_label("\n\n") == "↵↵");
  CHECK(token_label("\ta") == "⇥a");
  CHECK(token_label("a\r\n") == "a␍↵");
  CHECK(token_text(" the end") == " the end");
}

TEST_CASE("parts of characters, control characters and bidirectional overrides are written out") {
  CHECK(token_label("\xE4\xB8") == "⟨E4⟩⟨B8⟩");
  CHECK(token_label("a\x1B[31m") == "a⟨U+001B⟩[31m");
  CHECK(token_label("\xE2\x80\xAE") == "⟨U+202E⟩");
  CHECK(token_label("\xC0\xAF") == "⟨C0⟩⟨AF⟩");          // overlong
  CHECK(token_label("\xED\xA0\x80") == "⟨ED⟩⟨A0⟩⟨80⟩");  // surrogate
  CHECK(token_label("中é😀") == "中é😀");
}

TEST_CASE("a long label is cut at a character, with an ellipsis") {
  CHECK(token_label("abcdef", 3) == "abc…");
  CHECK(token_label("中中中中", 2) == "中中…");
  CHECK(token_label("abc", 3) == "abc");
}

TEST_CASE("any bytes become valid UTF-8 without control characters") {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    for (unsigned i = random() % 12; i > 0; --i) bytes += static_cast<char>(random());
    const std::string label = token_label(bytes);
    for (std::size_t at = 0; at < label.size();) {
      const std::size_t start = at;
      const char32_t c = next_code_point(label, at);
      REQUIRE_FALSE((c == 0xfffd && at - start == 1));
      REQUIRE(c >= 0x20);
    }
  }
}

TEST_CASE("code points survive the way through UTF-8") {
  for (char32_t c : {U'a', U'é', U'中', U'😀', char32_t{0x10ffff}}) {
    std::string text;
    kvscope::append_utf8(text, c);
    std::size_t at = 0;
    CHECK(next_code_point(text, at) == c);
    CHECK(at == text.size());
  }
}

TEST_CASE("the width of a text is the sum of its characters' and grows with its size") {
  const FontRole role = GENERATE(FontRole::text, FontRole::bold, FontRole::mono);
  CHECK(text_width("Layer", role, 10) == Approx(text_width("Lay", role, 10) + text_width("er", role, 10)));
  CHECK(text_width("Layer", role, 20) == Approx(2 * text_width("Layer", role, 10)));
  CHECK(text_width("", role, 10) == 0);
}
