// kvscope bench: what KVScope does, timed beside the least that the device allows. The rows also become a study.

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "app/catalog/models.h"
#include "app/cli/bench_peers.h"
#include "app/cli/command_list.h"
#include "app/cli/engine_options.h"
#include "app/cli/output.h"
#include "app/cli/run_job.h"
#include "app/studies/bench/bench_table.h"
#include "app/support/paths.h"
#include "app/window/app_window.h"
#include "engine/core/files/gate/gate_name.h"
#include "engine/core/support/error.h"
#include "engine/core/support/file.h"
#include "engine/core/support/text.h"
#include "engine/core/trace/study_file.h"

namespace kvscope::app {
namespace {

using nlohmann::json;

constexpr OptionSpec kBenchOptions[] = {
    {"model", "MODEL", "the model's folder (the sample model)"},
    {"shape", "NAME", "use random weights of a known shape, e.g. qwen3-0.6b"},
    {"policy", "SPEC", "NAME:key=value,...; repeatable (default: several policies)", true},
    {"prompt-tokens", "N", "tokens of the prompt, or of the text; ui: of the run that is shown"},
    {"max-tokens", "N", "decode, batch, ragged, policy: tokens per repetition; capture: per prompt"},
    {"batch", "N", "sequences at once, up to 32 (1; capture: 32, CPU: 8); batch, ragged: several, e.g. 1,8,32"},
    {"chunk", "N", "prefill: prompt tokens per step; score: tokens between two evictions (1)"},
    {"prompts", "N", "capture: number of prompts (4)"},
    {"frames", "N", "ui: frames (600)"},
    {"repeats", "N", "measured repetitions, after a warm-up"},
    {"o", "FILE.h5", "the study to write (HDF5)"},
    {"overwrite", "", "overwrite FILE.h5 if it exists"},
    kGateOption,
    kDeviceOption,
    kDtypeOption,
    kEngineOption,
    kQuietOption,
    kRowsJsonOption,
};

constexpr const char* kBenches[] = {"decode", "batch",   "ragged", "policy", "prefill",
                                    "oracle", "capture", "score",  "ui",     "scoreboard"};

/// The model to measure, and its gates.
void add_model(const Arguments& arguments, json& args) {
  const std::string model = arguments.text("model", sample_model().string());
  if (model.empty()) throw Error({.file = "--model", .found = "no sample model", .expected = "--model FOLDER"});
  const std::string folder = model_for(engine_options(arguments), model);
  std::vector<PolicySpec> policies;
  for (const std::string& policy : arguments.texts("policy")) policies.push_back(PolicySpec::parse(policy));
  args["model"] = folder;
  args["gates"] = gates_for(engine_options(arguments), folder, policies);
}

/// Options that another benchmark has would be passed over in silence.
void check_only(const Arguments& arguments, const std::string& name, std::initializer_list<std::string_view> allowed) {
  for (const OptionSpec& option : kBenchOptions) {
    if (arguments.has(option.name) && std::ranges::find(allowed, option.name) == allowed.end())
      usage_error(dashed(option.name), "not an option of bench " + name, "kvscope bench --help");
  }
}

/// Frames of the window over a long run that grows, beside the 16.7 ms that 60 frames per second leave each.
JobEnd bench_window(const Arguments& arguments) {
  check_only(arguments, "ui", {"prompt-tokens", "frames", "o", "overwrite", "quiet", "json"});
  constexpr double kFrameMs = 1000.0 / 60;
  BenchUiOptions options;
  options.frames = static_cast<int>(arguments.integer("frames", options.frames, 1, 100000));
  options.tokens = static_cast<int>(arguments.integer("prompt-tokens", options.tokens, 64, 1 << 22));
  options.frames_only = true;
  WindowOptions window_options;
  window_options.bench = true;
  AppWindow window(window_options);
  const json report = window.bench(options);
  const json& live = report.at("live");
  json row = {{"what", live.at("what")},
              {"frames", live.at("frames")},
              {"first_frame_ms", report.at("first_frame_ms")},
              {"floor_ms", kFrameMs},
              {"ratio_to_floor", live.at("frame_ms").at("p99").get<double>() / kFrameMs}};
  for (const char* part : {"own", "raster", "frame"}) {
    for (const char* point : {"p50", "p95", "p99"})
      row[std::string(part) + "_" + point + "_ms"] = live.at(std::string(part) + "_ms").at(point);
  }
  if (arguments.has("json")) {
    write_json_line(row);
  } else {
    std::printf("%s99 %% of the frames take at most %.2f ms = %.2f x the %.1f ms of 60 frames per second\n",
                bench_text(report).c_str(), row["frame_p99_ms"].get<double>(), row["ratio_to_floor"].get<double>(),
                kFrameMs);
  }
  return {0, {{"status", "complete"}, {"machine", report.at("machine")}, {"rows", {row}}}};
}

json engine_arguments(const Arguments& arguments, const std::string& name) {
  json args = given_options(
      arguments, {"shape", "prompt-tokens", "max-tokens", "batch", "chunk", "prompts", "repeats", "device", "dtype"});
  args["name"] = name;
  if (arguments.has("policy")) args["policy"] = arguments.texts("policy");
  if (arguments.has("shape") && arguments.has("gate"))
    usage_error("--shape and --gate", "both given", "one of them, because random weights have no gate");
  if (!arguments.has("shape")) add_model(arguments, args);
  return args;
}

/// What is not in the table, and how to measure it.
void add_missing(json& result) {
  json& missing = result["missing"];
  if (!missing.is_array()) missing = json::array();
  missing.push_back({{"row", "ui"}, {"reason", "needs a display"}, {"command", "kvscope bench ui"}});
  for (const Peer& peer : bench_peers()) {
    const bool is_there = is_importable(peer.module);
    missing.push_back({{"row", std::string("peer ") + peer.module},
                       {"reason", is_there ? "is measured by its own script" : "Python cannot import it"},
                       {"command", peer.command}});
  }
}

void print_missing(const json& missing) {
  std::printf("\nnot measured here:\n");
  for (const json& row : missing) {
    std::printf("  %s: %s\n    %s\n", row.value("row", "").c_str(), row.value("reason", "").c_str(),
                row.value("command", "").c_str());
  }
}

int bench(const Arguments& arguments) {
  const std::string name = arguments.positionals()[0];
  if (std::ranges::find(kBenches, name) == std::end(kBenches)) {
    std::string names;
    for (const char* one : kBenches) names += (names.empty() ? "" : ", ") + std::string(one);
    usage_error(name, "no such benchmark", "one of " + names);
  }
  const std::filesystem::path study = arguments.text("o");
  const bool overwrite = arguments.has("overwrite");
  if (arguments.has("o") && study.extension() != ".h5")
    usage_error("-o", in_quotes(study.string()), "a name that ends in .h5");
  if (!study.empty()) writable_target(study, overwrite, {}, kOverwriteHint);
  const bool is_board = name == "scoreboard";
  if (is_board) check_only(arguments, name, {"device", "engine", "o", "overwrite", "quiet", "json"});
  json args = {{"name", name}};
  if (is_board && arguments.has("device")) args["device"] = arguments.text("device");
  if (!is_board && name != "ui") args = engine_arguments(arguments, name);
  JobEnd end = name == "ui" ? bench_window(arguments) : run_job(arguments, "bench", args);
  if (is_board && end.code == 0) add_missing(end.result);
  print_result(arguments, end.result);
  if (is_board && end.code == 0 && !arguments.has("json")) print_missing(end.result["missing"]);
  if (args.contains("gates")) args["gates"] = gates_in_study(args["gates"].get<std::vector<std::string>>());
  if (!study.empty() && end.code == 0) write_study(study, bench_table(args, end.result), overwrite);
  return end.code;
}

}  // namespace

extern const CommandSpec bench_command = {
    "bench",
    "decode|batch|ragged|policy|prefill|oracle|capture|score|ui|scoreboard [options]",
    "measure the speed of decoding, prompts, oracle, capture, scoring or the window",
    "Each row is checked against its definition, then timed beside the least that the device could take (floor). "
    "batch: several batch sizes; ragged: heads of different lengths; policy: each policy beside the full cache; "
    "scoreboard: the rows that fit this machine, their goals, and the commands for the others.",
    "  kvscope bench decode --device cpu --policy full --policy tova:keep=25%\n"
    "  kvscope bench prefill --shape qwen3-8b --prompt-tokens 32768 --device cuda",
    {1, 1},
    kBenchOptions,
    bench};

}  // namespace kvscope::app
