#pragma once
// Recordings as arrays (.npz): the package `kvscope` in Python makes the messages of a recording from them.

#include <filesystem>

#include "engine/core/protocol/recording.h"

namespace kvscope::app {

/// The run of a recording as arrays, checked by the package and then as read_recording() checks. Throws Error in one line, also
/// if there is no Python with what the package needs. A signal ends the program at once until the first call of `progress`.
RunRecord read_array_recording(const std::filesystem::path& path, const protocol::RecordingProgress& progress);

}  // namespace kvscope::app
