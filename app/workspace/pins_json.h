#pragma once
// Pins and notes in the workspace's file: with the hashes of their texts, as the runs may not be read yet.

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/core/record/pins.h"

namespace kvscope::app {

inline constexpr int kMaxRunId = 1 << 30;  // that a file may name

/// [{"n", "tokens", "pins": [{..., "tokens"}]}]
nlohmann::json pinned_texts_json(const PinnedTexts& texts);
/// Throws Error for anything else.
PinnedTexts pinned_texts_from(const nlohmann::json& list, const std::string& file);
/// {"3": "the note of run 3"}. Throws Error for anything else.
std::map<int, std::string> run_notes_from(const nlohmann::json& object, const std::string& file);

}  // namespace kvscope::app
