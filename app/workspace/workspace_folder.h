#pragma once
// Where a window keeps its workspace: $XDG_STATE_HOME/kvscope/workspace, with a trace of each run that was decoded here.
//
//     workspace/lock            held by the window as long as it lives, however it ends
//     workspace/workspace.json  workspace_file.h
//     workspace/runs/run-3.h5   the run with the id 3
//
// A second window finds the lock held and takes workspace-2, which is its own.

#include <filesystem>
#include <map>
#include <string>

#include "engine/core/support/file.h"

namespace kvscope::app {

class WorkspaceFolder {
 public:
  /// `state`: state_folder(). Empty: there is none, and none is missed.
  explicit WorkspaceFolder(const std::filesystem::path& state);
  /// It can be read.
  bool exists() const { return !path_.empty(); }
  bool is_writable() const { return exists() && unusable_.empty(); }
  /// What cannot be written, and what the system says of it. Empty if all can, or no folder is wanted.
  const std::string& unusable() const { return unusable_; }
  const std::string& reason() const { return reason_; }
  /// Whether it can be written by now. One that was not there when the window began is taken only if nobody has used it.
  bool try_again();
  const std::filesystem::path& path() const { return path_; }
  int number() const { return number_; }  // 1, or that of a second, third ... window
  std::filesystem::path state_file() const { return path_ / "workspace.json"; }
  std::filesystem::path run_file(int id) const;
  /// Runs that have a file, by id.
  std::map<int, std::filesystem::path> run_files() const;
  /// What a window that was killed has left half-written beside them. Before anything is saved there.
  void remove_leftovers() const;

 private:
  void look(bool for_empty_one);
  /// Makes and locks it. False: another window has it.
  bool take(const std::filesystem::path& path);
  void probe();

  std::filesystem::path state_, path_;
  std::string unusable_, reason_;
  FileHandle lock_;
  int number_ = 0;
};

/// Gives a file that cannot be read another name in its folder, "workspace.damaged-1.json", so that nothing writes over it.
/// The new path; empty if it could not be renamed.
std::filesystem::path set_aside(const std::filesystem::path& file);

}  // namespace kvscope::app
