#pragma once
// Token bytes as something one can read: white space visible, partial characters and control characters escaped.

#include <string>
#include <string_view>

namespace kvscope::views {

/// The code point at `at`, which moves past it. Malformed bytes give U+FFFD and advance by one.
char32_t next_code_point(std::string_view utf8, std::size_t& at);

/// One line: space "·", newline "↵", tab "⇥", carriage return "␍", other control characters, bidirectional overrides
/// and code points without width as ⟨U+XXXX⟩, bytes that are not UTF-8 (a token may be part of a character) as ⟨E4⟩.
/// Cut to `max_code_points` with an ellipsis; 0 cuts nothing.
std::string token_label(std::string_view bytes, std::size_t max_code_points = 0);
/// The same with plain spaces where they stand between words: for flowing text.
std::string token_text(std::string_view bytes);
/// Control characters, bidirectional overrides, zero-width characters, variation selectors, tags: nothing one sees, or
/// something that moves its neighbours.
bool is_invisible(char32_t c);
bool ends_line(std::string_view bytes);  // holds a newline

}  // namespace kvscope::views
