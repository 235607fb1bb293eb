#pragma once
// The runs, measured here or read from a trace, and which two of them are A and B.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/session/run_assembler.h"
#include "engine/core/record/run_record.h"

namespace kvscope::app {

struct RunEntry {
  int id = 0;  // 1, 2, ... in the order they came
  std::shared_ptr<const RunRecord> run;
  std::uint64_t revision = 0;
  std::string trace_path;  // where it was saved or read, empty if nowhere
  int trace_run = 0;       // which one of that file
  bool own = false;        // decoded by a window, not read from somebody's trace
  std::string name = {};   // that the person gave it

  /// Texts before which its answer ends, which are among its tokens.
  std::vector<std::string> stop() const {
    return run->asked == nullptr ? std::vector<std::string>() : run->asked->request.stop;
  }
};

/// "run 3 complete: 274 tokens, prefill 0.12 s, 35.0 tok/s"
std::string summary(const RunEntry& entry);

/// Refused, failed or stopped before anything of it was read: what it would have kept nobody knows.
bool is_stillborn(const RunRecord& run);

class RunList {
 public:
  enum class Place { a, b };

  const std::vector<RunEntry>& all() const { return runs_; }
  /// A run of the list; nullptr for one that was removed.
  const RunEntry* find(int id) const;
  /// Off the list and not forgotten.
  const std::vector<RunEntry>& removed() const { return removed_; }
  const RunEntry* a() const { return find(a_id_); }
  const RunEntry* b() const { return find(b_id_); }
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
  void set_trace_path(int id, const std::string& path);
  void rename(int id, const std::string& name);
  /// 0: none. Throws Error (usage) for a run that is not there.
  void show(int a_id, int b_id);
  /// B takes the place of a removed A, without a B the newest run that has something to show. The entry is kept until it
  /// is forgotten.
  void remove(int id);
  void bring_back(int id);
  void forget(int id);

  /// The run that a list scrolls to: which began, or has come on show, last. `n` counts these.
  struct InSight {
    int id = 0, n = 0;
  };
  const InSight& in_sight() const { return in_sight_; }
  void bring_in_sight(int id) { in_sight_ = {id, in_sight_.n + 1}; }

 private:
  RunEntry* entry(int id);
  void take_place();
  void give_place_back();
  int newest_with_tokens() const;  // 0 if none has

  std::vector<RunEntry> runs_, removed_;  // ids ascending
  int next_id_ = 1, a_id_ = 0, b_id_ = 0, begun_ = 0;
  std::optional<Place> wanted_;      // of the run that was begun last, until it has it
  int a_before_ = 0, b_before_ = 0;  // who was on show then
  InSight in_sight_;
};

}  // namespace kvscope::app
