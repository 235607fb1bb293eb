// kvscope capture: many prompts into one trace that survives kill -9.

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "app/cli/arguments.h"
#include "app/cli/capture_plan.h"
#include "app/cli/engine_job.h"
#include "app/cli/output.h"
#include "app/cli/run_options.h"
#include "app/cli/write_behind.h"
#include "app/process/interrupt.h"
#include "app/session/run_setup.h"
#include "engine/core/support/error.h"
#include "engine/core/support/seconds_since.h"
#include "engine/core/trace/trace_file.h"

namespace kvscope::app {
namespace {

constexpr auto kFileOptions = std::to_array<OptionSpec>({
    {"o", "FILE", "the trace to write (HDF5)"},
    {"overwrite", "", "overwrite FILE if it exists"},
    kResumeOption,
    kShardOption,
});
constexpr auto kCapturePrompts = std::to_array<OptionSpec>({
    {"limit", "N", "only the first N prompts"},
    {"skip-bad", "", "record as failed runs the prompts that cannot be decoded, and continue"},
    {"raw", "", "use the prompts as raw text even if the model has a chat template"},
    {"chat", "", "wrap the prompts in the model's chat template (default if it has one)"},
});
constexpr auto kCaptureOutput = std::to_array<OptionSpec>({
    {"json", "", "print a summary as JSON"},
});
constexpr auto kCaptureOptions =
    joined(kFileOptions, kLengthAndSamplingOptions, kCapturePrompts, kChatOptions, kOracleOptions,
           std::to_array({kChangeOption}), kDecodingEngineOptions, kCaptureOutput);

// A conversation as raw text would be its last message alone.
void check_conversations(const std::vector<Prompt>& prompts, const std::string& file) {
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    if (prompts[i].messages.empty()) continue;
    usage_error(file, "prompt " + std::to_string(i + 1) + " is a conversation",
                "raw text, because the model has no supported chat template or --raw is given");
  }
}

// Bad prompts are said before the first is decoded; what an engine elsewhere finds, when it does.
void refuse_bad(const Arguments& arguments, const CapturePlan& plan, const PromptCheck& check) {
  if (arguments.has("skip-bad")) return;
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

RunRecord failed_run(const Arguments& arguments, EngineJob& job, const ModelInfo& model, const RunRequest& request,
                     const std::string& where, std::string reason) {
  if (!arguments.has("quiet")) {
    job.progress().clear();
    std::fprintf(stderr, "warning: %s: %s; recorded as failed\n", escape_for_terminal(where, 150).c_str(),
                 escape_for_terminal(reason).c_str());
  }
  RunRecord run = start_record(model, job.asked(request));
  finish_run(run, RunStatus::failed, std::move(reason));
  return run;
}

RunRecord run_of(const Arguments& arguments, EngineJob& job, const ModelInfo& model, const RunRequest& request,
                 const Prompt& prompt, const std::string* bad) {
  if (bad != nullptr) return failed_run(arguments, job, model, request, prompt.where, *bad);
  RunRecord run;
  try {
    job.run(model, request, run);
  } catch (const Error& error) {
    if (!is_of_prompt(error)) throw;
    if (arguments.has("skip-bad")) return failed_run(arguments, job, model, request, prompt.where, error.what());
    Error::Parts parts = error.parts();
    parts.file = prompt.where;
    throw Error(std::move(parts));
  }
  return run;
}

// Decodes and writes one prompt after the other, until Ctrl+C; returns the tokens written.
std::int64_t capture_all(const Arguments& arguments, EngineJob& job, const ModelInfo& model, const CapturePlan& plan,
                         const PromptCheck& check, RunRequest request, TraceWriter& writer) {
  job.show_engine_progress(false);
  const auto start = std::chrono::steady_clock::now();
  const auto before = static_cast<double>(plan.done.size()), all = static_cast<double>(plan.indices.size());
  std::int64_t tokens = 0;
  int n = 0;
  WriteBehind writing(writer);
  for (const int index : plan.left()) {
    if (interrupted()) break;
    char rate[64] = "";
    const double seconds = seconds_since(start);
    if (n > 0)
      std::snprintf(rate, sizeof rate, "%.1f prompts/min, %.*f tok/s", 60 * n / seconds, tokens / seconds < 10 ? 1 : 0,
                    tokens / seconds);
    job.progress().update("capture", before + n, all, rate);
    const Prompt& prompt = plan.prompts[index];
    request.prompt = prompt.text;
    request.messages = messages_of(arguments, prompt);
    const auto bad = check.bad.find(index);
    RunRecord run = run_of(arguments, job, model, request, prompt, bad == check.bad.end() ? nullptr : &bad->second);
    if (run.status == RunStatus::cancelled) break;  // half a run is not what a later study counts on
    run.prompt_index = index;
    tokens += run.n_tokens();
    ++n;
    writing.add(std::move(run));
  }
  writing.wait();
  return tokens;
}

int report(const Arguments& arguments, const CapturePlan& plan, const RunRequest& request, int runs,
           std::int64_t tokens) {
  const bool whole = runs == static_cast<int>(plan.indices.size());
  if (arguments.has("json")) {
    write_json_line(nlohmann::ordered_json{{"trace", plan.file},
                                           {"runs", runs},
                                           {"prompts", plan.indices.size()},
                                           {"shard", shard_text(plan.info)},
                                           {"resumed", plan.done.size()},
                                           {"tokens", tokens},
                                           {"policy", request.policy.to_string()},
                                           {"status", whole ? "complete" : "cancelled"}});
  } else if (!arguments.has("quiet")) {
    const std::string file = escape_for_terminal(plan.file);
    if (plan.is_whole() && tokens == 0) {
      std::fprintf(stderr, "%s: already complete: %d of %zu prompts\n", file.c_str(), runs, plan.indices.size());
    } else {
      std::fprintf(stderr, "%s: %d of %zu prompts, %lld tokens\n", file.c_str(), runs, plan.indices.size(),
                   static_cast<long long>(tokens));
    }
  }
  return static_cast<int>(whole ? ExitCode::done : ExitCode::cancelled);
}

CapturePlan plan_of(const Arguments& arguments, const RunRequest& request) {
  std::vector<Prompt> prompts = read_prompts(arguments.positionals()[1]);
  const auto limit = arguments.integer("limit", static_cast<std::int64_t>(prompts.size()), 1, 1 << 30);
  prompts.resize(std::min<std::size_t>(prompts.size(), limit));
  if (request.raw) check_conversations(prompts, arguments.positionals()[1]);
  return plan_capture(arguments, std::move(prompts), request);
}

int capture(const Arguments& arguments) {
  const std::string model_path = model_argument(arguments, arguments.positionals()[0]);
  if (!arguments.has("o")) usage_error("kvscope capture", "no -o FILE", "", "give the trace to write");
  const RunRequest request = run_request(arguments, model_path, "");
  CapturePlan plan = plan_of(arguments, request);
  const std::filesystem::path inputs[] = {arguments.positionals()[1]};
  writable_target(plan.file, arguments.has("resume") || arguments.has("overwrite"), inputs,
                  "--resume continues it, --overwrite replaces it");
  const bool resumes = arguments.has("resume") && std::filesystem::exists(plan.file);

  catch_interrupts();
  FileHandle lock;
  TraceInfo recorded;
  if (resumes) {
    // From the first look on: a capture that is at work here ends before its runs are counted, or keeps us out.
    lock = lock_trace(plan.file);
    recorded = check_beginning(plan, arguments.has("quiet"));
  }
  EngineJob job(arguments);
  ModelInfo model = job.load(model_path, std::array{request.policy});
  if (resumes) {
    check_same_model(plan, recorded.model, model);
    model = recorded.model;  // the folder may have another name today; in one trace it has one
  }
  if (resumes && plan.is_whole() && recorded.status == "complete") {
    job.progress().clear();
    return report(arguments, plan, request, recorded.n_runs, 0);
  }
  const PromptCheck check = check_prompts(arguments, model_path, model, plan, request);
  refuse_bad(arguments, plan, check);
  // There was none, or this command line would have been refused at its start.
  if (!resumes && !arguments.has("overwrite") && std::filesystem::exists(plan.file)) {
    throw Error({.code = ExitCode::resource,
                 .file = plan.file,
                 .found = "another process has just created it",
                 .hint = "use --resume after that process ends"});
  }
  TraceWriter writer(plan.file, model,
                     {.overwrite = arguments.has("overwrite"),
                      .resume = resumes,
                      .max_runs = std::max(1, static_cast<int>(plan.indices.size())),
                      .max_positions = check.longest_run,
                      .capture = plan.info},
                     std::move(lock));
  // Without a run there is nothing to go on with, and nothing for which an older trace of this name should go; unless
  // there was nothing to do.
  const auto end = [&] {
    if (writer.committed() > 0 || plan.indices.empty()) return writer.finish();
    std::error_code ignored;
    if (!resumes && !arguments.has("overwrite")) std::filesystem::remove(plan.file, ignored);
  };
  std::int64_t tokens = 0;
  try {
    tokens = capture_all(arguments, job, model, plan, check, request, writer);
  } catch (const Error&) {
    // One bad prompt or a dead engine must not cost what was captured before.
    job.progress().clear();
    end();
    if (writer.committed() > 0 && !arguments.has("quiet"))
      std::fprintf(stderr, "%s: stopped after %d of %zu prompts; --resume continues\n",
                   escape_for_terminal(plan.file).c_str(), writer.committed(), plan.indices.size());
    throw;
  }
  const int written = writer.committed();
  end();
  job.progress().clear();
  return report(arguments, plan, request, written, tokens);
}

}  // namespace

extern const CommandSpec capture_command = {
    "capture",
    "MODEL PROMPTS -o FILE [options]",
    "decode many prompts into one trace (HDF5)",
    "PROMPTS: .jsonl (\"prompt\" or \"messages\" on each line), text (one prompt per line) or a folder of .txt files.",
    "  kvscope capture samples/models/kvscope-tiny prompts.jsonl -o traces.h5 --policy kvpop:keep=25%",
    {2, 2},
    kCaptureOptions,
    capture};

}  // namespace kvscope::app
