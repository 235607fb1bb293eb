#pragma once
#include <filesystem>
#include <span>

namespace kvscope::app {

/// Writes rows from top to bottom, RGBA with 8 bits each; alpha is taken as opaque. Throws Error.
void write_png(const std::filesystem::path& path, int width, int height, std::span<const unsigned char> rgba);

}  // namespace kvscope::app
