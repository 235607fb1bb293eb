#include "engine/core/files/weights/text_part.h"

#include <string_view>
#include <utility>

#include "engine/core/files/weights/model_family.h"
#include "engine/core/support/json_file.h"
#include "engine/core/support/refuse.h"

namespace kvscope {
namespace {

using nlohmann::json;

/// Said once, of the whole, unless the part says it too.
constexpr const char* kShared[] = {"dtype",        "torch_dtype",         "eos_token_id",
                                   "bos_token_id", "tie_word_embeddings", "quantization_config"};

const ModelFamily* family_of_whole(const json& config, const JsonObject& object) {
  const auto names = config.find("architectures");
  const bool is_named = names != config.end() && names->is_array() && !names->empty();
  for (const ModelFamily& family : model_families()) {
    if (*family.whole == '\0') continue;
    if (is_named ? *names == json::array({family.whole}) : object.text_or("model_type", "") == family.whole_type)
      return &family;
  }
  return nullptr;
}

}  // namespace

std::optional<TextPart> text_part(const json& config, const std::string& file) {
  const JsonObject object(config, file);
  const ModelFamily* family = family_of_whole(config, object);
  if (family == nullptr) return std::nullopt;
  const auto found = config.find(TextPart::kKey);
  if (found == config.end() || !found->is_object())
    refuse(file, TextPart::kKey, found == config.end() ? "missing" : "not an object",
           std::string("an object, the language model of ") + family->whole);
  TextPart part{*found, file + ": only the text part of " + family->whole + " is loaded; prompts cannot have images"};
  part.config["architectures"] = {family->architecture};
  for (const char* key : kShared) {
    const bool has_own = part.config.contains(key) && !part.config[key].is_null();
    if (!has_own && config.contains(key)) part.config[key] = config[key];
  }
  return part;
}

std::optional<std::string> name_in_text_part(const std::string& tensor) {
  constexpr std::pair<std::string_view, std::string_view> kPrefixes[] = {{"language_model.", ""},
                                                                         {"model.language_model.", "model."}};
  for (const auto& [of_whole, alone] : kPrefixes)
    if (tensor.starts_with(of_whole)) return std::string(alone) + tensor.substr(of_whole.size());
  return std::nullopt;
}

}  // namespace kvscope
