// Session: traces in and out. One that is opened again is looked through for runs that are new.

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include "app/session/session.h"
#include "app/support/usage.h"

namespace kvscope::app {
namespace {

namespace fs = std::filesystem;

std::string full_path(const std::string& path) {
  std::error_code error;
  const fs::path full = fs::absolute(path, error);
  return error ? path : full.lexically_normal().string();
}

/// What came of another decode differs in this, and none of it grows with layers and heads: it is asked on the window's
/// thread of runs of 131k tokens.
bool is_same_run(const RunRecord& a, const RunRecord& b) {
  const auto same_bits = [](const std::vector<float>& x, const std::vector<float>& y) {  // the first is NaN
    return x.size() == y.size() && (x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0);
  };
  return a.started_utc == b.started_utc && a.model.weights_hash == b.model.weights_hash && a.policy == b.policy &&
         a.changes == b.changes && a.status == b.status && a.prompt_len == b.prompt_len && a.ids == b.ids &&
         a.scores.empty() == b.scores.empty() && a.future_mass.empty() == b.future_mass.empty() &&
         a.output_error.empty() == b.output_error.empty() && same_bits(a.logprobs, b.logprobs);
}

const RunEntry* find_same(const std::vector<RunEntry>& entries, const std::string& path, const RunRecord& run, int i) {
  const auto found = std::ranges::find_if(entries, [&](const RunEntry& entry) {
    return entry.trace_path == path && entry.trace_run == i && is_same_run(*entry.run, run);
  });
  return found == entries.end() ? nullptr : &*found;
}

std::string words_of(int n_new, int n_taken, int n_in_file) {
  const std::string n = std::to_string(n_taken), all = n_in_file > n_taken ? n + " of " + std::to_string(n_in_file) : n;
  const std::string from = n_in_file == 1 ? " run from " : " runs from ";
  if (n_new == 0) return "already open: " + all + from;
  return n_new == n_taken ? all + from : std::to_string(n_new) + " new of " + all + from;
}

}  // namespace

bool Session::is_listed(const std::string& trace) const {
  return std::ranges::count(runs_.all(), trace, &RunEntry::trace_path) > 0;
}

void Session::open_trace(const std::string& path) {
  models_.look();            // one of them may be the trace's
  std::string trace = path;  // as its runs name it: they are one line of the list
  for (const auto* entries : {&runs_.all(), &runs_.removed()}) {
    for (const RunEntry& entry : *entries) {
      if (!entry.trace_path.empty() && full_path(entry.trace_path) == full_path(path)) trace = entry.trace_path;
    }
  }
  half_read_.erase(trace);  // it is read whole
  read_trace(trace, 0);
}

void Session::read_trace(const std::string& path, int first) {
  const auto n_new = std::make_shared<int>(first);
  const auto n_removed = [this, path] {
    return static_cast<int>(std::ranges::count(runs_.removed(), path, &RunEntry::trace_path));
  };
  files_.open_trace(
      path, first,
      [this, path, n_new](std::shared_ptr<const RunRecord> run, int i) {
        if (i > 0 && !is_listed(path)) {  // it was closed
          half_read_[path] = i;
          return false;
        }
        *n_new += take_run(path, std::move(run), i) ? 1 : 0;
        return true;
      },
      [this, path, n_new, n_removed, before = n_removed()](int n_taken, int n_in_file) {
        const int n_back = std::max(0, before - n_removed());  // they were not open, and their records were there
        messages_.notify(words_of(*n_new + n_back, n_taken, n_in_file) + path);
      });
}

bool Session::take_run(const std::string& path, std::shared_ptr<const RunRecord> run, int i) {
  if (i == 0 && (find_same(runs_.removed(), path, *run, i) || find_same(runs_.all(), path, *run, i)))
    bring_back_trace(path);
  const RunEntry* there = find_same(runs_.all(), path, *run, i);
  const int id = there ? there->id : runs_.add(std::move(run), path, i);
  if (i > 0) return there == nullptr;
  selection_.runs.clear();
  if (there && a() && a()->trace_path == path) {
    messages_.notify("already open: " + path);
    runs_.bring_in_sight(a()->id);
    return false;
  }
  show(id, 0);
  if (there) runs_.bring_in_sight(id);
  // The panel's policy is a statement about the run beside it: of a run that comes from elsewhere it would be an untrue one.
  if (!run_in_progress()) set_policy(a()->run->policy);
  suggest_metric();
  return there == nullptr;
}

// All at once: a step of Undo for each run would bury what was done before.
void Session::bring_back_trace(const std::string& path) {
  std::vector<int> ids;
  for (const RunEntry& entry : runs_.removed()) {
    if (entry.trace_path == path) ids.push_back(entry.id);
  }
  for (const int id : ids) runs_.bring_back(id);
}

void Session::read_on_traces() {
  const auto half_read = half_read_;
  for (const auto& [path, next] : half_read) {
    if (!is_listed(path)) continue;
    half_read_.erase(path);
    read_trace(path, next);
  }
}

void Session::save_trace(int run_id, const std::string& path, bool overwrite) {
  const RunEntry* entry = find_run(run_id);
  if (!entry || entry->run->n_tokens() == 0) usage_error("trace", "no run to save");
  if (run_id == runs_.newest_begun() && run_in_progress())
    usage_error("trace", "the run is in progress", "", "save it when it has ended");
  files_.save_trace(path, entry->run, overwrite, [this, run_id, path] { runs_.set_trace_path(run_id, path); });
}

}  // namespace kvscope::app
