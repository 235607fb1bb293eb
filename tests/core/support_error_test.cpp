// Error lines and what of a stranger's text reaches a terminal.
#include <catch2/catch.hpp>

#include "engine/core/support/error.h"

using kvscope::Error;
using kvscope::escape_for_terminal;

TEST_CASE("An error is one line of file, place, found, expected and hint") {
  const Error full({.file = "a.json", .where = "key", .found = "3", .expected = "4", .hint = "count again"});
  CHECK(full.what() == std::string("a.json: key: 3; expected 4; hint: count again"));
  CHECK(full.code() == kvscope::ExitCode::bad_input);
  CHECK(Error({.found = "nothing"}).what() == std::string("nothing"));
  CHECK(Error({.found = "x", .expected = "expected y"}).what() == std::string("x; expected y"));
}

TEST_CASE("No part of an error line can reach the terminal unescaped") {
  const std::string nasty = "a\nb\x1b[31m\xc2\x9b\x7f\xe2\x80\xae\xff";
  const Error error({.file = nasty, .where = nasty, .found = nasty, .expected = nasty, .hint = nasty});
  for (const char c : std::string(error.what())) {
    const auto byte = static_cast<unsigned char>(c);
    CHECK((byte >= 0x20 && byte < 0x7F));
  }
}

TEST_CASE("Escaping keeps printable text of every script and writes the rest as numbers") {
  CHECK(escape_for_terminal("Größe 缓存 🙂") == "Größe 缓存 🙂");
  CHECK(escape_for_terminal(std::string_view("a\0b", 3)) == "a\\x00b");
  CHECK(escape_for_terminal("\x1b[0m\t") == "\\x1B[0m\\x09");
  CHECK(escape_for_terminal("\u202e\u2066\u2028\ufeff\u0085") == "\\u{202E}\\u{2066}\\u{2028}\\u{FEFF}\\u{0085}");
  // Not UTF-8: cut, overlong, surrogate, past the end.
  CHECK(escape_for_terminal("\xe2\x82") == "\\xE2\\x82");
  CHECK(escape_for_terminal("\xc0\x80") == "\\xC0\\x80");
  CHECK(escape_for_terminal("\xed\xa0\x80") == "\\xED\\xA0\\x80");
  CHECK(escape_for_terminal("\xf4\x90\x80\x80") == "\\xF4\\x90\\x80\\x80");
}

TEST_CASE("Escaped text is cut at whole characters with an ellipsis inside its limit") {
  const std::size_t limit = GENERATE(0u, 1u, 2u, 3u, 4u, 5u, 8u, 9u, 10u, 11u, 12u, 100u);
  const std::string text = "äöü\nxyz";  // 13 bytes escaped
  const std::string cut = escape_for_terminal(text, limit);
  CAPTURE(limit, cut);
  CHECK(cut.size() <= limit);
  if (limit >= 13) {
    CHECK(cut == "äöü\\x0Axyz");
  } else if (limit >= 3) {
    REQUIRE(cut.ends_with("…"));
    CHECK(std::string("äöü\\x0Axyz").starts_with(cut.substr(0, cut.size() - 3)));
    const std::string kept = cut.substr(0, cut.size() - 3);
    CHECK((kept.empty() || kept == "ä" || kept == "äö" || kept == "äöü" || kept.starts_with("äöü\\x0A")));
  }
}
