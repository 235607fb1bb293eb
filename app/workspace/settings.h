#pragma once
// The person's settings: $XDG_CONFIG_HOME/kvscope/settings.json. They hold for every window and every workspace.

#include <filesystem>
#include <string>

#include "app/workspace/layout.h"

namespace kvscope::app {

/// What stands in the file; the default where there is none. A damaged file is set aside and `damage` says so.
Appearance read_settings(const std::filesystem::path& file, std::string& damage);
std::string settings_text(const Appearance& appearance);

}  // namespace kvscope::app
