// kvscope run: decode a prompt, stream the answer, keep the trace.

#include <cstdio>
#include <filesystem>

#include "app/cli/command_list.h"
#include "app/cli/engine_job.h"
#include "app/cli/output.h"
#include "app/cli/run_options.h"
#include "app/run_setup.h"
#include "engine/core/support/error.h"
#include "engine/core/trace/trace_file.h"

namespace kvscope::app {
namespace {

constexpr OptionSpec kOptions[] = {
    {"prompt", "TEXT", "the prompt"},
    {"prompt-file", "FILE", "the prompt from a file; - is stdin"},
    kPolicyOption,
    kMaxTokensOption,
    kSeedOption,
    kTemperatureOption,
    kTopKOption,
    kTopPOption,
    {"raw", "", "take the prompt as text even if the model has a chat template"},
    {"chat", "", "wrap the prompt in the model's chat template (the default if it has one)"},
    {"trace", "FILE", "save the run: lifetimes, scores, contests, oracle"},
    {"overwrite", "", "replace the trace if it exists"},
    kNoOracleOption,
    kIgnoreEosOption,
    kDeviceOption,
    kDtypeOption,
    kEngineOption,
    kQuietOption,
    {"json", "", "one object per token, then one with prompt_ids, ids, text, policy, seed, timings"},
    kHelpOption,
};

// Writes what has been generated since the last call.
class AnswerStream {
 public:
  explicit AnswerStream(bool json) : json_(json) {}
  void write(const RunRecord& run) {
    if (run.prompt_len == 0) return;
    if (next_ < run.prompt_len) next_ = run.prompt_len;
    for (; next_ < run.n_tokens(); ++next_) {
      const std::string_view piece = run.pieces[next_];
      if (json_) {
        write_json_line(
            nlohmann::ordered_json{{"position", next_}, {"id", run.ids[next_]}, {"piece", std::string(piece)}});
      } else {
        std::fwrite(piece.data(), 1, piece.size(), stdout);
      }
    }
    std::fflush(stdout);
  }

 private:
  bool json_;
  int next_ = 0;
};

nlohmann::ordered_json result_object(const RunRecord& run) {
  const std::vector<std::int32_t> prompt(run.ids.begin(), run.ids.begin() + std::min(run.prompt_len, run.n_tokens()));
  const std::vector<std::int32_t> answer(run.ids.begin() + prompt.size(), run.ids.end());
  std::string text;
  for (int i = run.prompt_len; i < run.n_tokens(); ++i) text += run.pieces[i];
  const double tokens_per_second = run.timings.decode_s > 0 ? run.timings.decode_steps / run.timings.decode_s : 0;
  return {{"prompt_ids", prompt},
          {"ids", answer},
          {"text", text},
          {"policy", run.policy.to_string()},
          {"seed", run.sampling.seed},
          {"status", to_string(run.status)},
          {"model", run.model.name},
          {"device", run.model.device},
          {"timings",
           {{"load_s", run.timings.load_s},
            {"prefill_s", run.timings.prefill_s},
            {"decode_s", run.timings.decode_s},
            {"decode_steps", run.timings.decode_steps},
            {"tokens_per_second", tokens_per_second},
            {"instrumented", run.timings.instrumented}}}};
}

// Found out before minutes of decoding, not after them.
void check_trace_path(const Arguments& arguments) {
  const std::filesystem::path path = arguments.text("trace");
  std::error_code error;
  if (path.empty()) return;
  if (std::filesystem::exists(path, error) && !arguments.has("overwrite")) {
    throw Error(
        {.code = ExitCode::bad_input, .file = path.string(), .found = "it exists", .hint = "--overwrite replaces it"});
  }
  const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  if (!std::filesystem::is_directory(folder, error)) {
    throw Error({.code = ExitCode::bad_input, .file = folder.string(), .found = "no such folder"});
  }
}

int run(const Arguments& arguments) {
  const std::string model_path = arguments.positionals()[0];
  check_model_path(arguments, model_path);
  check_trace_path(arguments);
  const protocol::RunRequest request = run_request(arguments, model_path, arguments.text_or_file("prompt"));
  EngineJob job(arguments);
  const ModelInfo model = job.load(model_path);
  const bool json = arguments.has("json");
  AnswerStream stream(json);
  RunRecord record;
  try {
    job.run(model, request, record, [&] {
      if (!json) job.progress().clear();
      stream.write(record);
    });
  } catch (const Error&) {
    // What was decoded before the engine died is worth as much as a cancelled run.
    if (arguments.has("trace") && record.n_tokens() > 0) {
      save_trace(arguments.text("trace"), record, arguments.has("overwrite"));
    }
    throw;
  }
  if (json) {
    write_json_line(result_object(record));
  } else {
    std::fputc('\n', stdout);
  }
  flush_stdout();
  if (arguments.has("trace")) save_trace(arguments.text("trace"), record, arguments.has("overwrite"));
  if (record.status == RunStatus::failed) {
    throw Error({.code = ExitCode::resource,
                 .file = "engine",
                 .found = record.message.empty() ? "the run failed" : record.message});
  }
  return static_cast<int>(record.status == RunStatus::cancelled ? ExitCode::cancelled : ExitCode::done);
}

}  // namespace

const CommandSpec& run_command() {
  static const CommandSpec spec = {
      "run",
      "MODEL --prompt TEXT | --prompt-file FILE [options]",
      "decode a prompt under a policy and stream the answer",
      "Decodes with the policy live: the answer goes to stdout, progress to stderr. --trace keeps everything that was\n"
      "recorded for the window, for figures and for what-if.",
      "  kvscope run samples/models/kvscope-tiny --prompt 'Numbers: 12 57 31.' --policy kvpop:budget=128 --trace a.h5",
      1,
      1,
      kOptions,
      run};
  return spec;
}

}  // namespace kvscope::app
