// kvscope train: a long job of the engine. Rows go to stdout as they come, the result is the last of --json; the curves
// become studies.

#include "app/catalog/models.h"
#include "app/cli/engine_options.h"
#include "app/cli/run_job.h"
#include "app/studies/train/training_curves.h"
#include "engine/core/support/json_file.h"

namespace kvscope::app {
namespace {

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
    kDevicesOption,
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
  nlohmann::json request = args;
  request.erase("output");
  TrainingCurves curves(arguments.text("o"), request);
  const JobEnd end = run_job(arguments, "train", args, [&](const nlohmann::json& row) {
    if (!row.contains("curve")) return false;  // curves are not for people
    curves.take(row["curve"]);
    return true;
  });
  curves.write();
  print_result(arguments, end.result);
  return end.code;
}

}  // namespace

extern const CommandSpec train_command = {
    "train",
    "RECIPE.json --data FOLDER -o FOLDER [options]",
    "train a model and its scorers, or gates for an existing model",
    "A recipe without --base pretrains a small model, then KVpop's scorers by the boundary loss (eq. 7) against the "
    "future-attention oracle, or a model together with its gate (palindrome-sp-kv.json). With --base it trains "
    "scorers or the gates of WG-KV, SP-KV, DMS or KVzap for that model, which does not change. docs/reference/training.md "
    "defines the losses.",
    "  kvscope train samples/recipes/kvscope-tiny.json --data text -o my-model --device cuda\n"
    "  kvscope train samples/recipes/smollm2-wg-kv.json --base smollm2-135m --data text -o my-gates",
    {1, 1},
    kTrainOptions,
    train};

}  // namespace kvscope::app
