#pragma once
// Words of a POSIX shell.

#include <string>
#include <string_view>
#include <vector>

namespace kvscope {

/// 'it'\''s': one word, always quoted.
std::string single_quoted(std::string_view text);
/// The same, quoted only if it has to be.
std::string shell_quote(const std::string& word);
/// The words of a line that shell_quote() wrote, unquoted: the inverse of joining them with blanks.
std::vector<std::string> shell_words(std::string_view line);

}  // namespace kvscope
