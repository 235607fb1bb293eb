#include "app/studies/capture/capture_run.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <utility>

#include "app/engine_client/run_setup.h"
#include "app/studies/capture/run_writer.h"
#include "app/support/interrupt.h"
#include "engine/core/support/error.h"
#include "engine/core/support/seconds_since.h"
#include "engine/core/support/text.h"
#include "engine/core/trace/trace_file.h"

namespace kvscope::app {
namespace {

// Bad prompts are said before the first is decoded; what an engine elsewhere finds, when it does.
void refuse_bad(const CapturePlan& plan, const PromptCheck& check) {
  for (const int index : plan.left()) {
    const auto bad = check.bad.find(index);
    if (bad == check.bad.end()) continue;
    throw Error({.file = plan.prompts[index].where,
                 .where = "prompt " + std::to_string(index),
                 .found = bad->second,
                 .hint = "--skip-bad records such prompts as failed runs and continues"});
  }
}

// What the engine says of a prompt, and not of itself or of the options.
bool is_of_prompt(const Error& error) { return error.code() == ExitCode::bad_input && error.parts().file == "prompt"; }

RunRecord failed_run(EngineJob& job, const ModelInfo& model, const RunRequest& request, const std::string& where,
                     std::string reason) {
  job.progress().say("warning: " + escape_for_terminal(where, 150) + ": " + escape_for_terminal(reason) +
                     "; recorded as failed");
  RunRecord run = start_record(model, job.asked(request), job.offer().recorder());
  finish_run(run, RunStatus::failed, std::move(reason));
  return run;
}

// How many prompts are decoded at once.
int batch_of(const CaptureAsked& asked, EngineJob& job) {
  const int most = job.offer().runs_at_once;
  if (asked.batch > most)
    job.progress().say("warning: --batch " + std::to_string(asked.batch) + ": the engine decodes at most " +
                       std::to_string(most) + " at once");
  return asked.batch == 0 ? most : std::min(asked.batch, most);
}

// One capture: what its steps share. Several prompts are under way at once; their runs are written in the order of the
// prompts, so that the trace is the same however many there were.
class Capture {
 public:
  Capture(const CaptureAsked& asked, const CapturePlan& plan, EngineJob& job, const ModelInfo& model,
          const PromptCheck& check, TraceWriter& writer)
      : asked_(asked),
        plan_(plan),
        job_(job),
        model_(model),
        check_(check),
        left_(plan.left()),
        batch_(batch_of(asked, job)),
        writing_(writer) {}

  // Decodes and writes what is left, until Ctrl+C; returns the tokens written.
  std::int64_t run(const RunRequest& request) {
    job_.show_engine_progress(false);
    job_.run_all(
        model_, batch_, [&] { return next(request); },
        [&](std::size_t place, RunRecord run, const std::optional<Error>& error) {
          take(request, place, std::move(run), error);
        });
    writing_.wait();
    return tokens_;
  }

 private:
  using Place = std::size_t;  // in left_

  // Nothing while too many runs wait for an earlier one, at the end, and on the way out.
  std::optional<EngineJob::NumberedRun> next(RunRequest request) {
    const std::size_t most_ahead = 4 * static_cast<std::size_t>(batch_);
    while (begun_ < left_.size() && begun_ < written_ + most_ahead && !is_over_ && !interrupted()) {
      const Place place = begun_++;
      show();
      request.oracle_looks = false;  // no view shows them
      set_prompt(request, place);
      const auto bad = check_.bad.find(left_[place]);
      if (bad == check_.bad.end()) return EngineJob::NumberedRun{place, std::move(request)};
      keep(place, failed_run(job_, model_, request, where(place), bad->second));
    }
    return std::nullopt;
  }

  void set_prompt(RunRequest& request, Place place) const {
    const Prompt& prompt = plan_.prompts[left_[place]];
    request.prompt = prompt.text;
    request.messages = messages_of(plan_.system, prompt);
  }

  const std::string& where(Place place) const { return plan_.prompts[left_[place]].where; }

  void take(RunRequest request, Place place, RunRecord run, const std::optional<Error>& error) {
    if (error && asked_.skip_bad && is_of_prompt(*error)) {
      set_prompt(request, place);
      run = failed_run(job_, model_, request, where(place), error->what());
    } else if (error || run.status == RunStatus::cancelled) {
      // Half a run is not what a later study counts on. Those before it go on to their ends, and none begins.
      is_over_ = true;
      if (error) errors_.emplace(place, *error);
      return write();
    }
    keep(place, std::move(run));
  }

