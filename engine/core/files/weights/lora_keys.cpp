#include "engine/core/files/weights/lora_keys.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "engine/core/support/json_file.h"
#include "engine/core/support/refuse.h"

namespace kvscope {
namespace {

using nlohmann::json;

constexpr char kMerge[] =
    "merge it into its model with PEFT (merge_and_unload, then save_pretrained) and open the merged model's folder";
constexpr char kConvert[] =
    "PEFT changes the model's base weights for it: convert it with PEFT's save_pretrained(..., "
    "path_initial_model_for_weight_conversion=INITIAL_ADAPTER), or merge it into its model";
constexpr char kActivated[] =
    "an activated LoRA acts only after its activation tokens, which KVScope does not support; use a plain LoRA";

/// What LoraConfig reads, or what has no say in what the adapter computes.
enum class Kind { text, boolean, object, number, any };
struct Understood {
  std::string_view key;
  Kind kind;
};
constexpr Understood kUnderstood[] = {
    {"alpha_pattern", Kind::object},
    {"auto_mapping", Kind::object},
    {"base_model_name_or_path", Kind::text},
    {"ensure_weight_tying", Kind::boolean},
    {"eva_config", Kind::object},
    {"exclude_modules", Kind::any},
    {"inference_mode", Kind::boolean},
    {"layers_pattern", Kind::any},
    {"layers_to_transform", Kind::any},
    {"lora_alpha", Kind::any},
    {"lora_dropout", Kind::number},
    {"megatron_core", Kind::text},
    {"peft_type", Kind::text},
    {"peft_version", Kind::text},
    {"qalora_group_size", Kind::number},
    {"r", Kind::any},
    {"rank_pattern", Kind::object},
    {"revision", Kind::text},
    {"runtime_config", Kind::any},
    {"target_modules", Kind::any},
    {"use_rslora", Kind::boolean},
};

/// What PEFT 0.21 knows and KVScope does not compute, with the one value beside null that switches it off. An empty
/// object does not: PEFT makes the defaults of a method from it.
struct Refused {
  std::string_view key, off, hint;
};
constexpr Refused kRefused[] = {
    {"alora_invocation_tokens", "null", kActivated},
    {"arrow_config", "null", "arrow chooses among several adapters at each token; use a plain LoRA"},
    {"corda_config", "null", kConvert},
    {"fan_in_fan_out", "false", kMerge},
    {"kasa_config", "null", kMerge},
    {"layer_replication", "null", kMerge},
    {"loftq_config", "{}", kMerge},
    {"lora_bias", "false", kMerge},
    {"lora_ga_config", "null", kConvert},
    {"megatron_config", "null", "convert the adapter to one of the transformers model"},
    {"modules_to_save", "[]", kMerge},
    {"monteclora_config", "null", kMerge},
    {"target_parameters", "[]", kMerge},
    {"trainable_token_indices", "null", kMerge},
    {"use_bdlora", "null", kMerge},
    {"use_dora", "false", kMerge},
    {"use_qalora", "false", kMerge},
    {"velora_config", "null", kMerge},
};

constexpr std::array<std::string_view, 6> kTasks = {"CAUSAL_LM", "FEATURE_EXTRACTION", "QUESTION_ANS", "SEQ_2_SEQ_LM",
                                                    "SEQ_CLS",   "TOKEN_CLS"};

std::string shown(const json& value) {
  return escape_for_terminal(value.dump(-1, ' ', false, json::error_handler_t::replace), 60);
}

bool is_of(const json& value, Kind kind) {
  return kind == Kind::any || (kind == Kind::text && value.is_string()) ||
         (kind == Kind::boolean && value.is_boolean()) || (kind == Kind::object && value.is_object()) ||
         (kind == Kind::number && value.is_number());
}

constexpr std::string_view words_of(Kind kind) {
  return kind == Kind::text      ? "a text"
         : kind == Kind::boolean ? "true or false"
         : kind == Kind::object  ? "an object"
                                 : "a number";
}

bool is_unset(const json& value) {
  return value.is_null() || value == false || ((value.is_array() || value.is_object()) && value.empty()) || value == "";
}

/// Only these leave the model's weights as they are when PEFT loads the adapter.
void check_init(const json& value, const std::string& file) {
  if (value.is_null() || value.is_boolean()) return;
  for (const char* name : {"gaussian", "orthogonal", "eva"}) {
    if (value == name) return;
  }
  const std::string name = value.is_string() ? value.get<std::string>() : "";
  const bool converts = name.starts_with("pissa") || name.starts_with("corda") || name == "olora" || name == "lora_ga";
  refuse(file, "init_lora_weights", shown(value), "true, false, \"gaussian\", \"orthogonal\" or \"eva\"",
         converts ? kConvert : kMerge);
}

/// Numbers of the training alone, which PEFT checks all the same.
void check_training(const json& config, const std::string& file) {
  if (config.contains("lora_dropout")) JsonObject(config, file).number("lora_dropout", 0, 1);
  const auto eva = config.find("eva_config");
  if (eva == config.end() || !eva->is_object()) return;
  const JsonObject numbers(*eva, file, "eva_config");
  numbers.number_or("rho", 2, 1, 1e6);
  numbers.number_or("tau", 0.5, 0, 1);
}

}  // namespace

void check_lora_keys(const json& config, const std::string& file) {
  const JsonObject object(config, file);
  if (object.text("peft_type") != "LORA") refuse(file, "peft_type", shown(config["peft_type"]), "\"LORA\"", kMerge);
  if (config.contains("bias") && config["bias"] != "none")
    refuse(file, "bias", shown(config["bias"]), "\"none\"", kMerge);
  if (config.contains("init_lora_weights")) check_init(config["init_lora_weights"], file);
  if (const std::string task = object.text_or("task_type", "CAUSAL_LM");
      std::ranges::find(kTasks, task) == kTasks.end())
    refuse(file, "task_type", in_quotes(task), "one of PEFT's, such as CAUSAL_LM");
  check_training(config, file);
  for (const auto& [key, value] : config.items()) {
    if (key == "bias" || key == "init_lora_weights" || key == "task_type") continue;
    const auto* known = std::ranges::find(kUnderstood, key, &Understood::key);
    if (known != std::end(kUnderstood)) {
      if (!value.is_null() && !is_of(value, known->kind))
        refuse(file, key, shown(value), std::string(words_of(known->kind)));
      continue;
    }
    const auto* refused = std::ranges::find(kRefused, key, &Refused::key);
    if (refused != std::end(kRefused)) {
      if (!value.is_null() && value != json::parse(refused->off))
        refuse(file, key, shown(value), std::string(refused->off), std::string(refused->hint));
    } else if (!is_unset(value)) {
      refuse(file, escape_for_terminal(key, 60), shown(value), "a key that KVScope supports, or null",
             "it may change what the adapter computes; remove the key if it does not, or merge the adapter into its "
             "model");
    }
  }
}

}  // namespace kvscope
