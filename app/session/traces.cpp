#include "app/session/traces.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <utility>

#include "app/session/session.h"
#include "app/support/trace_open.h"
#include "app/support/usage.h"
#include "engine/core/support/error.h"
#include "engine/core/trace/trace_file.h"

namespace kvscope::app {
namespace {

constexpr int kMaxOpenedRuns = 64;  // of one trace; a list of thousands helps no one

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

bool Traces::is_listed(const std::string& trace) const {
  return std::ranges::count(session_.runs().all(), trace, &RunEntry::trace_path) > 0;
}

void Traces::open(const std::string& path) {
  session_.model().known().look();  // one of them may be the trace's
  std::string trace = path;         // as its runs name it: they are one line of the list
  for (const auto* entries : {&session_.runs().all(), &session_.runs().removed()}) {
    for (const RunEntry& entry : *entries) {
      if (!entry.trace_path.empty() && full_path(entry.trace_path) == full_path(path)) trace = entry.trace_path;
    }
  }
  half_read_.erase(trace);  // it is read whole
  read(trace, 0);
}

int Traces::n_removed(const std::string& path) const {
  return static_cast<int>(std::ranges::count(session_.runs().removed(), path, &RunEntry::trace_path));
}

struct Traces::HalfRead {
  std::string path;
  int next, n_new, n_removed;              // the run that comes next; new ones; those that were off the list before
  int n_runs = 0;                          // to be read
  std::optional<TraceReader> reader = {};  // of the worker's thread, since the first run

  void open(const std::string& program) {
    if (reader) return;
    reader.emplace(program, path);
    n_runs = std::min(reader->info().n_runs, kMaxOpenedRuns);
    if (n_runs == 0) throw Error({.file = path, .found = "a trace without runs"});
  }
};

void Traces::read(const std::string& path, int first) {
  read_next(std::make_shared<HalfRead>(HalfRead{path, first, first, n_removed(path)}));
}

void Traces::read_next(const std::shared_ptr<HalfRead>& trace) {
  const std::string which = trace->next == 0 ? "" : "run " + std::to_string(trace->next) + " of ";
  session_.files().in_background("open " + which + trace->path, [this, trace]() -> Worker::Finish {
    std::shared_ptr<const RunRecord> run;
    std::exception_ptr failed;  // is reported once the line that shows how far it came is gone
    try {
      trace->open(program_);
      if (trace->next < trace->n_runs) run = std::make_shared<const RunRecord>(trace->reader->load(trace->next));
    } catch (...) {
      failed = std::current_exception();
    }
    return [this, trace, run, failed] {
      reading_.reset();
      if (failed) std::rethrow_exception(failed);
      const std::string& path = trace->path;
      if (trace->next == 0) session_.files().remember(path), session_.files().remember_place(path);
      if (run) {
        const int i = trace->next++;
        if (i > 0 && !is_listed(path)) {  // it was closed
          half_read_[path] = i;
          return;
        }
        trace->n_new += take_run(path, run, i) ? 1 : 0;
      }
      if (trace->next >= trace->n_runs) {
        const int n_back = std::max(0, trace->n_removed - n_removed(path));  // not open, and their records were there
        const int n_in_file = trace->reader->info().n_runs;
        return session_.messages().notify(words_of(trace->n_new + n_back, trace->n_runs, n_in_file) + path);
      }
      reading_ = Reading{path, trace->next, trace->n_runs};
      read_next(trace);
    };
  });
}

bool Traces::take_run(const std::string& path, std::shared_ptr<const RunRecord> run, int i) {
  if (i == 0 &&
      (find_same(session_.runs().removed(), path, *run, i) || find_same(session_.runs().all(), path, *run, i)))
    bring_back(path);
  const RunEntry* there = find_same(session_.runs().all(), path, *run, i);
  const int id = there ? there->id : session_.runs().add(std::move(run), path, i);
  if (i > 0) return there == nullptr;
  session_.selection().runs.clear();
  if (there && session_.runs().a() && session_.runs().a()->trace_path == path) {
    session_.messages().notify("already open: " + path);
    session_.runs().bring_in_sight(session_.runs().a()->id);
    return false;
  }
  session_.runs().show(id, 0);
  if (there) session_.runs().bring_in_sight(id);
  // The panel's policy is a statement about the run beside it: of a run that comes from elsewhere it would be an untrue one.
  if (!session_.run_in_progress()) session_.policy().set(session_.runs().a()->run->policy);
  session_.runs().suggest_metric();
  return there == nullptr;
}

void Traces::show_first(const std::string& path) {
  if (path.empty() || !session_.runs().all().empty()) return;
  session_.files().in_background("open " + path, [this, path]() -> Worker::Finish {
    try {
      auto run = std::make_shared<const RunRecord>(TraceReader(program_, path).load(0));
      return [this, path, run, found = eviction_headline(*run)] { take_first(path, run, found); };
    } catch (const std::exception& failure) {
      return [this, text = std::string(failure.what())] { session_.messages().log("no recorded run: " + text); };
    }
  });
}

void Traces::take_first(const std::string& path, std::shared_ptr<const RunRecord> run,
                        const std::optional<EvictionHeadline>& found) {
  if (!session_.runs().all().empty() || session_.run_in_progress()) return;
  session_.model().known().look();  // one of them may be the trace's
  views::Selection& selection = session_.selection();
  selection.colour = views::ColourMode::oracle;
  if (found && found->costliest) {
    const EvictionHeadline::Token& lost = *found->costliest;
    selection.layer = lost.layer, selection.kv_head = lost.kv_head, selection.token = lost.t;
  }
  const int id = session_.runs().add(std::move(run), path, 0);
  session_.runs().rename(id, "Recorded run");
  session_.runs().show(id, 0);
  session_.runs().suggest_metric();
}

// All at once: a step of Undo for each run would bury what was done before.
void Traces::bring_back(const std::string& path) {
  std::vector<int> ids;
  for (const RunEntry& entry : session_.runs().removed()) {
    if (entry.trace_path == path) ids.push_back(entry.id);
  }
  for (const int id : ids) session_.runs().bring_back(id);
}

void Traces::read_on() {
  const auto half_read = half_read_;
  for (const auto& [path, next] : half_read) {
    if (!is_listed(path)) continue;
    half_read_.erase(path);
    read(path, next);
  }
}

void Traces::save(int run_id, const std::string& path, bool overwrite) {
  const RunEntry* entry = session_.runs().find(run_id);
  if (!entry || entry->run->n_tokens() == 0) usage_error("trace", "no run to save");
  if (run_id == session_.runs().newest_begun() && session_.run_in_progress())
    usage_error("trace", "the run is in progress", "", "save it when it has ended");
  session_.files().in_background("save " + path, [this, run_id, path, overwrite, run = entry->run]() -> Worker::Finish {
    save_trace(path, *run, overwrite);
    return [this, run_id, path] {
      session_.runs().set_trace_path(run_id, path);
      session_.files().remember(path);
      session_.files().remember_place(path);
      session_.messages().notify("saved " + path);
    };
  });
}

}  // namespace kvscope::app
