#pragma once
// Recordings: the messages of one run in a file (.kvs), as an engine would have sent them. Any program can write one.

#include <cstdint>
#include <filesystem>
#include <functional>

#include "engine/core/record/run_record.h"

namespace kvscope::protocol {

/// The version of the file that this program reads, `recording` of its greeting.
inline constexpr int kRecordingVersion = 1;

/// Called after each message with the bytes read so far and the size of the file. It may throw to end the reading.
using RecordingProgress = std::function<void(std::uint64_t read, std::uint64_t size)>;

/// The run of a recording: a greeting, the end of a load, and the events of one run up to its `done`, each checked as those of an
/// engine are (docs/protocol.md, Recordings). It has no request (RunRecord::asked), because nobody asked for it here.
/// Throws Error (bad input) that names the file, the message and the field.
RunRecord read_recording(const std::filesystem::path& path, const RecordingProgress& progress = {});
/// The same from a stream of `size` bytes (0: unknown). Errors name `path`, from which another program makes the messages.
RunRecord read_recording(int fd, const std::filesystem::path& path, std::uint64_t size,
                         const RecordingProgress& progress);

}  // namespace kvscope::protocol
