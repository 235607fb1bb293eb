#pragma once
// What lasts: the state of the window and its runs, from one start to the next, after a clean end as after kill -9, and the
// steps of Undo.
//
// One window's thread owns it; the disk is reached by a thread of its own.

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "app/session/session.h"
#include "app/session/worker.h"
#include "app/workspace/notes_keeper.h"
#include "app/workspace/run_autosave.h"
#include "app/workspace/run_restore.h"
#include "app/workspace/undo.h"
#include "app/workspace/workspace_file.h"
#include "app/workspace/workspace_folder.h"

namespace kvscope::app {

class Workspace {
 public:
  struct Options {
    std::filesystem::path state;     // state_folder(); empty: nothing is read and nothing kept
    std::string no_place = {};       // why there is no such folder, where one is wanted
    std::filesystem::path settings;  // file; empty: the same
    std::string trace_program = "/proc/self/exe";
    std::function<void()> wake;
    Undo::Clock clock = std::chrono::steady_clock::now;
    RunAutosave::Limits limits = {};
  };
  /// Reads the settings into `appearance`, and begins to read the workspace.
  Workspace(Session& session, Layout& layout, Appearance& appearance, Options options);
  ~Workspace();

  Undo& undo() { return undo_; }
  const Undo& undo() const { return undo_; }

  /// The last session's parameters and layout are in place, or there was none.
  bool is_read() const { return read_; }
  /// Of the last session; empty: the window starts afresh.
  const std::string& model() const { return model_; }
  /// That its engine had, as far as they are still there.
  const std::vector<std::string>& gates() const { return gates_; }
  bool is_fresh() const { return fresh_; }
  /// The runs of the last session are back, or there were none.
  bool is_restored() const { return read_ && !restore_.busy(); }
  /// The window has its prompt: steps begin here, and from here on what changes is written.
  void begin();

  /// Takes in what the disk has answered, and has written what has changed. Call in every round of the window's loop.
  void poll();
  /// Writes now rather than within a second.
  void save();
  /// All is on disk: state, settings and runs.
  bool saved() const;
  /// Waits for that, but never longer than this: a disk may be dead. False: not all is on disk. The window's end.
  static constexpr std::chrono::seconds kPatience{15};
  bool finish(std::chrono::milliseconds patience = kPatience);
  /// Takes all runs off the list: one step, which can be undone. Throws Error (usage) while a run is in progress.
  void clear();

  /// What scripts and tests see of it.
  nlohmann::json state() const;

 private:
  void read();
  void take(const WorkspaceFile& file);
  void damaged(const std::string& text);
  void restored();
  void write_state();
  void write_settings();
  bool state_is_written() const;
  void warn_nothing_kept();
  void look_for_folder();
  bool wants_folder() const { return !options_.state.empty() || !options_.no_place.empty(); }
  /// All that should be on disk can be, and nothing was refused.
  bool keeps_all() const;

  Session& session_;
  Layout& layout_;
  Appearance& appearance_;
  Options options_;
  WorkspaceFolder folder_;
  Undo undo_;
  bool read_ = false, begun_ = false, fresh_ = true, writing_ = false, now_ = false;
  std::string model_;
  std::vector<std::string> gates_;

  /// What a file is of; it is written again when one of them is another.
  struct Written {
    std::optional<WorkspaceState> state;
    std::set<int> wanted;  // files of runs
    int next_run = 0;
    std::string model;
    std::vector<std::string> gates;
    std::string place;
    std::vector<std::pair<int, std::string>> traces, names;
    bool preview = false;
    std::vector<std::pair<int, StudyJob::State>> studies;
    bool operator==(const Written&) const = default;
  } written_;
  Written current() const;
  std::optional<Appearance> written_settings_;
  std::chrono::steady_clock::time_point written_at_{}, looked_at_{}, refused_at_{};
  bool refused_ = false;  // the state, by the disk, when it was written last

  Worker worker_;  // after what its jobs refer to
  RunAutosave autosave_;
  RunRestore restore_;
  NotesKeeper notes_;
};

}  // namespace kvscope::app
