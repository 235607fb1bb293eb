// kvscope capture: many prompts into one trace that survives kill -9.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "app/cli/command_list.h"
#include "app/cli/engine_job.h"
#include "app/cli/output.h"
#include "app/cli/prompts.h"
#include "app/cli/run_options.h"
#include "app/interrupt.h"
#include "engine/core/support/error.h"
#include "engine/core/tokenizer/chat.h"
#include "engine/core/tokenizer/tokenizer.h"
#include "engine/core/trace/trace_file.h"

namespace kvscope::app {
namespace {

constexpr OptionSpec kOptions[] = {
    {"o", "FILE", "the trace to write (HDF5)"},
    {"overwrite", "", "replace it if it exists"},
    kPolicyOption,
    kMaxTokensOption,
    kSeedOption,
    kTemperatureOption,
    kTopKOption,
    kTopPOption,
    kMinPOption,
    kRepetitionPenaltyOption,
    {"limit", "N", "only the first N prompts"},
    {"raw", "", "take the prompts as text even if the model has a chat template"},
    {"chat", "", "wrap the prompts in the model's chat template (the default if it has one)"},
    kSystemOption,
    kThinkingOption,
    kDateOption,
    kStopOption,
    kNoOracleOption,
    kIgnoreEosOption,
    kDeviceOption,
    kDtypeOption,
    kEngineOption,
    kQuietOption,
    {"json", "", "a summary of what was written, on stdout"},
    kHelpOption,
};

// What a chat consists of; nothing if the prompt is its one message.
std::vector<ChatMessage> messages_of(const Arguments& arguments, const Prompt& prompt) {
  if (!prompt.messages.empty()) return with_system(arguments, prompt.messages);
  if (!arguments.has("system")) return {};
  return with_system(arguments, {{"user", prompt.text}});
}

// Rows of the file have one length: the longest prompt's and what may be generated. Counted here if the tokenizer and
// the chat template can be read from here; otherwise (an engine on another machine) the model's own limit serves.
int longest_run(const Arguments& arguments, const ModelInfo& model, const std::vector<Prompt>& prompts,
                const protocol::RunRequest& request) {
  const std::string& folder = arguments.positionals()[0];
  std::size_t longest = 0;
  try {
    const Tokenizer tokenizer = Tokenizer::load(folder);
    std::optional<ChatTemplate> chat;
    if (!request.raw) chat = ChatTemplate::load(folder);
    for (const Prompt& prompt : prompts) {
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
    throw Error({.code = ExitCode::usage,
                 .file = file,
                 .found = "prompt " + std::to_string(i + 1) + " is a conversation",
                 .expected = "raw text: the model has no chat template, or --raw is given"});
  }
}

// Decodes and writes one prompt after the other, until Ctrl+C; returns the tokens written.
std::int64_t capture_all(const Arguments& arguments, EngineJob& job, const ModelInfo& model,
                         const std::vector<Prompt>& prompts, protocol::RunRequest request, TraceWriter& writer) {
  job.show_engine_progress(false);
  const auto start = std::chrono::steady_clock::now();
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < prompts.size() && !interrupted(); ++i) {
    char rate[64] = "";
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (i > 0) std::snprintf(rate, sizeof rate, "%.1f prompts/min, %.0f tok/s", 60 * i / seconds, tokens / seconds);
    job.progress().update("capture", static_cast<double>(i), static_cast<double>(prompts.size()), rate);
    request.prompt = prompts[i].text;
    request.messages = messages_of(arguments, prompts[i]);
    RunRecord run;
    job.run(model, request, run);
    if (run.status == RunStatus::cancelled) break;  // half a run is not what a later study counts on
    writer.add(run);
    tokens += run.n_tokens();
  }
  return tokens;
}

int capture(const Arguments& arguments) {
  const std::string model_path = arguments.positionals()[0];
  check_model_path(arguments, model_path);
  if (!arguments.has("o")) {
    throw Error(
        {.code = ExitCode::usage, .file = "kvscope capture", .found = "no -o FILE", .hint = "name the trace to write"});
  }
  std::vector<Prompt> prompts = read_prompts(arguments.positionals()[1]);
  const auto limit = arguments.integer("limit", static_cast<std::int64_t>(prompts.size()), 1, 1 << 30);
  prompts.resize(std::min<std::size_t>(prompts.size(), limit));
  const protocol::RunRequest request = run_request(arguments, model_path, "");
  if (request.raw) check_conversations(prompts, arguments.positionals()[1]);

  EngineJob job(arguments);
  const ModelInfo model = job.load(model_path);
  TraceWriter writer(arguments.text("o"), model,
                     {.overwrite = arguments.has("overwrite"),
                      .max_runs = static_cast<int>(prompts.size()),
                      .max_positions = longest_run(arguments, model, prompts, request)});
  std::int64_t tokens = 0;
  try {
    tokens = capture_all(arguments, job, model, prompts, request, writer);
  } catch (const Error&) {
    // One bad prompt or a dead engine must not cost what was captured before.
    job.progress().clear();
    const int kept = writer.committed();
    if (kept > 0) writer.finish();
    if (!arguments.has("quiet"))
      std::fprintf(stderr, "%s: stopped after %d of %zu prompts\n", escape_for_terminal(arguments.text("o")).c_str(),
                   kept, prompts.size());
    throw;
  }
  const int written = writer.committed();
  writer.finish();
  job.progress().clear();
  const bool cancelled = written < static_cast<int>(prompts.size());
  if (arguments.has("json")) {
    write_json_line(nlohmann::ordered_json{{"trace", arguments.text("o")},
                                           {"runs", written},
                                           {"prompts", prompts.size()},
                                           {"tokens", tokens},
                                           {"policy", request.policy.to_string()},
                                           {"status", cancelled ? "cancelled" : "complete"}});
    flush_stdout();
  } else if (!arguments.has("quiet")) {
    std::fprintf(stderr, "%s: %d of %zu prompts, %lld tokens\n", escape_for_terminal(arguments.text("o")).c_str(),
                 written, prompts.size(), static_cast<long long>(tokens));
  }
  return static_cast<int>(cancelled ? ExitCode::cancelled : ExitCode::done);
}

}  // namespace

const CommandSpec& capture_command() {
  static const CommandSpec spec = {
      "capture",
      "MODEL PROMPTS -o FILE [options]",
      "decode many prompts into one trace (HDF5)",
      "PROMPTS is a .jsonl file (one object with \"prompt\" or \"messages\" a line), a "
      "text file (one prompt a line) or a folder\n"
      "(each .txt file is a prompt). Every finished prompt is committed: the file opens with all of "
      "them after Ctrl+C, which also\n"
      "finishes it, and after kill -9.",
      "  kvscope capture samples/models/kvscope-tiny prompts.jsonl -o traces.h5 --policy "
      "kvpop:keep=25% --max-tokens 128",
      2,
      2,
      kOptions,
      capture};
  return spec;
}

}  // namespace kvscope::app
