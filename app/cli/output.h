#pragma once
// Results on stdout. Tables of them are app/support/table_text.h.

#include <nlohmann/json.hpp>
#include <string>

#include "app/support/table_text.h"

namespace kvscope::app {

/// One object on one line; bytes that are not UTF-8 become U+FFFD.
void write_json_line(const nlohmann::ordered_json& value);
void write_json_line(const nlohmann::json& value);
/// Flushes; whether stdout took all that was written until now.
bool stdout_is_well();
/// Throws Error if it did not: resource for a full disk, which must not look like success, closed_pipe if its reader has
/// gone.
void flush_stdout();
/// Lines of "key value", objects indented.
void print_lines(const nlohmann::ordered_json& object, const std::string& indent = "");

}  // namespace kvscope::app
