#pragma once
// The session on disk, so that a crash costs at most half a minute of settings (runs are kept as traces, by the
// person).
//
// A marker file stands while a window is open. Found at the next start, with no process of its id alive, it says that
// the last session did not end in order.

#include <nlohmann/json.hpp>
#include <optional>

#include "app/session/session.h"

namespace kvscope::app {

/// Sets this process's marker; gives the saved session if another one's was left by a process that is gone. Never
/// throws.
std::optional<nlohmann::json> begin_autosave();
/// Writes the session, in the background unless `now`. A failure is a line in the log.
void save_session(Session& session, bool now);
/// Removes the marker.
void end_autosave();

}  // namespace kvscope::app
