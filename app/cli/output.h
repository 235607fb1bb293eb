#pragma once
// Results on stdout.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace kvscope::app {

/// One object on one line; bytes that are not UTF-8 become U+FFFD.
void write_json_line(const nlohmann::ordered_json& value);
void write_json_line(const nlohmann::json& value);
/// Flushes; whether stdout took all that was written until now.
bool stdout_is_well();
/// Throws Error if it did not: resource for a full disk, which must not look like success, closed_pipe if its reader has
/// gone.
void flush_stdout();
/// For writable_target(), which every command asks before minutes of work.
inline constexpr const char* kOverwriteHint = "--overwrite replaces it";
/// "warning: ..." on stderr.
void print_warning(std::string_view text);
/// Columns of equal width, the first line is the heading.
std::string format_table(const std::vector<std::vector<std::string>>& rows);
/// Lines of at most 100 columns, broken at spaces, '\n' behind each; all but the first begin with `indent` spaces. A
/// line end in the text counts as a space.
std::string wrapped(std::string_view text, std::size_t indent = 0);
std::string format_number(double value, int digits = 4);
/// The same with nothing for NaN, as a table of results has it.
std::string table_number(double value, int digits);
/// null for NaN, which JSON does not have.
nlohmann::ordered_json number_or_null(double value);
/// format_number() of what number_or_null() gave.
std::string number_cell(const nlohmann::ordered_json& value);

}  // namespace kvscope::app
