#pragma once
// Stop texts as one writes them in a field: a text a line, with \n, \t and \\ for what a line cannot hold.

#include <string>
#include <string_view>
#include <vector>

namespace kvscope::app {

/// Empty lines are none. stop_texts(stop_lines(x)) is x.
std::vector<std::string> stop_texts(std::string_view lines);
std::string stop_lines(const std::vector<std::string>& texts);

}  // namespace kvscope::app