  void keep(Place place, RunRecord run) {
    run.prompt_index = left_[place];
    waiting_.emplace(place, std::move(run));
    write();
  }

  // Writes the runs before which none is missing. An error is thrown when all before it are written.
  void write() {
    for (auto run = waiting_.find(written_); run != waiting_.end(); run = waiting_.find(written_)) {
      tokens_ += run->second.n_tokens();
      writing_.add(std::move(run->second));
      waiting_.erase(run);
      ++written_;
    }
    const auto failed = errors_.find(written_);
    if (failed == errors_.end()) return;
    writing_.wait();
    Error::Parts parts = failed->second.parts();
    if (is_of_prompt(failed->second)) parts.file = where(written_);
    throw Error(std::move(parts));
  }

  // What was decoded has a speed; what is committed counts.
  void show() {
    std::string rate;
    const auto n = static_cast<double>(written_);
    const double seconds = seconds_since(start_), rate_of_tokens = static_cast<double>(tokens_) / seconds;
    if (written_ > 0)
      rate = fixed_text(60 * n / seconds, 1) + " prompts/min, " +
             fixed_text(rate_of_tokens, rate_of_tokens < 10 ? 1 : 0) + " tok/s";
    job_.progress().update("capture", writing_.committed(), static_cast<double>(plan_.indices.size()), rate);
  }

  const CaptureAsked& asked_;
  const CapturePlan& plan_;
  EngineJob& job_;
  const ModelInfo& model_;
  const PromptCheck& check_;
  std::vector<int> left_;  // indices of the prompts that the trace lacks
  int batch_;
  RunWriter writing_;
  std::size_t begun_ = 0, written_ = 0;
  std::map<Place, RunRecord> waiting_;  // ended, and not written
  std::map<Place, Error> errors_;
  bool is_over_ = false;
  std::int64_t tokens_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

CaptureResult run_capture(const CaptureAsked& asked, std::vector<Prompt> prompts, const RunRequest& request,
                          const std::string& model_path, EngineJobOptions engine) {
  CaptureResult result{.plan = plan_capture(asked, std::move(prompts), request)};
  CapturePlan& plan = result.plan;
  const bool resumes = asked.resume && std::filesystem::exists(plan.file);
  catch_interrupts();
  FileHandle lock;
  TraceInfo recorded;
  if (resumes) {
    // From the first look on: a capture that is at work here ends before its runs are counted, or keeps us out.
    lock = lock_trace(plan.file);
    recorded = check_beginning(plan, engine.is_quiet);
  }
  const bool is_elsewhere = engine.is_elsewhere();
  EngineJob job(std::move(engine));
  ModelInfo model = job.load(model_path, std::array{request.policy});
  if (resumes) {
    check_same_model(plan, recorded.model, model);
    check_same_methods(plan, job.offer());
    model = recorded.model;  // the folder may have another name today; in one trace it has one
  }
  if (resumes && plan.is_whole() && recorded.status == "complete") {
    result.runs = recorded.n_runs;
    return result;
  }
  const PromptCheck check = check_prompts(plan, model_path, is_elsewhere, model, request);
  if (!asked.skip_bad) refuse_bad(plan, check);
  // There was none, or this request would have been refused at its start.
  if (!resumes && !asked.overwrite && std::filesystem::exists(plan.file)) {
    throw Error({.code = ExitCode::resource,
                 .file = plan.file,
                 .found = "another process has just created it",
                 .hint = "use --resume after that process ends"});
  }
  TraceWriter writer(plan.file, model,
                     {.overwrite = asked.overwrite,
                      .resume = resumes,
                      .max_runs = std::max(1, static_cast<int>(plan.indices.size())),
                      .max_positions = check.longest_run,
                      .capture = plan.info},
                     std::move(lock));
  // Without a run there is nothing to continue, and an older trace of this name stays; unless there was nothing to do.
  const auto end = [&] {
    if (writer.committed() > 0 || plan.indices.empty()) return writer.finish();
    std::error_code ignored;
    if (!resumes && !asked.overwrite) std::filesystem::remove(plan.file, ignored);
  };
  try {
    result.tokens = Capture(asked, plan, job, model, check, writer).run(request);
  } catch (const Error&) {
    // One bad prompt or a dead engine must not cost what was captured before.
    job.progress().clear();
    end();
    if (writer.committed() > 0)
      job.progress().say(escape_for_terminal(plan.file) + ": stopped after " + std::to_string(writer.committed()) +
                         " of " + std::to_string(plan.indices.size()) + " prompts; --resume continues");
    throw;
  }
  result.runs = writer.committed();
  end();
  return result;
}

}  // namespace kvscope::app
