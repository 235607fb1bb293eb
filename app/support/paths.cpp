#include "app/support/paths.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "engine/core/support/error.h"

namespace kvscope::app {
namespace fs = std::filesystem;

fs::path executable_folder() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path();  // empty on an error
}

fs::path shipped_folder(const std::string& name) {
  std::string variable = "KVSCOPE_" + name;
  std::transform(variable.begin(), variable.end(), variable.begin(), [](unsigned char c) { return std::toupper(c); });
  std::error_code error;
  if (const char* value = std::getenv(variable.c_str()); value && *value) {
    return fs::is_directory(value, error) ? fs::path(value) : fs::path();
  }
  // Canonical: in a build's folder share/kvscope is a link to the checkout, which nobody wants to see in a path.
  const fs::path folder = fs::canonical(executable_folder().parent_path() / "share" / "kvscope" / name, error);
  return !error && fs::is_directory(folder, error) ? folder : fs::path();
}

namespace {

/// The file `name` of the samples, empty if it is not there.
fs::path sample_file(const fs::path& name) {
  const fs::path samples = shipped_folder("samples");
  std::error_code error;
  return !samples.empty() && fs::is_regular_file(samples / name, error) ? samples / name : fs::path();
}

}  // namespace

fs::path heldout_text() { return sample_file("prompts/heldout.txt"); }

std::vector<fs::path> sample_models() {
  std::vector<fs::path> models;
  for (const char* name : {"models/kvscope-tiny", "models/kvscope-reasoner"}) {
    const fs::path weights = sample_file(fs::path(name) / "model.safetensors");
    if (!weights.empty()) models.push_back(weights.parent_path());
  }
  return models;
}

fs::path sample_model() {
  const std::vector<fs::path> models = sample_models();
  return models.empty() ? fs::path() : models.front();
}

namespace {

std::vector<fs::path> find_sample_prompts(bool chat) {
  std::vector<fs::path> prompts;
  std::error_code error;
  const fs::path folder = shipped_folder("samples") / "prompts";
  for (const auto& entry : fs::directory_iterator(chat ? folder / "chat" : folder, error)) {
    const std::string name = entry.path().filename().string();  // "1-reversal.txt": other texts have no number
    if (entry.path().extension() == ".txt" && std::isdigit(static_cast<unsigned char>(name[0])))
      prompts.push_back(entry.path());
  }
  std::sort(prompts.begin(), prompts.end());
  return prompts;
}

/// Of $VARIABLE or ~/BELOW_HOME the folder kvscope; empty if neither variable is set.
fs::path folder_of(const char* variable, const fs::path& below_home) {
  if (const char* xdg = std::getenv(variable); xdg && *xdg) return fs::path(xdg) / "kvscope";
  if (const char* home = std::getenv("HOME"); home && *home) return fs::path(home) / below_home / "kvscope";
  return {};
}

/// `XDG_DOCUMENTS_DIR="$HOME/Documents"` of user-dirs.dirs; empty if there is no such line.
fs::path documents_of(const fs::path& user_dirs, const fs::path& home) {
  static constexpr std::string_view kKey = "XDG_DOCUMENTS_DIR=\"", kHome = "$HOME";
  std::ifstream file(user_dirs);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(kKey)) continue;
    std::string value = line.substr(kKey.size(), line.rfind('"') - kKey.size());
    if (value.starts_with(kHome)) value.replace(0, kHome.size(), home.string());
    return value;
  }
  return {};
}

}  // namespace

const fs::path& first_run_trace() {
  static const fs::path trace = sample_file("traces/first-run.h5");
  return trace;
}

const std::vector<fs::path>& sample_prompts(bool chat) {
  static const auto plain = find_sample_prompts(false), chats = find_sample_prompts(true);
  return chat ? chats : plain;
}

fs::path documents_folder() {
  const char* home = std::getenv("HOME");
  if (!home || !*home) return {};
  const char* config = std::getenv("XDG_CONFIG_HOME");
  const fs::path settings = config && *config ? fs::path(config) : fs::path(home) / ".config";
  const fs::path documents = documents_of(settings / "user-dirs.dirs", home);
  std::error_code error;
  return fs::is_directory(documents, error) ? documents : fs::path(home);
}

fs::path state_folder() { return folder_of("XDG_STATE_HOME", fs::path(".local") / "state"); }

fs::path needed_state_folder() {
  fs::path folder = state_folder();
  if (folder.empty())
    throw Error({.code = ExitCode::resource, .file = "HOME", .found = "it is not set", .expected = "a home folder"});
  return folder;
}

fs::path settings_file() {
  const fs::path folder = folder_of("XDG_CONFIG_HOME", ".config");
  return folder.empty() ? folder : folder / "settings.json";
}

}  // namespace kvscope::app
