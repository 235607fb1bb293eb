#include "views/figure/font_files.h"

#include <array>
#include <cstdlib>
#include <map>
#include <vector>

namespace kvscope::views {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 7> kFileNames = {
    "Inter-Regular.otf",   "Inter-SemiBold.otf", "JetBrainsMono-Regular.ttf", "DejaVuSans.ttf",
    "DejaVuSans-Bold.ttf", "DejaVuSansMono.ttf", "NotoSansCJK-Regular.ttc"};

std::vector<fs::path> font_folders() {
  std::vector<fs::path> folders;
  if (const char* own = std::getenv("KVSCOPE_FONTS")) folders.emplace_back(own);
  folders.insert(folders.end(), {"/usr/share/fonts", "/usr/local/share/fonts"});
  if (const char* home = std::getenv("HOME")) {
    folders.push_back(fs::path(home) / ".local/share/fonts");
    folders.push_back(fs::path(home) / ".fonts");
  }
  return folders;
}

/// A walk over all fonts takes a few milliseconds; the first folder that has a name wins.
std::array<fs::path, kFileNames.size()> find_all() {
  std::array<fs::path, kFileNames.size()> found;
  for (const fs::path& folder : font_folders()) {
    std::error_code error;
    fs::recursive_directory_iterator it(folder, fs::directory_options::skip_permission_denied, error), end;
    for (; !error && it != end; it.increment(error)) {
      const std::string name = it->path().filename().string();
      for (std::size_t i = 0; i < kFileNames.size(); ++i) {
        if (found[i].empty() && name == kFileNames[i]) found[i] = it->path();
      }
    }
  }
  return found;
}

}  // namespace

const fs::path& font_file(FontFile font) {
  static const auto found = find_all();
  return found[static_cast<std::size_t>(font)];
}

}  // namespace kvscope::views
