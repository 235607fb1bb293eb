#pragma once
// The runs that were decoded here, as traces in the workspace's folder: each when it has ended, and every few seconds while
// it grows. So a window that is killed loses seconds of a run at most.

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "app/session/session.h"
#include "app/session/worker.h"
#include "app/workspace/workspace_folder.h"

namespace kvscope::app {

class RunAutosave {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;
  /// Together these may be on disk; beyond it the oldest that is not on show goes, and the person is told.
  struct Limits {
    std::size_t runs = 20;
    std::uintmax_t bytes = 2ull << 30;
  };
  /// `worker` writes; what they are given must outlive it.
  RunAutosave(Session& session, const WorkspaceFolder& folder, Worker& worker, Clock clock, Limits limits);

  /// A run that is on disk as it is, from an earlier session.
  void know(int id, const std::shared_ptr<const RunRecord>& run, std::uintmax_t bytes);
  /// Saves what is due, one run at a time. `now`: also what is not due yet.
  void tick(bool now);
  /// What the disk refused is tried once more by the next tick.
  void try_again();
  /// Nothing is left to save, or the disk has just refused it.
  bool idle() const;
  /// The disk has refused none of them.
  bool keeps_all() const;
  /// A run has ended, and its end is not on disk yet.
  bool is_behind() const;
  /// Those that are on disk or are to be, on the list or removed from it. The file of no other run is needed.
  std::set<int> wanted() const;

 private:
  struct Saved {
    std::weak_ptr<const RunRecord> run;  // as it was saved last: a longer one's predecessors need not stay in memory
    bool on_disk = false;
    std::uintmax_t bytes = 0;
    std::chrono::steady_clock::time_point begun{};
    std::chrono::duration<double> took{};
    bool given_up = false;  // there are too many
    bool refused = false;   // by the disk, when it was tried last: it may have room again
  };
  bool is_due(const RunEntry& entry, bool now) const;
  void save(const RunEntry& entry);
  void refused(int id, const std::string& text);
  void saved(int id, const std::shared_ptr<const RunRecord>& run, std::uintmax_t bytes);
  void keep_within_limits();

  Session& session_;
  const WorkspaceFolder& folder_;
  Worker& worker_;
  Clock clock_;
  Limits limits_;
  std::map<int, Saved> saved_;
  bool saving_ = false;
};

}  // namespace kvscope::app
