#include "app/studies/capture/capture_run.h"

#include <algorithm>
#include <array>
#include <filesystem>
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

// One capture: what its steps share.
class Capture {
 public:
  Capture(const CaptureAsked& asked, const CapturePlan& plan, EngineJob& job, const ModelInfo& model,
          const PromptCheck& check)
      : asked_(asked), plan_(plan), job_(job), model_(model), check_(check) {}

  // Decodes and writes one prompt after the other, until Ctrl+C; returns the tokens written.
  std::int64_t run(RunRequest request, TraceWriter& writer) {
    job_.show_engine_progress(false);
    std::int64_t tokens = 0;
    int n = 0;
    RunWriter writing(writer);
    for (const int index : plan_.left()) {
      if (interrupted()) break;
      show(n, tokens, writing.committed());
      const Prompt& prompt = plan_.prompts[index];
      request.prompt = prompt.text;
      request.messages = messages_of(plan_.system, prompt);
      RunRecord run = run_of(request, index);
      if (run.status == RunStatus::cancelled) break;  // half a run is not what a later study counts on
      run.prompt_index = index;
      tokens += run.n_tokens();
      ++n;
      writing.add(std::move(run));
    }
    writing.wait();
    return tokens;
  }

 private:
  // What was decoded has a speed; what is committed counts.
  void show(int n, std::int64_t tokens, int committed) {
    std::string rate;
    const double seconds = seconds_since(start_), rate_of_tokens = static_cast<double>(tokens) / seconds;
    if (n > 0)
      rate = fixed_text(60 * n / seconds, 1) + " prompts/min, " +
             fixed_text(rate_of_tokens, rate_of_tokens < 10 ? 1 : 0) + " tok/s";
    job_.progress().update("capture", committed, static_cast<double>(plan_.indices.size()), rate);
  }

  RunRecord run_of(const RunRequest& request, int index) {
    const std::string& where = plan_.prompts[index].where;
    if (const auto bad = check_.bad.find(index); bad != check_.bad.end())
      return failed_run(job_, model_, request, where, bad->second);
    RunRecord run;
    try {
      job_.run(model_, request, run);
    } catch (const Error& error) {
      if (!is_of_prompt(error)) throw;
      if (asked_.skip_bad) return failed_run(job_, model_, request, where, error.what());
      Error::Parts parts = error.parts();
      parts.file = where;
      throw Error(std::move(parts));
    }
    return run;
  }

  const CaptureAsked& asked_;
  const CapturePlan& plan_;
  EngineJob& job_;
  const ModelInfo& model_;
  const PromptCheck& check_;
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
    result.tokens = Capture(asked, plan, job, model, check).run(request, writer);
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
