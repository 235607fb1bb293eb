// kvscope capture: many prompts into one trace that survives kill -9.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "app/cli/arguments.h"
#include "app/cli/capture_plan.h"
#include "app/cli/engine_job.h"
#include "app/cli/output.h"
#include "app/cli/run_options.h"
#include "app/process/interrupt.h"
#include "engine/core/files/tokenizer/chat.h"
#include "engine/core/files/tokenizer/tokenizer.h"
#include "engine/core/support/error.h"
#include "engine/core/trace/trace_file.h"

namespace kvscope::app {
namespace {

constexpr auto kFileOptions = std::to_array<OptionSpec>({
    {"o", "FILE", "the trace to write (HDF5)"},
    {"overwrite", "", "replace it if it exists"},
    kResumeOption,
    kShardOption,
});
constexpr auto kPromptOptions = std::to_array<OptionSpec>({
    {"limit", "N", "only the first N prompts"},
    {"raw", "", "take the prompts as text even if the model has a chat template"},
    {"chat", "", "wrap the prompts in the model's chat template (if it has one)"},
});
constexpr auto kOutputOptions = std::to_array<OptionSpec>({
    {"json", "", "a summary of what was written, on stdout"},
});
constexpr auto kOptions = joined(kFileOptions, kLengthAndSamplingOptions, kPromptOptions, kChatOptions, kOracleOptions,
                                 std::to_array({kChangeOption}), kDecodingEngineOptions, kOutputOptions);

// Rows of the file have one length: the longest prompt's and what may be generated. Counted here if the tokenizer and
// the chat template can be read from here; otherwise (an engine on another machine) the model's own limit serves.
int longest_run(const Arguments& arguments, const std::string& folder, const ModelInfo& model, const CapturePlan& plan,
                const RunRequest& request) {
  std::size_t longest = 0;
  try {
    const Tokenizer tokenizer = Tokenizer::load(folder);
    std::optional<ChatTemplate> chat;
    if (!request.raw) chat = ChatTemplate::load(folder);
    for (const int index : plan.indices) {
      const Prompt& prompt = plan.prompts[index];
      std::vector<ChatMessage> messages = messages_of(arguments, prompt);
      if (messages.empty()) messages = {{"user", prompt.text}};
      const auto ids =
          chat ? chat->encode(tokenizer, messages, request.chat) : tokenizer.encode_with_special(prompt.text);
      longest = std::max(longest, ids.size());
    }
  } catch (const Error&) {
    return model.max_positions;  // what is wrong with the prompt, the engine says
  }
  return static_cast<int>(
      std::min<std::int64_t>(static_cast<std::int64_t>(longest) + request.max_tokens, model.max_positions));
}

// A conversation as raw text would be its last message alone.
void check_conversations(const std::vector<Prompt>& prompts, const std::string& file) {
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    if (prompts[i].messages.empty()) continue;
    usage_error(file, "prompt " + std::to_string(i + 1) + " is a conversation",
                "raw text: the model has no chat template, or --raw is given");
  }
}

// Decodes and writes one prompt after the other, until Ctrl+C; returns the tokens written.
std::int64_t capture_all(const Arguments& arguments, EngineJob& job, const ModelInfo& model, const CapturePlan& plan,
                         RunRequest request, TraceWriter& writer) {
  job.show_engine_progress(false);
  const auto start = std::chrono::steady_clock::now();
  const auto before = static_cast<double>(plan.done.size()), all = static_cast<double>(plan.indices.size());
  std::int64_t tokens = 0;
  int n = 0;
  for (const int index : plan.left()) {
    if (interrupted()) break;
    char rate[64] = "";
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (n > 0) std::snprintf(rate, sizeof rate, "%.1f prompts/min, %.0f tok/s", 60 * n / seconds, tokens / seconds);
    job.progress().update("capture", before + n, all, rate);
    request.prompt = plan.prompts[index].text;
    request.messages = messages_of(arguments, plan.prompts[index]);
    RunRecord run;
    job.run(model, request, run);
    if (run.status == RunStatus::cancelled) break;  // half a run is not what a later study counts on
    run.prompt_index = index;
    writer.add(run);
    tokens += run.n_tokens();
    ++n;
  }
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
      std::fprintf(stderr, "%s: already whole: %d of %zu prompts\n", file.c_str(), runs, plan.indices.size());
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
  if (!arguments.has("o")) usage_error("kvscope capture", "no -o FILE", "", "name the trace to write");
  const RunRequest request = run_request(arguments, model_path, "");
  CapturePlan plan = plan_of(arguments, request);
  check_target(plan.file, arguments.has("resume") || arguments.has("overwrite"),
               "--resume goes on with it, --overwrite replaces it");
  if (arguments.has("resume") && arguments.has("overwrite"))
    usage_error("--resume and --overwrite", "both given", "one of them");
  const bool resumes = arguments.has("resume") && std::filesystem::exists(plan.file);

  catch_interrupts();
  TraceInfo recorded;
  if (resumes) recorded = check_beginning(plan, arguments.has("quiet"));
  EngineJob job(arguments);
  ModelInfo model = job.load(model_path);
  if (resumes) {
    check_same_model(plan, recorded.model, model);
    model = recorded.model;  // the folder may have another name today; in one trace it has one
  }
  if (resumes && plan.is_whole() && recorded.status == "complete") {
    job.progress().clear();
    return report(arguments, plan, request, recorded.n_runs, 0);
  }
  TraceWriter writer(plan.file, model,
                     {.overwrite = arguments.has("overwrite"),
                      .resume = arguments.has("resume"),
                      .max_runs = std::max(1, static_cast<int>(plan.indices.size())),
                      .max_positions = longest_run(arguments, model_path, model, plan, request),
                      .capture = plan.info});
  std::int64_t tokens = 0;
  try {
    tokens = capture_all(arguments, job, model, plan, request, writer);
  } catch (const Error&) {
    // One bad prompt or a dead engine must not cost what was captured before.
    job.progress().clear();
    const int kept = writer.committed();
    if (kept > 0) writer.finish();
    if (!arguments.has("quiet"))
      std::fprintf(stderr, "%s: stopped after %d of %zu prompts; --resume goes on\n",
                   escape_for_terminal(plan.file).c_str(), kept, plan.indices.size());
    throw;
  }
  const int written = writer.committed();
  writer.finish();
  job.progress().clear();
  return report(arguments, plan, request, written, tokens);
}

}  // namespace

extern const CommandSpec capture_command = {
    "capture",
    "MODEL PROMPTS -o FILE [options]",
    "decode many prompts into one trace (HDF5)",
    "PROMPTS is a .jsonl file (\"prompt\" or \"messages\" a line), a text file (a prompt a line) or a folder of .txt "
    "files. Finished prompts survive Ctrl+C and kill -9: --resume goes on from there.",
    "  kvscope capture samples/models/kvscope-tiny prompts.jsonl -o traces.h5 --policy kvpop:keep=25%",
    {2, 2},
    kOptions,
    capture};

}  // namespace kvscope::app
