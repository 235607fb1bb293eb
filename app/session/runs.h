#pragma once
// The runs of a session: the list, which two of them are A and B, and what is selected of their text.

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "app/session/messages.h"
#include "app/session/preview.h"
#include "app/session/run_assembler.h"
#include "views/selection/view_state.h"

namespace kvscope::app {

class EngineLink;

/// A run of the list, measured here or read from a trace.
struct RunEntry {
  int id = 0;  // 1, 2, ... in the order they came
  std::shared_ptr<const RunRecord> run;
  std::uint64_t revision = 0;
  std::string trace_path;  // where it was saved or read, empty if nowhere
  int trace_run = 0;       // which one of that file
  bool own = false;        // decoded by a window, not read from a trace
  std::string name = {};   // that the person gave it

  /// Texts before which its answer ends, which are among its tokens.
  std::vector<std::string> stop() const {
    return run->asked == nullptr ? std::vector<std::string>() : run->asked->request.stop;
  }
};

/// Refused, failed or stopped before anything of it was read: what it would have kept is not known.
inline bool is_stillborn(const RunRecord& run) {
  return run.n_queries == 0 && (run.status == RunStatus::failed || run.status == RunStatus::cancelled);
}

/// Else nothing of it could be seen; of a trace it may be that no record tells how far it was read.
inline bool has_row(const RunEntry& entry) { return !is_stillborn(*entry.run) || !entry.trace_path.empty(); }

class Runs {
 public:
  enum class Place { a, b };

  Runs(const EngineLink& engine, Preview& preview, views::Selection& selection, Messages& messages, Revision& revision,
       Worker& background);

  const std::vector<RunEntry>& all() const { return runs_; }
  /// A run of the list; nullptr for one that was removed.
  const RunEntry* find(int id) const;
  /// Off the list and not forgotten.
  const std::vector<RunEntry>& removed() const { return removed_; }
  std::set<int> removed_ids() const;
  int a_id() const { return a_id_; }  // 0: none
  int b_id() const { return b_id_; }
  const RunEntry* a() const { return find(a_id_); }
  const RunEntry* b() const { return find(b_id_); }
  std::pair<int, int> shown_ids() const { return {a_id_, b_id_}; }
  /// The run that was begun last; 0 if none was.
  int newest_begun() const { return begun_; }

  /// Returns the new entry's id.
  int add(std::shared_ptr<const RunRecord> run, std::string trace_path, int trace_run = 0);
  /// An entry of an earlier session, under its id. Later ids are higher.
  void put_back(RunEntry entry);
  /// Ids from here on; never lower than they would be.
  void begin_ids_at(int next_id) { next_id_ = std::max(next_id_, next_id); }
  int next_id() const { return next_id_; }
  /// Adds the record of a run that begins. It takes its place, as A alone, once it has tokens: one that is refused
  /// leaves what is on show as it was.
  void begin(RunRecord record, Place place);
  /// What has become of the run that was begun last; nothing if it was removed. One that fails before its first fact
  /// gives its place back to what was there. Returns whether A or B is another run now.
  bool grow(RunAssembler::Snapshot snapshot);
  void fail(const std::string& message);
  /// A run that grows without an engine, for the bench of the window: becomes A, then grows with each call.
  void show_growing(std::shared_ptr<const RunRecord> run, std::uint64_t revision);
  void set_trace_path(int id, const std::string& path);
  /// Empty: it has no name. Throws Error (usage) for a run that is not there.
  void rename(int id, const std::string& name);
  /// 0: none. The preview goes if it is of another A, or if there is a B. Throws Error (usage) for a run that is not there.
  void show(int a_id, int b_id);
  void swap();
  /// B takes the place of a removed A, without a B the newest run with tokens. The entry is kept until it is forgotten.
  void remove(int id);
  void bring_back(int id);
  /// These are off the list, all others on it; ids of no run are passed over. Returns whether that was not so before.
  bool set_removed(const std::set<int>& ids);
  void forget(const std::set<int>& ids);

  /// The run that a list scrolls to: which began, or has come on show, last. `n` counts these.
  struct InSight {
    int id = 0, n = 0;
  };
  const InSight& in_sight() const { return in_sight_; }
  void bring_in_sight(int id) { in_sight_ = {id, in_sight_.n + 1}; }

  /// A, and beside it B or the preview of A; null if none is on show. Valid until the next call that changes the session.
  const views::ShownRun* shown_a() const { return shown_a_.run ? &shown_a_ : nullptr; }
  const views::ShownRun* shown_b() const { return shown_b_.run ? &shown_b_ : nullptr; }
  /// First position at which their tokens differ; -1 if they do not.
  int divergence() const;
  /// Those of the selection's runs that are on the list and have A's layers and heads.
  std::vector<views::ShownRun> chosen() const;
  /// A, B and the others of the list with A's layers and heads and its first n tokens, kMostOfOneText at most; none without A.
  std::vector<views::ShownRun> same_text(int n) const;
  static constexpr std::size_t kMostOfOneText = 8;
  /// The metric on show becomes one that fits A and B, unless one was chosen; the first time the head one that evicts.
  void suggest_metric();
  void clamp_selection();
  /// What is on show becomes what the list and the preview have.
  void update();

 private:
  RunEntry* entry(int id);
  void take_place();
  void give_place_back();
  bool take(RunAssembler::Snapshot snapshot);
  int newest_with_tokens() const;  // 0 if none has
  void update_shown_b();
  /// What is selected of A's text is not carried to another text.
  void leave_text_of_a();

  const EngineLink& engine_;
  Preview& preview_;
  views::Selection& selection_;
  Messages& messages_;
  Revision& revision_;
  Worker& background_;
  std::vector<RunEntry> runs_, removed_;  // ids ascending
  int next_id_ = 1, a_id_ = 0, b_id_ = 0, begun_ = 0;
  std::optional<Place> wanted_;      // of the run that was begun last, until it has it
  int a_before_ = 0, b_before_ = 0;  // what was on show then
  InSight in_sight_;
  views::ShownRun shown_a_, shown_b_;
  bool head_was_shown_ = false;                                   // one that evicts
  std::pair<int, std::shared_ptr<const RunRecord>> selected_of_;  // id and run of the A that the selection was made on
};

}  // namespace kvscope::app
