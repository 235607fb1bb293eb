#include "app/session/files.h"

#include <algorithm>
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
  background_.post(
      [this, job = std::move(job)]() -> Worker::Finish {
        Worker::Finish finish = job();
        return [this, finish = std::move(finish)] {
          try {
            finish();
          } catch (const Error& error) {
            messages_.add_banner({.kind = Banner::Kind::error, .text = error.what()});
          }
          revision_.rise();
        };
      },
      [this, what = std::move(what)](const std::string& text) {
        messages_.log("error: " + what + ": " + text);
        messages_.add_banner({.kind = Banner::Kind::error, .text = text});
      });
}

void Files::open_trace(const std::string& path, std::function<void(const Runs&)> opened) {
  in_background("open " + path, [this, path, opened = std::move(opened)]() -> Worker::Finish {
    TraceReader trace(trace_program_, path);
    Runs runs;
    for (int i = 0; i < std::min(trace.info().n_runs, kMaxOpenedRuns); ++i) {
      runs.push_back(std::make_shared<const RunRecord>(trace.load(i)));
    }
    return [this, path, opened, runs, total = trace.info().n_runs] {
      if (runs.empty()) throw Error({.file = path, .found = "a trace without runs"});
      opened(runs);
      remember(path);
      messages_.notify(std::to_string(runs.size()) + (total > kMaxOpenedRuns ? " of " + std::to_string(total) : "") +
                       " run(s) from " + path);
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
