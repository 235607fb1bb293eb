#pragma once
// What is in a folder, listed in the background: a disk that sleeps or hangs costs no frame.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/catalog/path_kind.h"
#include "app/session/revision.h"
#include "app/session/worker.h"

namespace kvscope::app {

struct FolderEntry {
  std::string name;
  bool folder = false;
  PathKind kind = PathKind::unknown;  // model and gate of folders; of files by their names
};

struct FolderListing {
  std::string folder;                // as it was asked for
  std::vector<FolderEntry> entries;  // folders first, each in order of name; hidden ones where asked for, at most 2000
  std::string error;                 // why it cannot be read
  const FolderEntry* find(std::string_view name) const;
};

/// "~" and "~/..." begin at the home folder.
std::string expand_home(const std::string& path);
/// A typed path in two parts, "runs/a" into "runs/" and "a": what is listed, and what its names begin with.
struct TypedPath {
  std::string folder, name;
};
TypedPath split_path(const std::string& typed);
/// As far as all names of the folder that begin so agree, a slash behind a single folder; `name` itself if none does.
std::string complete(const FolderListing& listing, const std::string& name);

class FolderList {
 public:
  FolderList(Revision& revision, std::function<void()> wake) : revision_(revision), worker_(std::move(wake)) {}

  void poll();
  /// Its listing: the one asked for if it is there, else null, and it is looked for. "" is the working folder.
  const FolderListing* of(const std::string& folder);
  /// What is at a path, the name of a known model too, once it was looked for; it is looked for again at the next call.
  std::optional<PathKind> take_kind(const std::string& path);
  /// The next of() reads the disk again.
  void forget() { asked_.clear(), kind_of_.clear(), ready_ = false; }

 private:
  Revision& revision_;
  std::string asked_;
  bool ready_ = false, waiting_ = false;
  FolderListing listing_;
  std::string kind_of_;  // what take_kind() was asked of; empty: nothing
  std::optional<PathKind> kind_;
  Worker worker_;  // of its own: a hanging disk must not hold up the saving of a run
};

}  // namespace kvscope::app
