#pragma once
// Results on stdout.

#include <nlohmann/json.hpp>
#include <string>

namespace kvscope::app {

/// One object on one line; bytes that are not UTF-8 become U+FFFD.
void write_json_line(const nlohmann::ordered_json& value);
void write_json_line(const nlohmann::json& value);
/// The same over several lines, for single results that a person may read too.
void write_json_pretty(const nlohmann::ordered_json& value);
/// Throws Error (resource) if stdout could not take what was written: a full disk must not look like success.
void flush_stdout();
/// Columns of equal width, the first line is the heading.
std::string format_table(const std::vector<std::vector<std::string>>& rows);
std::string format_number(double value, int digits = 4);
/// null for NaN, which JSON does not have.
nlohmann::ordered_json number_or_null(double value);
/// format_number() of what number_or_null() gave.
std::string number_cell(const nlohmann::ordered_json& value);

}  // namespace kvscope::app
