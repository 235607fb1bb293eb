#include "app/session/files.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "app/process/trace_open.h"
#include "engine/core/support/error.h"
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
            failed(error.what());
          }
          revision_.rise();
        };
      },
      failed);
}

/// A trace of which `next` runs were read.
struct Files::OpenTrace {
  std::string path;
  TraceReader reader;
  TakeRun take;
  int n_runs = 0, next = 0;
};

void Files::open_trace(const std::string& path, TakeRun take) {
  in_background("open " + path, [this, path, take = std::move(take)]() -> Worker::Finish {
    auto trace = std::make_shared<OpenTrace>(OpenTrace{path, TraceReader(trace_program_, path), take});
    trace->n_runs = std::min(trace->reader.info().n_runs, kMaxOpenedRuns);
    if (trace->n_runs == 0) throw Error({.file = path, .found = "a trace without runs"});
    auto run = std::make_shared<const RunRecord>(trace->reader.load(0));
    return [this, trace, run = std::move(run)] {
      remember(trace->path);
      if (trace->take(run, trace->next++)) read_on(trace);
    };
  });
}

void Files::read_on(const std::shared_ptr<OpenTrace>& trace) {
  if (trace->next == trace->n_runs) {
    const int total = trace->reader.info().n_runs;
    return messages_.notify(std::to_string(trace->n_runs) +
                            (total > kMaxOpenedRuns ? " of " + std::to_string(total) : "") + " run(s) from " +
                            trace->path);
  }
  reading_ = Reading{trace->path, trace->next, trace->n_runs};
  in_background("open run " + std::to_string(trace->next) + " of " + trace->path, [this, trace]() -> Worker::Finish {
    std::shared_ptr<const RunRecord> run;
    std::exception_ptr failed;  // is told once the line that says how far it came is gone
    try {
      run = std::make_shared<const RunRecord>(trace->reader.load(trace->next));
    } catch (...) {
      failed = std::current_exception();
    }
    return [this, trace, run, failed] {
      reading_.reset();
      if (failed) std::rethrow_exception(failed);
      if (trace->take(run, trace->next++)) read_on(trace);
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
                    messages_.notify("saved " + path);
                  };
                });
}

void Files::remember(const std::string& path) {
  std::erase(recent_, path);
  recent_.push_front(path);
  if (recent_.size() > kRecentFiles) recent_.pop_back();
}

void Files::set_recent(const std::vector<std::string>& paths) { recent_.assign(paths.begin(), paths.end()); }

}  // namespace kvscope::app
