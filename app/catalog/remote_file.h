#pragma once
// Traces of other machines: copied over ssh into this machine's cache, once for each state of the file.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace kvscope::app {

struct RemoteFile {
  std::string word;  // "user@gpu01:runs/a.h5", as it was typed
  std::string host;  // "user@gpu01"
  std::string path;  // there; a relative one begins at the home folder
  bool is_trace() const { return path.ends_with(".h5"); }
};

/// [user@]host:path, unless it is a file of this machine. Touches the disk.
std::optional<RemoteFile> remote_file(const std::string& word);
/// What to do with a model that is named so; empty for any other word.
std::string remote_model_hint(const std::string& word);

/// ${XDG_CACHE_HOME:-~/.cache}/kvscope/remote; empty without a home.
std::filesystem::path remote_cache();
inline constexpr std::uint64_t kRemoteCacheBytes = std::uint64_t{2} << 30;

/// Called some ten times a second; `total` is 0 until it is known. False cancels.
using CopyProgress = std::function<bool(std::uint64_t done, std::uint64_t total)>;

/// The copy, made now unless the cache has it. The oldest copies are removed to keep the cache below `most_bytes`. Throws
/// Error: resource if ssh fails, bad input if the file is missing or no HDF5, cancelled.
///
/// One connection does all, because each may take seconds: the other side prints size and time, waits for a line, and
/// sends the file. $KVSCOPE_SSH is run instead of ssh.
std::filesystem::path copy_remote(const RemoteFile& file, const CopyProgress& progress,
                                  std::uint64_t most_bytes = kRemoteCacheBytes);

}  // namespace kvscope::app
