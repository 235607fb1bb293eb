#include "engine/core/files/tokenizer/tokenizer_config.h"

#include <optional>

#include "engine/core/files/tokenizer/configured_tokens.h"
#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"
#include "engine/core/support/python_json.h"
#include "engine/core/support/unread_keys.h"

namespace kvscope {
namespace {

using nlohmann::json;

/// Read here or by chat.cpp, or of no effect on ids: lengths and padding, how text is printed, SentencePiece's files.
constexpr std::string_view kKnown[] = {"added_tokens_decoder",
                                       "additional_special_tokens",
                                       "extra_special_tokens",
                                       "add_bos_token",
                                       "add_eos_token",
                                       "add_prefix_space",
                                       "split_special_tokens",
                                       "tokenizer_class",
                                       "chat_template",
                                       "model_max_length",
                                       "max_len",
                                       "max_length",
                                       "padding",
                                       "padding_side",
                                       "pad_to_multiple_of",
                                       "pad_token_type_id",
                                       "truncation",
                                       "truncation_side",
                                       "truncation_strategy",
                                       "stride",
                                       "clean_up_tokenization_spaces",
                                       "errors",
                                       "legacy",
                                       "sp_model_kwargs",
                                       "spaces_between_special_tokens",
                                       "use_default_system_prompt",
                                       "model_input_names",
                                       "name_or_path",
                                       "special_tokens_map_file",
                                       "tokenizer_file",
                                       "vocab_file",
                                       "merges_file",
                                       "processor_class",
                                       "use_fast",
                                       "from_slow",
                                       "is_local",
                                       "local_files_only",
                                       "backend",
                                       "return_token_type_ids",
                                       "verbose",
                                       "response_schema",
                                       "transformers_version",
                                       "_commit_hash",
                                       "device_map",
                                       "tokenize_chinese_chars",
                                       "_from_auto",
                                       "init_inputs",
                                       "trust_remote_code",
                                       "revision",
                                       "torch_dtype",
                                       "unsloth_version"};

/// The class that transformers 5 builds anew from the vocabulary and the merges, whatever tokenizer.json says besides.
bool is_rebuilt(const std::filesystem::path& folder, const json& config) {
  if (!config.contains("tokenizer_class") || !config["tokenizer_class"].is_string()) return false;
  const auto& name = config["tokenizer_class"].get_ref<const std::string&>();
  if (name != "Qwen2Tokenizer" && name != "Qwen2TokenizerFast") return false;
  try {
    const json model = read_python_json(folder / "config.json");
    const std::string type = JsonObject(model, "").text_or("model_type", "");
    return type == "qwen2" || type == "qwen3";
  } catch (const Error&) {
    return false;  // whoever reads the model says what is wrong with it
  }
}

/// Whether Qwen2Tokenizer would cut a text as tokenizer.json says.
bool cuts_like_qwen2(const TokenizerJson& spec, const json& config) {
  const TextSteps& steps = spec.steps;
  const bool prefix = config.value("add_prefix_space", json()) == json(true);
  return steps.nfc && !steps.of_characters && steps.digits == DigitPieces::none && steps.split == SplitPattern::qwen2 &&
         steps.add_prefix_space == prefix && !spec.ignore_merges && !steps.normalizer.changes();
}

void warn_of_settings(const TokenizerFiles& files, const TokenizerJson& spec, std::vector<std::string>& warnings) {
  const json& config = files.config();
  const auto warn = [&](std::string line) { warnings.push_back(files.path(files.kConfig) + ": " + std::move(line)); };
  const auto says = [&](const char* key) -> std::optional<bool> {
    const auto it = config.find(key);
    return it == config.end() || !it->is_boolean() ? std::nullopt : std::optional(it->get<bool>());
  };
  const auto check = [&](const char* key, const char* where, bool has_any) {
    const auto wanted = says(key);
    if (!wanted || *wanted == has_any) return;
    warn(std::string(key) + ": " + (*wanted ? "true" : "false") + ", but the post_processor of tokenizer.json puts " +
         (has_any ? "a token " : "no token ") + where +
         " the text. tokenizer.json decides here, as in transformers 5 (not in 4)");
  };
  check("add_bos_token", "before", !spec.before.empty());
  check("add_eos_token", "after", !spec.after.empty());
  if (says("split_special_tokens").value_or(false))
    warn("split_special_tokens: true is ignored: special tokens in a text become their ids");
  const bool puts_blank = spec.steps.add_prefix_space || spec.steps.normalizer.prefix != BlankRule::Prefix::none ||
                          spec.steps.metaspace.prefix != BlankRule::Prefix::none;
  if (const auto prefix = says("add_prefix_space"); prefix && *prefix != puts_blank) {
    warn(std::string("add_prefix_space: ") + (*prefix ? "true" : "false") +
         ", but not in tokenizer.json, which decides here");
  }
  json others = json::object();
  for (const auto& [key, value] : config.items()) {
    if (!is_name_of_token(key)) others[key] = value;
  }
  if (auto line = unread_keys(others, kKnown, files.path(files.kConfig), "ids may differ"))
    warnings.push_back(std::move(*line));
}

}  // namespace

void add_configured_tokens(const std::filesystem::path& folder, const TokenizerJson& spec, const TokenIds& ids,
                           AddedVocabulary& vocabulary, std::vector<std::string>& warnings) {
  const TokenizerFiles files(folder, warnings);
  const bool rebuilt = is_rebuilt(folder, files.config());
  const ConfiguredTokens tokens(files, spec, rebuilt ? "<|endoftext|>" : "");
  vocabulary.add(tokens.beyond(vocabulary));
  warn_of_settings(files, spec, warnings);
  if (!rebuilt) return;
  vocabulary.add(tokens.all_special());
  AddedVocabulary other(ids);
  other.add(tokens.beyond(other));
  other.add(tokens.all_special());
  if (other == vocabulary && cuts_like_qwen2(spec, files.config())) return;
  warnings.push_back(
      files.path(files.kConfig) +
      ": tokenizer_class: transformers 5 rebuilds Qwen2Tokenizer from the vocabulary, so its steps or added tokens "
      "differ from those of tokenizer.json. KVScope uses tokenizer.json");
}

}  // namespace kvscope
