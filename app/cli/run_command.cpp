// kvscope run: decode a prompt, stream the answer, keep the trace.

#include <array>
#include <charconv>
#include <cstdio>

#include "app/catalog/prompts.h"
#include "app/cli/arguments.h"
#include "app/cli/engine_options.h"
#include "app/cli/output.h"
#include "app/cli/run_options.h"
#include "app/engine_client/run_setup.h"
#include "engine/core/files/tokenizer/stop_strings.h"
#include "engine/core/files/tokenizer/utf8_stream.h"
#include "engine/core/policy/allocation.h"
#include "engine/core/policy/density.h"
#include "engine/core/support/error.h"
#include "engine/core/support/file.h"
#include "engine/core/support/json_file.h"
#include "engine/core/trace/trace_file.h"

namespace kvscope::app {
namespace {

constexpr auto kPromptOptions = std::to_array<OptionSpec>({
    {"prompt", "TEXT", "the prompt"},
    {"prompt-file", "FILE", "the prompt from a file; - is stdin"},
    {"messages", "JSON", "a conversation instead: [{\"role\": \"user\", \"content\": TEXT}, ...]"},
    {"prompt-ids", "N,N,...", "the prompt as token ids instead"},
    {"title", "TEXT", "with --prompt-ids: the title of the run"},
    {"answer-ids", "N,N,...", "the answer as token ids instead of sampling (teacher forcing)"},
});
constexpr auto kTemplateOptions = std::to_array<OptionSpec>({
    {"raw", "", "use the prompt as raw text even if the model has a chat template"},
    {"chat", "", "wrap the prompt in the model's chat template (default if it has one)"},
});
constexpr auto kTraceOptions = std::to_array<OptionSpec>({
    {"trace", "FILE", "save the run: lifetimes, scores, contests, oracle"},
    {"overwrite", "", "overwrite the trace if it exists"},
});
constexpr auto kOutputOptions = std::to_array<OptionSpec>({
    {"json", "", "one object per token, then ids, text, policy, budgets, timings and more"},
});
constexpr auto kReadingOptions = std::to_array<OptionSpec>({
    {"chunk", "N", "only read the prompt, as score --chunk N does, without an answer"},
});
constexpr auto kRunOptions =
    joined(kPromptOptions, kLengthAndSamplingOptions, kTemplateOptions, kChatOptions, kTraceOptions, kOracleOptions,
           std::to_array({kChangeOption}), kReadingOptions, decoding_engine_options(kDeviceOption), kOutputOptions);

// Writes what has been generated since the last call: each token as an object, or the text as far as it is sure. What
// may yet be the rest of a character, a stop string or an end-of-text token waits for what comes next.
class AnswerStream {
 public:
  AnswerStream(bool json, const std::vector<std::string>& stop) : json_(json), stops_(stop) {}
  void write(const RunRecord& run) {
    if (run.prompt_len == 0) return;
    if (next_ < run.prompt_len) next_ = run.prompt_len;
    for (; next_ < run.n_tokens(); ++next_) {
      const std::string_view piece = run.pieces[next_];
      if (json_) {
        write_json_line(
            nlohmann::ordered_json{{"position", next_}, {"id", run.ids[next_]}, {"piece", std::string(piece)}});
        continue;
      }
      take_held();
      held_ = piece;
      if (!(piece.starts_with('<') && piece.ends_with('>'))) take_held();
    }
    stdout_is_well();  // flushes
  }
  /// The rest, once the engine has said what the answer's text is.
  void finish(std::string_view text) {
    if (json_) return;
    if (text.ends_with(held_)) take_held();
    print(stops_.answer_bytes());
    put(characters_.finish());
  }

 private:
  static void put(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }
  void take_held() {
    waiting_ += held_;
    stops_.push(held_);
    held_.clear();
    print(stops_.sure_bytes());
  }
  // The answer up to that byte.
  void print(std::size_t end) {
    if (end <= printed_) return;
    put(characters_.push(std::string_view(waiting_).substr(0, end - printed_)));
    waiting_.erase(0, end - printed_);
    printed_ = end;
  }

