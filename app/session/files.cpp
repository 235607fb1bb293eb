#include "app/session/files.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <utility>

#include "app/support/paths.h"
#include "app/support/trace_open.h"
#include "engine/core/support/error.h"
#include "engine/core/support/std_failure.h"
#include "engine/core/trace/trace_file.h"

namespace kvscope::app {
namespace {

constexpr std::size_t kRecentFiles = 12;
constexpr int kMaxOpenedRuns = 64;  // of one trace; a list of thousands helps nobody

}  // namespace

Files::Files(std::string trace_program, Messages& messages, Revision& revision, Worker& background)
    : trace_program_(std::move(trace_program)), messages_(messages), revision_(revision), background_(background) {}

void Files::in_background(std::string what, Worker::Job job) {
  const auto failed = [this, what = std::move(what)](const std::string& text) {
    messages_.log("error: " + what + ": " + text);
    messages_.add_banner({.kind = Banner::Kind::error, .text = text});
  };
  background_.post(
      [this, failed, job = std::move(job)]() -> Worker::Finish {
        return [this, failed, finish = job()] {
          try {
            finish();
          } catch (const std::exception& error) {
            failed(error_of(error).what());
          }
          revision_.rise();
        };
      },
      failed);
}

/// A trace of which `next` runs were read.
struct Files::OpenTrace {
  std::string path;
  TakeRun take;
  AllRead all_read;
  int next = 0, n_runs = 0;
  std::optional<TraceReader> reader = {};  // of the worker's thread, since the first run

  void open(const std::string& program) {
    if (reader) return;
    reader.emplace(program, path);
    n_runs = std::min(reader->info().n_runs, kMaxOpenedRuns);
    if (n_runs == 0) throw Error({.file = path, .found = "a trace without runs"});
  }
};

void Files::open_trace(const std::string& path, int first, TakeRun take, AllRead all_read) {
  read_next(std::make_shared<OpenTrace>(OpenTrace{path, std::move(take), std::move(all_read), first}));
}

void Files::read_next(const std::shared_ptr<OpenTrace>& trace) {
  const std::string which = trace->next == 0 ? "" : "run " + std::to_string(trace->next) + " of ";
  in_background("open " + which + trace->path, [this, trace]() -> Worker::Finish {
    std::shared_ptr<const RunRecord> run;
    std::exception_ptr failed;  // is told once the line that says how far it came is gone
    try {
      trace->open(trace_program_);
      if (trace->next < trace->n_runs) run = std::make_shared<const RunRecord>(trace->reader->load(trace->next));
    } catch (...) {
      failed = std::current_exception();
    }
    return [this, trace, run, failed] {
      reading_.reset();
      if (failed) std::rethrow_exception(failed);
      if (trace->next == 0) remember(trace->path), remember_place(trace->path);
      if (run && !trace->take(run, trace->next++)) return;
      if (trace->next >= trace->n_runs) return trace->all_read(trace->n_runs, trace->reader->info().n_runs);
      reading_ = Reading{trace->path, trace->next, trace->n_runs};
      read_next(trace);
    };
  });
}

void Files::save_trace(const std::string& path, std::shared_ptr<const RunRecord> run, bool overwrite,
                       std::function<void()> saved) {
  in_background("save " + path,
                [this, path, run = std::move(run), overwrite, saved = std::move(saved)]() -> Worker::Finish {
                  kvscope::save_trace(path, *run, overwrite);
                  return [this, path, saved] {
                    saved();
                    remember(path);
                    remember_place(path);
                    messages_.notify("saved " + path);
                  };
                });
}

void Files::remember(const std::string& file) {
  const auto origin = origins_.find(file);
  const std::string& path = origin == origins_.end() ? file : origin->second;
  std::erase(recent_, path);
  recent_.push_front(path);
  if (recent_.size() > kRecentFiles) recent_.pop_back();
}

std::string Files::save_folder() const { return place_.empty() ? documents_folder().string() : place_; }

void Files::remember_place(const std::string& path) {
  if (origins_.contains(path)) return;
  std::error_code error;
  const auto whole = std::filesystem::absolute(path, error);
  if (!error) place_ = whole.lexically_normal().parent_path().string();
}

void Files::set_recent(const std::vector<std::string>& paths) { recent_.assign(paths.begin(), paths.end()); }

}  // namespace kvscope::app
