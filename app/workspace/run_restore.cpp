#include "app/workspace/run_restore.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "engine/core/support/error.h"

namespace kvscope::app {
namespace {

namespace fs = std::filesystem;

// A day's runs must not cost a start minutes. The readers of a run of a study hand over megabytes each.
constexpr std::size_t kMostRuns = 256;
constexpr int kLargestId = 1 << 29;  // no session comes near it; ids of runs to come follow it

}  // namespace

RunRestore::RunRestore(Session& session, const WorkspaceFolder& folder, RunAutosave& autosave, Worker& worker,
                       std::string trace_program)
    : session_(session),
      folder_(folder),
      autosave_(autosave),
      worker_(worker),
      trace_program_(std::move(trace_program)) {}

void RunRestore::start(const WorkspaceFile& file, std::function<void()> done) {
  a_ = file.state.a, b_ = file.state.b, selection_ = file.state.selection;
  preview_ = file.preview;
  done_ = std::move(done);
  int next_id = file.next_run > kLargestId ? 1 : file.next_run;
  std::vector<SavedRun> runs = file.runs;
  const auto files = folder_.run_files();
  for (const auto& [id, path] : files) {
    if (id > kLargestId) {
      set_aside(path);
      continue;
    }
    const bool is_named = std::ranges::find(file.runs, id, &SavedRun::id) != file.runs.end();
    if (id >= file.next_run && !is_named) runs.push_back({.id = id, .own = true});
    next_id = std::max(next_id, id + 1);
  }
  // A run that was killed before its first token was on disk is none.
  std::erase_if(runs, [&](const SavedRun& run) {
    const bool none = run.own && !files.contains(run.id) && run.trace.empty();
    if (none) session_.messages().log("run " + std::to_string(run.id) + " of the last session has no file");
    return none;
  });
  for (SavedRun& run : runs) run.own = run.own && files.contains(run.id);
  if (!make_sound(runs)) {  // a run that lost its name to another one's is not to go with its file
    for (const auto& [id, path] : files) {
      const bool is_named = std::ranges::find(runs, id, &SavedRun::id) != runs.end();
      if (id <= kLargestId && !is_named) runs.push_back({.id = id, .own = true});
    }
  }
  for (const SavedRun& run : runs) next_id = std::max(next_id, run.id + 1);
  session_.runs().begin_ids_at(next_id);
  const auto rank = [&](const SavedRun& run) { return run.id == a_ ? 0 : run.id == b_ ? 1 : 2; };
  std::ranges::sort(runs, [&](const SavedRun& x, const SavedRun& y) {
    return std::pair(rank(x), -x.id) < std::pair(rank(y), -y.id);
  });
  if (runs.size() > kMostRuns) {
    session_.messages().log("of " + std::to_string(runs.size()) + " runs of the last session, only the newest " +
                            std::to_string(kMostRuns) + " are restored");
    runs.resize(kMostRuns);
  }
  waiting_.assign(runs.begin(), runs.end());
  busy_ = true;
  next();
}

// Two runs of one id would be saved over each other without end.
bool RunRestore::make_sound(std::vector<SavedRun>& runs) {
  std::set<int> ids;
  std::set<std::tuple<std::string, int, std::string>> places;
  std::size_t dropped = 0;
  int first = 0;
  std::erase_if(runs, [&](const SavedRun& run) {
    const bool is_new = run.id <= kLargestId && ids.insert(run.id).second &&
                        (run.own || places.insert({run.trace, run.trace_run, run.fingerprint}).second);
    if (!is_new && dropped++ == 0) first = run.id;
    return !is_new;
  });
  if (dropped > 0)
    session_.messages().log("workspace.json: " + std::to_string(dropped) + (dropped == 1 ? " run is" : " runs are") +
                            " left out, run " + std::to_string(first) +
                            " first: listed twice, or with too large a number");
  return dropped == 0;
}

void RunRestore::next() {
  if (waiting_.empty()) {
    busy_ = false;
    reader_ = std::make_shared<Reader>();  // ends the child
    return done_();
  }
  const SavedRun run = waiting_.front();
  waiting_.pop_front();
  worker_.post(
      [this, run, program = trace_program_, reader = reader_,
       path = run.own ? folder_.run_file(run.id) : fs::path(run.trace)]() -> Worker::Finish {
        if (reader->path != path) *reader = {};
        if (!reader->trace) *reader = {path, std::make_unique<TraceReader>(program, path)};
        auto record = std::make_shared<const RunRecord>(reader->trace->load(run.own ? 0 : run.trace_run));
        if (!run.fingerprint.empty() && fingerprint(*record) != run.fingerprint)
          throw Error({.file = path.string(), .found = "not the run that was open"});
        std::error_code error;
        const std::uintmax_t size = fs::file_size(path, error), bytes = error ? 0 : size;
        return [this, run, record, bytes] { loaded(run, record, bytes); };
      },
      [this, run](const std::string& text) { failed(run, text); });
}

void RunRestore::loaded(const SavedRun& run, const std::shared_ptr<const RunRecord>& record, std::uintmax_t bytes) {
  if (session_.runs().all().empty()) session_.model().known().look();  // one of them may be the run's
  session_.runs().put_back({.id = run.id,
                            .run = record,
                            .trace_path = run.trace,
                            .trace_run = run.trace_run,
                            .own = run.own,
                            .name = run.name});
  if (run.own) autosave_.know(run.id, record, bytes);
  ++restored_;
  show();
  next();
}

void RunRestore::failed(const SavedRun& run, const std::string& text) {
  std::string line = "run " + std::to_string(run.id) + " of the last session cannot be read: " + text;
  if (run.own) {
    const fs::path kept = set_aside(folder_.run_file(run.id));
    line += kept.empty() ? "; its file could not be moved aside" : "; its file is kept as " + kept.string();
  }
  session_.messages().log(line);
  next();
}

// Unless the person was faster and looks at something else.
void RunRestore::show() {
  const int a = session_.runs().a_id(), b = session_.runs().b_id();
  if (a != shown_a_ || b != shown_b_) return;
  const int wanted_a = session_.runs().find(a_) ? a_ : 0, wanted_b = wanted_a != 0 && session_.runs().find(b_) ? b_ : 0;
  if (wanted_a == a && wanted_b == b) return;
  session_.runs().show(wanted_a, wanted_b);
  if (a == 0) {
    views::Selection& now = session_.selection();
    selection_.hovered_token = now.hovered_token;
    selection_.pins = now.pins,
    selection_.run_notes = now.run_notes;  // with what the notes beside the traces have added
    now = selection_;
    session_.runs().clamp_selection();
  }
  if (preview_) session_.policy().put_back_preview();
  shown_a_ = wanted_a, shown_b_ = wanted_b;
}

}  // namespace kvscope::app