  bool json_;
  int next_ = 0;
  StopStrings stops_;
  Utf8Stream characters_;
  std::string held_;     // a token that looks like markup, until another follows
  std::string waiting_;  // bytes of the answer from printed_ on
  std::size_t printed_ = 0;
};

nlohmann::ordered_json result_object(const RunRecord& run, const std::string& text) {
  const std::vector<std::int32_t> prompt(run.ids.begin(), run.ids.begin() + std::min(run.prompt_len, run.n_tokens()));
  const std::vector<std::int32_t> answer(run.ids.begin() + prompt.size(), run.ids.end());
  const double tokens_per_second = run.timings.decode_s > 0 ? run.timings.decode_steps / run.timings.decode_s : 0;
  return {{"prompt_ids", prompt},
          {"ids", answer},
          {"text", text},
          {"policy", run.policy.to_string()},
          {"thresholds", run.thresholds()},
          {"budgets", run.budgets()},
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

std::vector<std::int32_t> token_ids(const Arguments& arguments, const char* name) {
  std::vector<std::int32_t> ids;
  const std::string text = arguments.text(name);
  for (const char *at = text.data(), *end = at + text.size(); ids.empty() || at != end;) {
    if (!ids.empty() && *at++ != ',') at = end;  // then no number follows
    std::int32_t id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    if (error != std::errc() || id < 0) usage_error(dashed(name), in_quotes(text), "token ids, for example 1,15,3");
    ids.push_back(id);
    at = next;
  }
  return ids;
}

RunRequest request_of_prompt(const Arguments& arguments, const std::string& model_path) {
  const std::string file = arguments.text("prompt-file", "--prompt");
  const bool by_ids = arguments.has("prompt-ids");
  if (arguments.has("title") && !by_ids) usage_error("--title", "no --prompt-ids", "--prompt-ids as well");
  RunRequest request = run_request(arguments, model_path,
                                   by_ids ? arguments.text("title") : as_text(arguments.text_or_file("prompt"), file));
  if (by_ids) request.prompt_ids = token_ids(arguments, "prompt-ids"), request.messages.clear();
  if (!arguments.has("answer-ids")) return request;
  if (request.chunk > 0) usage_error("--answer-ids and --chunk", "both given", "one of them");
  request.answer_ids = token_ids(arguments, "answer-ids");
  if (!arguments.has("max-tokens")) request.max_tokens = static_cast<int>(request.answer_ids->size());
  return request;
}

RunRequest request_of(const Arguments& arguments, const std::string& model_path) {
  if (!arguments.has("messages")) return request_of_prompt(arguments, model_path);
  for (const char* name : {"prompt", "prompt-file", "prompt-ids", "answer-ids"}) {
    if (!arguments.has(name)) continue;
    usage_error("--messages and " + dashed(name), "both given", "one of them");
  }
  const std::vector<ChatMessage> messages = read_messages(arguments.text("messages"), "--messages");
  RunRequest request = run_request(arguments, model_path, messages.back().content);
  request.messages = with_system(system_option(arguments), messages);
  return request;
}

int run(const Arguments& arguments) {
  const std::string model_path = model_for(engine_options(arguments), arguments.positionals()[0]);
  const std::string trace = arguments.text("trace");
  if (arguments.has("trace")) {
    const std::filesystem::path inputs[] = {arguments.text("prompt-file")};
    writable_target(trace, arguments.has("overwrite"), inputs, kOverwriteHint);
  }
  const RunRequest request = request_of(arguments, model_path);
  EngineJob job(engine_options(arguments));
  const ModelInfo model = job.load(model_path, std::array{request.policy});
  const bool json = arguments.has("json");
  AnswerStream stream(json, request.stop);
  std::string text;
  RunRecord record;
  try {
    text = job.run(model, request, record, [&] {
      if (!json) job.progress().clear();
      stream.write(record);
    });
  } catch (const Error&) {
    // What was decoded before the engine died is worth as much as a cancelled run.
    if (arguments.has("trace") && record.n_tokens() > 0) {
      save_trace(trace, record, arguments.has("overwrite"));
    }
    throw;
  }
  stream.finish(text);
  if (json) {
    write_json_line(result_object(record, text));
  } else {
    std::fputc('\n', stdout);
    std::fflush(stdout);  // the answer stands before what is said of it
    job.progress().say(describe_density(record.policy, record.thresholds()));
    job.progress().say(describe_budgets(record.policy, record.heads));
  }
  // The trace first: it is kept whatever became of stdout.
  if (arguments.has("trace")) save_trace(trace, record, arguments.has("overwrite"));
  if (!stdout_is_well()) {
    job.progress().clear();
    std::fprintf(stderr, "stdout is closed; %d tokens were decoded%s%s\n", record.n_tokens() - record.prompt_len,
                 trace.empty() ? "" : " and are kept in ", escape_for_terminal(trace).c_str());
    flush_stdout();
  }
  if (record.status == RunStatus::failed) {
    throw Error({.code = ExitCode::resource,
                 .file = "engine",
                 .found = record.message.empty() ? "the run failed" : record.message});
  }
  return static_cast<int>(record.status == RunStatus::cancelled ? ExitCode::cancelled : ExitCode::done);
}

}  // namespace

extern const CommandSpec run_command = {
    "run",
    "MODEL --prompt TEXT | --prompt-file FILE | --messages JSON [options]",
    "decode a prompt under a policy and stream the answer",
    "",  // 40 lines of options are a screen
    "  kvscope run samples/models/kvscope-tiny --prompt 'Numbers:' --policy kvpop:keep=25% --trace a.h5",
    {1, 1},
    kRunOptions,
    run};

}  // namespace kvscope::app
