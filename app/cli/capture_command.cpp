// kvscope capture: many prompts into one trace that survives kill -9.

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>

#include "app/cli/output.h"
#include "app/cli/run_options.h"
#include "app/studies/capture/capture_run.h"
#include "engine/core/support/error.h"
#include "engine/core/support/file.h"
#include "engine/core/support/text.h"

namespace kvscope::app {
namespace {

constexpr OptionSpec kResumeOption = {"resume", "",
                                      "continue FILE if it exists, without the prompts that it already has"};
constexpr OptionSpec kShardOption = {"shard", "I/N", "only prompts i with i % N == I, for i from 0 (0/1)"};

constexpr auto kFileOptions = std::to_array<OptionSpec>({
    {"o", "FILE", "the trace to write (HDF5)"},
    {"overwrite", "", "overwrite FILE if it exists"},
    kResumeOption,
    kShardOption,
});
constexpr auto kCapturePrompts = std::to_array<OptionSpec>({
    {"limit", "N", "only the first N prompts"},
    {"batch", "N", "prompts to decode at once (8 on a CPU, 32 on a GPU, fewer if memory is short)"},
    {"skip-bad", "", "record as failed runs the prompts that cannot be decoded, and continue"},
    {"raw", "", "use the prompts as raw text even if the model has a chat template"},
    {"chat", "", "wrap the prompts in the model's chat template (default if it has one)"},
});
constexpr auto kCaptureOutput = std::to_array<OptionSpec>({
    {"json", "", "print a summary as JSON"},
});
constexpr auto kCaptureOptions =
    joined(kFileOptions, kLengthAndSamplingOptions, kCapturePrompts, kChatOptions, kOracleOptions,
           std::to_array({kChangeOption}), decoding_engine_options(kDevicesOption), kCaptureOutput);

// A conversation as raw text would be its last message alone.
void check_conversations(const std::vector<Prompt>& prompts, const std::string& file) {
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    if (prompts[i].messages.empty()) continue;
    usage_error(file, "prompt " + std::to_string(i + 1) + " is a conversation",
                "raw text, because the model has no supported chat template or --raw is given");
  }
}

int report(const Arguments& arguments, const CaptureResult& result, const RunRequest& request) {
  const CapturePlan& plan = result.plan;
  if (arguments.has("json")) {
    write_json_line(nlohmann::ordered_json{{"trace", plan.file},
                                           {"runs", result.runs},
                                           {"prompts", plan.indices.size()},
                                           {"shard", shard_text(plan.info)},
                                           {"resumed", plan.done.size()},
                                           {"tokens", result.tokens},
                                           {"policy", request.policy.to_string()},
                                           {"status", result.is_whole() ? "complete" : "cancelled"}});
  } else if (!arguments.has("quiet")) {
    const std::string file = escape_for_terminal(plan.file);
    if (plan.is_whole() && result.tokens == 0) {
      std::fprintf(stderr, "%s: already complete: %d of %zu prompts\n", file.c_str(), result.runs, plan.indices.size());
    } else {
      std::fprintf(stderr, "%s: %d of %zu prompts, %lld %stokens\n", file.c_str(), result.runs, plan.indices.size(),
                   static_cast<long long>(result.tokens), plan.done.empty() ? "" : "new ");
    }
  }
  return static_cast<int>(result.is_whole() ? ExitCode::done : ExitCode::cancelled);
}

std::vector<Prompt> prompts_of(const Arguments& arguments, const RunRequest& request) {
  std::vector<Prompt> prompts = read_prompts(arguments.positionals()[1]);
  const auto limit = arguments.integer("limit", static_cast<std::int64_t>(prompts.size()), 1, 1 << 30);
  prompts.resize(std::min<std::size_t>(prompts.size(), limit));
  if (request.raw) check_conversations(prompts, arguments.positionals()[1]);
  return prompts;
}

int capture(const Arguments& arguments) {
  const EngineJobOptions engine = engine_options(arguments);
  const std::string model = model_for(engine, arguments.positionals()[0]);
  if (!arguments.has("o")) usage_error("kvscope capture", "no -o FILE", "", "give the trace to write");
  const RunRequest request = run_request(arguments, model, "");
  const CaptureAsked asked{.file = arguments.text("o"),
                           .shard = parse_shard(arguments.text("shard", "0/1")),
                           .system = system_option(arguments),
                           .resume = arguments.has("resume"),
                           .overwrite = arguments.has("overwrite"),
                           .skip_bad = arguments.has("skip-bad"),
                           .batch = static_cast<int>(arguments.integer("batch", 0, 1, 1024))};
  std::vector<Prompt> prompts = prompts_of(arguments, request);
  const std::filesystem::path inputs[] = {arguments.positionals()[1]};
  writable_target(asked.file, asked.resume || asked.overwrite, inputs,
                  "--resume continues it, --overwrite replaces it");
  return report(arguments, run_capture(asked, std::move(prompts), request, model, engine), request);
}

}  // namespace

extern const CommandSpec capture_command = {
    "capture",
    "MODEL PROMPTS -o FILE [options]",
    "decode many prompts into one trace (HDF5)",
    "PROMPTS: .jsonl (\"prompt\" or \"messages\"), text (a prompt per line) or a folder of .txt files.",
    "  kvscope capture samples/models/kvscope-tiny prompts.jsonl -o traces.h5 --policy kvpop:keep=25%",
    {2, 2},
    kCaptureOptions,
    capture};

}  // namespace kvscope::app
