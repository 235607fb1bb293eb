#include "app/workspace/run_autosave.h"

#include <algorithm>
#include <string>
#include <utility>

#include "app/workspace/kept_warning.h"
#include "engine/core/trace/trace_file.h"

namespace kvscope::app {
namespace {

// A run that grows is written whole again each time: at most a tenth of the time goes into that.
constexpr std::chrono::seconds kInterval(2);
constexpr double kRestPerSave = 10;
constexpr std::chrono::seconds kRetryInterval(10);  // and at the end, unless that was just now

/// A trace is of a run that has ended. What was there when the window went is what a cancelled run is.
std::shared_ptr<const RunRecord> ended(const std::shared_ptr<const RunRecord>& run) {
  if (run->status != RunStatus::running) return run;
  auto copy = std::make_shared<RunRecord>(*run);
  finish_run(*copy, RunStatus::cancelled, "the window closed during the run");
  return copy;
}

}  // namespace

RunAutosave::RunAutosave(Session& session, const WorkspaceFolder& folder, Worker& worker, Clock clock, Limits limits)
    : session_(session), folder_(folder), worker_(worker), clock_(std::move(clock)), limits_(limits) {}

void RunAutosave::know(int id, const std::shared_ptr<const RunRecord>& run, std::uintmax_t bytes) {
  saved_[id] = {.run = run, .on_disk = true, .bytes = bytes};
}

bool RunAutosave::is_due(const RunEntry& entry, bool now) const {
  if (!entry.own || entry.run->n_tokens() == 0) return false;
  const auto it = saved_.find(entry.id);
  if (it == saved_.end()) return true;
  const Saved& saved = it->second;
  if (saved.given_up || saved.run.lock() == entry.run) return false;
  if (saved.refused) return clock_() - saved.begun >= kRetryInterval;
  if (now || entry.run->status != RunStatus::running) return true;
  const auto rest = std::max(std::chrono::duration<double>(kInterval), kRestPerSave * saved.took);
  return clock_() - saved.begun >= rest;
}

bool RunAutosave::idle() const {
  return !saving_ &&
         std::ranges::none_of(session_.runs().all(), [&](const RunEntry& entry) { return is_due(entry, true); });
}

bool RunAutosave::keeps_all() const {
  return std::ranges::none_of(saved_, [](const auto& one) { return one.second.refused; });
}

bool RunAutosave::is_behind() const {
  return std::ranges::any_of(session_.runs().all(), [&](const RunEntry& entry) {
    return entry.run->status != RunStatus::running && is_due(entry, false);
  });
}

void RunAutosave::tick(bool now) {
  if (saving_ || !folder_.is_writable()) return;
  const std::set<int> known = wanted();
  std::erase_if(saved_, [&](const auto& one) {
    return !one.second.given_up && !one.second.refused && !known.contains(one.first);
  });
  for (const RunEntry& entry : session_.runs().all()) {
    if (is_due(entry, now)) return save(entry);
  }
}

void RunAutosave::try_again() {
  for (auto& [id, saved] : saved_) {
    if (saved.refused) saved.begun = clock_() - kRetryInterval;
  }
}

void RunAutosave::save(const RunEntry& entry) {
  saving_ = true;
  saved_[entry.id].begun = clock_();
  worker_.post(
      [this, id = entry.id, run = entry.run, path = folder_.run_file(entry.id)]() -> Worker::Finish {
        save_trace(path, *ended(run), true);
        std::error_code error;
        const std::uintmax_t size = std::filesystem::file_size(path, error), bytes = error ? 0 : size;
        return [this, id, run, bytes] { saved(id, run, bytes); };
      },
      [this, id = entry.id](const std::string& text) { refused(id, text); });
}

void RunAutosave::refused(int id, const std::string& text) {
  saving_ = false;
  if (std::exchange(saved_[id].refused, true)) return;  // it was said
  warn_not_kept(session_.messages(), "Run " + std::to_string(id), text + ". KVScope will try again.");
}

void RunAutosave::saved(int id, const std::shared_ptr<const RunRecord>& run, std::uintmax_t bytes) {
  saving_ = false;
  Saved& saved = saved_[id];
  saved.run = run;
  saved.on_disk = true;
  saved.bytes = bytes;
  saved.took = clock_() - saved.begun;
  if (std::exchange(saved.refused, false)) {
    take_back_not_kept(session_.messages(), "Run " + std::to_string(id));
    session_.messages().notify("run " + std::to_string(id) + " will be restored at the next launch after all");
  }
  keep_within_limits();
}

void RunAutosave::keep_within_limits() {
  while (true) {
    std::size_t runs = 0;
    std::uintmax_t bytes = 0;
    int oldest = 0;
    const int a = session_.runs().a_id(), b = session_.runs().b_id();
    for (const auto& [id, saved] : saved_) {
      if (!saved.on_disk || saved.given_up) continue;
      ++runs, bytes += saved.bytes;
      if (oldest == 0 && id != a && id != b && id != session_.runs().newest_begun()) oldest = id;
    }
    if (oldest == 0 || (runs <= limits_.runs && bytes <= limits_.bytes)) return;
    saved_[oldest] = {.given_up = true};
    const RunEntry* entry = session_.runs().find(oldest);
    if (entry && entry->trace_path.empty())
      session_.messages().notify("run " + std::to_string(oldest) +
                                 " will not be restored at the next launch, because there are too many runs. Save it "
                                 "as a trace.");
  }
}

std::set<int> RunAutosave::wanted() const {
  std::set<int> ids;
  const auto is_lost = [&](int id) {
    const auto it = saved_.find(id);
    return it != saved_.end() && (it->second.given_up || (it->second.refused && !it->second.on_disk));
  };
  const auto add = [&](const std::vector<RunEntry>& entries) {
    for (const RunEntry& entry : entries) {
      if (entry.own && !is_lost(entry.id)) ids.insert(entry.id);
    }
  };
  add(session_.runs().all());
  add(session_.runs().removed());
  return ids;
}

}  // namespace kvscope::app
