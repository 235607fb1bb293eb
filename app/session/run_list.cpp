#include "app/session/run_list.h"

#include <algorithm>
#include <utility>

#include "app/session/rate_text.h"
#include "app/support/usage.h"
#include "engine/core/study/measure/compare_runs.h"
#include "engine/core/support/text.h"

namespace kvscope::app {

std::string summary(const RunEntry& entry) {
  const RunRecord& run = *entry.run;
  const RunTimings& timings = run.timings;
  const double rate = timings.decode_s > 0 ? timings.decode_steps / timings.decode_s : 0;
  return "run " + std::to_string(entry.id) + " " + std::string(to_string(run.status)) + ": " +
         std::to_string(run.n_tokens()) + " tokens, prefill " + fixed_text(timings.prefill_s, 2) + " s, " +
         rate_text(rate);
}

const RunEntry* RunList::find(int id) const {
  const auto it = std::ranges::find(runs_, id, &RunEntry::id);
  return it == runs_.end() ? nullptr : &*it;
}

RunEntry* RunList::entry(int id) { return const_cast<RunEntry*>(find(id)); }

int RunList::add(std::shared_ptr<const RunRecord> run, std::string trace_path, int trace_run) {
  runs_.push_back(
      {.id = next_id_++, .run = std::move(run), .trace_path = std::move(trace_path), .trace_run = trace_run});
  return runs_.back().id;
}

void RunList::put_back(RunEntry entry) {
  if (find(entry.id)) return;
  begin_ids_at(entry.id + 1);
  const auto at = std::ranges::upper_bound(runs_, entry.id, {}, &RunEntry::id);
  runs_.insert(at, std::move(entry));
}

void RunList::begin(RunRecord record, Place place) {
  begun_ = add(std::make_shared<const RunRecord>(std::move(record)), "");
  runs_.back().own = true;
  wanted_ = place;
  bring_in_sight(begun_);
  if (find(begun_)->run->n_tokens() > 0 || !a()) take_place();
}

void RunList::take_place() {
  const Place place = *std::exchange(wanted_, std::nullopt);
  a_before_ = a_id_, b_before_ = b_id_;
  if (place == Place::b && a()) {
    b_id_ = begun_;
  } else {
    // B is what A is held against, whichever run is A, as long as both answer one prompt.
    const RunRecord& run = *find(begun_)->run;
    if (b() && !(b()->run->model.weights_hash == run.model.weights_hash && same_prompt(run, *b()->run))) b_id_ = 0;
    a_id_ = begun_;
  }
}

bool is_stillborn(const RunRecord& run) {
  return run.n_queries == 0 && (run.status == RunStatus::failed || run.status == RunStatus::cancelled);
}

// Where the person has not put another one meanwhile.
void RunList::give_place_back() {
  wanted_.reset();
  if (a_id_ != begun_ && b_id_ != begun_) return;
  if (a_id_ == begun_) a_id_ = find(a_before_) ? a_before_ : 0;
  b_id_ = find(b_before_) ? b_before_ : 0;
}

bool RunList::grow(RunAssembler::Snapshot snapshot) {
  RunEntry* run = entry(begun_);
  if (!run) return false;
  const std::pair before(a_id_, b_id_);
  run->run = std::move(snapshot.run);
  run->revision = snapshot.revision;
  if (is_stillborn(*run->run)) {
    give_place_back();
  } else if (wanted_ && run->run->n_tokens() > 0) {
    take_place();
  }
  return std::pair(a_id_, b_id_) != before;
}

void RunList::fail(const std::string& message) {
  RunEntry* run = entry(begun_);
  if (!run) return;
  auto failed = std::make_shared<RunRecord>(*run->run);
  finish_run(*failed, RunStatus::failed, message);
  grow({.request_id = 0, .run = std::move(failed), .revision = run->revision + 1});
}

void RunList::set_trace_path(int id, const std::string& path) {
  if (RunEntry* run = entry(id)) run->trace_path = path, run->trace_run = 0;  // the file has this run alone
}

void RunList::rename(int id, const std::string& name) {
  if (RunEntry* run = entry(id)) run->name = name;
}

void RunList::show(int a_id, int b_id) {
  if ((a_id != 0 && !find(a_id)) || (b_id != 0 && !find(b_id))) usage_error("run", "no such run");
  const int a_before = std::exchange(a_id_, a_id), b_before = std::exchange(b_id_, b_id == a_id ? 0 : b_id);
  if (b_id_ != 0 && b_id_ != b_before && b_id_ != a_before) bring_in_sight(b_id_);
  if (a_id_ != 0 && a_id_ != a_before && a_id_ != b_before) bring_in_sight(a_id_);
}

void RunList::remove(int id) {
  const auto it = std::ranges::find(runs_, id, &RunEntry::id);
  if (it == runs_.end()) return;
  removed_.push_back(std::move(*it));
  runs_.erase(it);
  if (b_id_ == id) b_id_ = 0;
  if (a_id_ != id) return;
  a_id_ = std::exchange(b_id_, 0);
  if (a_id_ == 0) a_id_ = newest_with_tokens();
}

int RunList::newest_with_tokens() const {
  for (auto entry = runs_.rbegin(); entry != runs_.rend(); ++entry) {
    if (entry->run->n_tokens() > 0) return entry->id;
  }
  return 0;
}

void RunList::bring_back(int id) {
  const auto it = std::ranges::find(removed_, id, &RunEntry::id);
  if (it == removed_.end()) return;
  RunEntry entry = std::move(*it);
  removed_.erase(it);
  put_back(std::move(entry));
}

void RunList::forget(int id) {
  std::erase_if(removed_, [id](const RunEntry& run) { return run.id == id; });
}

}  // namespace kvscope::app
