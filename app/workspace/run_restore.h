#pragma once
// The runs of the last session, read one after the other in the background: those that were on show first.

#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "app/session/session.h"
#include "app/session/worker.h"
#include "app/workspace/run_autosave.h"
#include "app/workspace/workspace_file.h"
#include "app/workspace/workspace_folder.h"
#include "engine/core/trace/trace_child.h"

namespace kvscope::app {

class RunRestore {
 public:
  /// `trace_program` reads the traces, as in Files; what is given must outlive it.
  RunRestore(Session& session, const WorkspaceFolder& folder, RunAutosave& autosave, Worker& worker,
             std::string trace_program);

  /// The runs that the file names, and those in the folder that it cannot know of because the window was killed before it
  /// was written again. `done` is called when all were read or could not be.
  void start(const WorkspaceFile& file, std::function<void()> done);
  bool busy() const { return busy_; }
  int restored() const { return restored_; }

 private:
  /// A file that was written by hand may say anything: one entry a run, one run a place, and ids that leave room for more.
  /// Whether all were.
  bool make_sound(std::vector<SavedRun>& runs);
  void next();
  void loaded(const SavedRun& run, const std::shared_ptr<const RunRecord>& record, std::uintmax_t bytes);
  void failed(const SavedRun& run, const std::string& text);
  void show();

  Session& session_;
  const WorkspaceFolder& folder_;
  RunAutosave& autosave_;
  Worker& worker_;
  std::string trace_program_;
  std::deque<SavedRun> waiting_;
  /// The trace that was read last, on the worker's thread only: 64 runs of one file are one reading child.
  struct Reader {
    std::filesystem::path path;
    std::unique_ptr<TraceReader> trace;
  };
  std::shared_ptr<Reader> reader_ = std::make_shared<Reader>();
  views::Selection selection_;
  int a_ = 0, b_ = 0, shown_a_ = 0, shown_b_ = 0, restored_ = 0;
  bool preview_ = false;
  bool busy_ = false;
  std::function<void()> done_;
};

}  // namespace kvscope::app
