#include "engine/core/files/weights/generation_config.h"

#include "engine/core/support/json_file.h"
#include "engine/core/support/python_json.h"
#include "engine/core/support/refuse.h"
#include "engine/core/support/unread_keys.h"

namespace kvscope {
namespace {

using nlohmann::json;

/// Read, or of no effect on what a run of ours makes: its length, the caches and the outputs of other programs.
constexpr std::string_view kKnown[] = {"do_sample",
                                       "temperature",
                                       "top_k",
                                       "top_p",
                                       "min_p",
                                       "repetition_penalty",
                                       "eos_token_id",
                                       "bos_token_id",
                                       "pad_token_id",
                                       "decoder_start_token_id",
                                       "transformers_version",
                                       "_from_model_config",
                                       "max_length",
                                       "max_new_tokens",
                                       "max_time",
                                       "use_cache",
                                       "cache_implementation",
                                       "cache_config",
                                       "return_legacy_cache",
                                       "output_attentions",
                                       "output_hidden_states",
                                       "output_scores",
                                       "output_logits",
                                       "return_dict_in_generate",
                                       "num_return_sequences",
                                       "remove_invalid_values",
                                       "renormalize_logits",
                                       "early_stopping",
                                       "trust_remote_code",
                                       "chat_format",
                                       "max_window_size",
                                       "user_token_id",
                                       "assistant_token_id",
                                       "generation_kwargs",
                                       "prefill_chunk_size",
                                       "compile_config",
                                       "disable_compile",
                                       "is_assistant",
                                       "num_assistant_tokens",
                                       "num_assistant_tokens_schedule",
                                       "assistant_confidence_threshold",
                                       "prompt_lookup_num_tokens",
                                       "max_matching_ngram_size",
                                       "assistant_early_exit",
                                       "assistant_lookbehind",
                                       "target_lookbehind"};

class Reader {
 public:
  Reader(const json& settings, std::string file, int vocab_size, GenerationConfig& out)
      : settings_(settings), object_(settings, std::move(file)), vocab_size_(vocab_size), out_(out) {}

  void read() {
    GenerationDefaults& to = out_.defaults;
    use("do_sample", [&] { to.do_sample = object_.boolean_or("do_sample", false); });
    use("temperature", [&] { to.temperature = object_.number("temperature", 0, 1e6); });
    use("top_k", [&] { read_top_k(); });
    use("top_p", [&] { to.top_p = object_.number("top_p", 0, 1); });
    use("min_p", [&] { to.min_p = object_.number("min_p", 0, 1); });
    use("repetition_penalty", [&] { to.repetition_penalty = object_.number("repetition_penalty", 1e-6, 1e6); });
    use("eos_token_id",
        [&] { out_.eos_ids = token_ids(settings_, "eos_token_id", object_.file(), vocab_size_, out_.warnings); });
    if (auto line = unread_keys(without_neutral(), kKnown, object_.file(), "KVScope does not apply it"))
      out_.warnings.push_back(std::move(*line));
  }

 private:
  template <typename Read>
  void use(const char* key, const Read& read) {
    if (!object_.has(key)) return;
    try {
      read();
    } catch (const Error& error) {
      out_.warnings.push_back(std::string(error.what()) + "; ignored");
    }
  }

  /// -1 is vLLM's way to write "no limit".
  void read_top_k() {
    const auto top_k = object_.integer("top_k", -1, 1 << 30);
    out_.defaults.top_k = top_k < 0 ? 0 : static_cast<int>(top_k);
  }

  /// Files that write every default of transformers: 0 and 1 are what turns its other settings off.
  json without_neutral() const {
    json out = json::object();
    for (const auto& [key, value] : settings_.items()) {
      if (!value.is_number() || (value != 0 && value != 1)) out[key] = value;
    }
    return out;
  }

  const json& settings_;
  JsonObject object_;
  int vocab_size_;
  GenerationConfig& out_;
};

}  // namespace

std::vector<std::int32_t> token_ids(const json& object, const char* key, const std::string& file, int vocab_size,
                                    std::vector<std::string>& warnings) {
  const auto it = object.find(key);
  if (it == object.end() || it->is_null()) return {};
  std::vector<std::int32_t> ids;
  for (const json& element : it->is_array() ? *it : json::array({*it})) {
    // JsonObject reads objects: lend it the element under the list's own name.
    const json lent = {{key, element}};
    const std::int64_t id = JsonObject(lent, file).integer(key, INT32_MIN, INT32_MAX);
    if (id >= 0 && id < vocab_size) {
      ids.push_back(static_cast<std::int32_t>(id));
    } else {
      warnings.push_back(file + ": " + key + ": " + std::to_string(id) + "; expected an integer from 0 to " +
                         std::to_string(vocab_size - 1) + "; ignored");
    }
  }
  return ids;
}

GenerationConfig GenerationConfig::load(const std::filesystem::path& folder, int vocab_size) {
  GenerationConfig out;
  const std::filesystem::path path = folder / "generation_config.json";
  std::error_code error;  // a link that leads nowhere is there: half a download should be noticed
  if (std::filesystem::symlink_status(path, error).type() <= std::filesystem::file_type::not_found) return out;
  try {
    const json settings = read_python_json(path);
    Reader(settings, path.string(), vocab_size, out).read();
  } catch (const Error& damaged) {
    if (damaged.code() != ExitCode::bad_input) throw;
    out = {.warnings = {std::string(damaged.what()) + "; the file is ignored"}};
  }
  return out;
}

}  // namespace kvscope
