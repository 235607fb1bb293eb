// kvscope train, bench: long jobs of the engine. Rows go to stdout as they come, the result is the last of
// --json. What they measure also becomes a study.

#include <cstdio>
#include <filesystem>

#include "app/catalog/models.h"
#include "app/cli/arguments.h"
#include "app/cli/engine_options.h"
#include "app/cli/output.h"
#include "app/studies/bench/bench_table.h"
#include "app/studies/train/training_curves.h"
#include "app/support/paths.h"
#include "engine/core/files/gate/gate_name.h"
#include "engine/core/protocol/events.h"
#include "engine/core/support/error.h"
#include "engine/core/support/file.h"
#include "engine/core/support/json_file.h"
#include "engine/core/trace/study_file.h"

namespace kvscope::app {
namespace {

/// `curves` takes a training's rows of its curves, which are not for people.
int run_job(const Arguments& arguments, const std::string& name, const nlohmann::json& args, TrainingCurves* curves,
            nlohmann::json& result) {
  EngineJob job(engine_options(arguments));
  const bool json = arguments.has("json");
  const auto done = job.call(protocol::JobRequest{name, args}, [&](const nlohmann::json& event) {
    if (event.value("type", "") != "row") return;
    const nlohmann::json data = event.value("data", nlohmann::json::object());
    if (curves != nullptr && data.contains("curve")) return curves->take(data["curve"]);
    job.progress().clear();
    if (json) {
      write_json_line(data);
    } else {
      std::printf("%s\n", event.value("text", "").c_str());
    }
  });
  job.progress().clear();
  result = done.value("result", nlohmann::json::object());
  if (curves != nullptr) curves->write();
  if (json) {
    write_json_line(result);
  } else if (result.is_object() && result.contains("markdown") && result["markdown"].is_string()) {
    if (const auto table = result["markdown"].get<std::string>(); !table.empty()) std::printf("\n%s", table.c_str());
  }
  return static_cast<int>(protocol::was_cancelled(done) ? ExitCode::cancelled : ExitCode::done);
}

// The options that were given, under their names: "--max-tokens 5" is {"max_tokens": 5}. Numbers go as numbers.
nlohmann::json given_options(const Arguments& arguments, std::initializer_list<const char*> names) {
  nlohmann::json args = nlohmann::json::object();
  for (const char* name : names) {
    if (!arguments.has(name)) continue;
    std::string key = name;
    for (char& c : key) c = c == '-' ? '_' : c;
    const std::string text = arguments.text(name);
    const auto number = nlohmann::json::parse(text, nullptr, false);
    args[key] = number.is_number() ? number : nlohmann::json(text);
  }
  return args;
}

// Every job answers with rows and a result.
constexpr OptionSpec kRowsJsonOption = {"json", "", "one object per row, then the result"};

constexpr OptionSpec kTrainOptions[] = {
    {"base", "MODEL", "train gates for this model: a name or folder (default: the recipe's model)"},
    {"data", "PATH", "a corpus from prepare_corpus.py; with --base also text files; for palindromes a tokenizer"},
    {"o", "FOLDER", "output folder for the model or its gates"},
    {"resume", "", "continue a stopped training with the same recipe, text and base"},
    {"overwrite", "", "start over in a folder that holds a training"},
    {"checkpoint-seconds", "N", "seconds between two checkpoints (60)"},
    {"phase", "all|base|scorer|gate", "what to train (all)"},
    {"seed", "N", "seed of data and initial weights (the recipe's)"},
    {"threads", "N", "threads that make batches (the machine's)"},
    {"overrides", "JSON", "JSON merged over the recipe (RFC 7396), e.g. '{\"base\": {\"steps\": 100}}'"},
    {"device", "NAME", "auto, cpu, cuda, cuda:N; several: cuda:0,cuda:1 or cuda:all (auto)"},
    kEngineOption,
    kQuietOption,
    kRowsJsonOption,
};

int train(const Arguments& arguments) {
  nlohmann::json args = given_options(arguments, {"phase", "seed", "threads", "device", "checkpoint-seconds"});
  args["recipe"] = arguments.positionals()[0];
  if (arguments.has("base")) args["base"] = model_folder(arguments.text("base"));
  for (const auto& [option, key] : {std::pair("o", "output"), std::pair("data", "data")}) {
    if (!arguments.has(option)) usage_error("kvscope train", "no " + dashed(option), dashed(option) + " FOLDER");
    args[key] = arguments.text(option);
  }
  for (const char* option : {"resume", "overwrite"}) {
    if (arguments.has(option)) args[option] = true;
  }
  if (arguments.has("overrides")) args["overrides"] = parse_json(arguments.text("overrides"), "--overrides");
  nlohmann::json request = args, result;
  request.erase("output");
  TrainingCurves curves(arguments.text("o"), request);
  return run_job(arguments, "train", args, &curves, result);
}

constexpr OptionSpec kBenchOptions[] = {
    {"model", "MODEL", "the model's folder (the sample model)"},
    {"shape", "NAME", "use random weights of a known shape, e.g. qwen3-0.6b"},
    {"policy", "SPEC", "NAME:key=value,... (default: several policies)"},
    {"prompt-tokens", "N", "tokens of the prompt"},
    {"max-tokens", "N", "decode: tokens per repetition"},
    {"batch", "N", "decode: sequences at once, up to 32 (1)"},
    {"chunk", "N", "prefill: prompt tokens per step (chosen by device and policy)"},
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

/// The model to measure, and its gates.
void add_model(const Arguments& arguments, nlohmann::json& args) {
  const std::string model = arguments.text("model", sample_model().string());
  if (model.empty()) throw Error({.file = "--model", .found = "no sample model", .expected = "--model FOLDER"});
  const std::string folder = model_for(engine_options(arguments), model);
  std::vector<PolicySpec> policies;
  if (arguments.has("policy")) policies.push_back(PolicySpec::parse(arguments.text("policy")));
  args["model"] = folder;
  args["gates"] = gates_for(engine_options(arguments), folder, policies);
}

int bench(const Arguments& arguments) {
  const std::string name = arguments.positionals()[0];
  if (name != "decode" && name != "prefill") usage_error(name, "no such benchmark", "decode or prefill");
  nlohmann::json args = given_options(
      arguments, {"policy", "shape", "prompt-tokens", "max-tokens", "batch", "chunk", "repeats", "device", "dtype"});
  args["name"] = name;
  if (arguments.has("shape") && arguments.has("gate"))
    usage_error("--shape and --gate", "both given", "one of them, because random weights have no gate");
  const std::filesystem::path study = arguments.text("o");
  const bool overwrite = arguments.has("overwrite");
  if (arguments.has("o") && study.extension() != ".h5")
    usage_error("-o", in_quotes(study.string()), "a name that ends in .h5");
  if (!study.empty()) writable_target(study, overwrite, {}, kOverwriteHint);
  if (!arguments.has("shape")) add_model(arguments, args);
  nlohmann::json result;
  const int code = run_job(arguments, "bench", args, nullptr, result);
  if (args.contains("gates")) args["gates"] = gates_in_study(args["gates"].get<std::vector<std::string>>());
  if (!study.empty() && code == 0) write_study(study, bench_table(args, result), overwrite);
  return code;
}

}  // namespace

extern const CommandSpec train_command = {
    "train",
    "RECIPE.json --data FOLDER -o FOLDER [options]",
    "train a model and its scorers, or gates for an existing model",
    "A recipe without --base pretrains a small model, then KVpop's scorers by the boundary loss (eq. 7) against the "
    "future-attention oracle, or a model together with its gate (palindrome-sp-kv.json). With --base it trains "
    "scorers or the gates of WG-KV, SP-KV or DMS for that model, which does not change. docs/reference/training.md "
    "defines the losses.",
    "  kvscope train samples/recipes/kvscope-tiny.json --data text -o my-model --device cuda\n"
    "  kvscope train samples/recipes/smollm2-wg-kv.json --base smollm2-135m --data text -o my-gates",
    {1, 1},
    kTrainOptions,
    train};

extern const CommandSpec bench_command = {
    "bench",
    "decode|prefill [options]",
    "measure the speed of decoding or of reading a prompt",
    "Prints tokens per second with the spread over the repetitions: for decoding with recording off and on; for a "
    "prompt, also the time that the matrix products alone would take on this device.",
    "  kvscope bench decode --device cpu\n"
    "  kvscope bench prefill --shape qwen3-8b --prompt-tokens 32768 --device cuda",
    {1, 1},
    kBenchOptions,
    bench};

}  // namespace kvscope::app
