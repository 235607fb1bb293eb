#include "app/studies/capture/capture_run.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "app/studies/capture/capture_work.h"
#include "app/support/interrupt.h"
#include "engine/core/support/error.h"
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
  Progress progress(engine.is_quiet);
  CaptureEngines engines(std::move(engine), model_path, request.policy);
  ModelInfo model = engines.model();
  if (resumes) {
    check_same_model(plan, recorded.model, model);
    check_same_methods(plan, engines[0].offer());
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
    result.tokens = answer_prompts({asked, plan, request, model, check}, engines, writer, progress);
  } catch (const Error&) {
    // One bad prompt or a dead engine must not cost what was captured before.
    progress.clear();
    end();
    if (writer.committed() > 0)
      progress.say(escape_for_terminal(plan.file) + ": stopped after " + std::to_string(writer.committed()) + " of " +
                   std::to_string(plan.indices.size()) + " prompts; --resume continues");
    throw;
  }
  result.runs = writer.committed();
  end();
  return result;
}

}  // namespace kvscope::app
