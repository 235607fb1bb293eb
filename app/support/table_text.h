#pragma once
// Tables and numbers as text, for people.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace kvscope::app {

/// Columns of equal width, the first line is the heading.
std::string format_table(const std::vector<std::vector<std::string>>& rows);
/// Without columns that are empty below their heading.
std::vector<std::vector<std::string>> without_empty_columns(std::vector<std::vector<std::string>> rows);
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
