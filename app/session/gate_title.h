#pragma once
// What a gate is called where people read it. Commands are given its name.

#include <filesystem>
#include <string>
#include <string_view>

#include "app/catalog/gates.h"

namespace kvscope::app {

/// Of the head directories that are made of the head board, each choice of heads under its hash.
inline constexpr std::string_view kBoardFolder = "board-";
/// The same of those that a study's point was measured with.
inline constexpr std::string_view kStudyFolder = "study-";

/// "heads of the board (12 of 24 global)", "heads of the study (...)" of one of these, else the gate's name.
std::string gate_title(const GateFacts& gate);
/// The same of a gate that nobody has read: "heads of the board".
std::string gate_title(const std::filesystem::path& path);

}  // namespace kvscope::app
