#include "app/session/autosave.h"

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "app/process/paths.h"
#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"

namespace kvscope::app {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMarker = "open-";

fs::path session_file() { return state_folder() / "session.json"; }
fs::path marker_file() { return state_folder() / (std::string(kMarker) + std::to_string(::getpid())); }

// Markers of processes that are gone are removed; whether there was one.
bool remove_dead_markers(const fs::path& folder) {
  bool found = false;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kMarker)) continue;
    const long pid = std::strtol(name.c_str() + kMarker.size(), nullptr, 10);
    if (pid > 0 && ::kill(static_cast<pid_t>(pid), 0) == 0) continue;  // another window
    fs::remove(entry.path(), error);
    found = true;
  }
  return found;
}

}  // namespace

std::optional<nlohmann::json> begin_autosave() {
  const fs::path folder = state_folder();
  if (folder.empty()) return std::nullopt;
  std::optional<nlohmann::json> saved;
  try {
    if (remove_dead_markers(folder)) saved = read_json(session_file(), {.max_bytes = 16u << 20});
  } catch (const Error&) {
    // A session that cannot be read is not worth a message: there is nothing to restore.
  }
  try {
    write_file_atomic(marker_file(), "");
  } catch (const Error&) {
  }
  return saved;
}

void save_session(Session& session, bool now) {
  if (state_folder().empty()) return;
  const std::string text = session.to_json().dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
  if (!now) {
    session.files().in_background("autosave", [text]() -> Worker::Finish {
      write_file_atomic(session_file(), text);
      return [] {};
    });
    return;
  }
  try {
    write_file_atomic(session_file(), text);
  } catch (const Error& error) {
    session.messages().log(error.what());
  }
}

void end_autosave() {
  if (state_folder().empty()) return;
  std::error_code error;
  fs::remove(marker_file(), error);
}

}  // namespace kvscope::app
