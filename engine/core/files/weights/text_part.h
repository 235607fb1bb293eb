#pragma once
// A language model that is the text part of a larger one: Gemma 3 from 4B on comes with a vision tower.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace kvscope {

/// What such a checkpoint's config.json says of its language model, as that model's own file would say it.
struct TextPart {
  static constexpr const char* kKey = "text_config";
  nlohmann::json config;
  std::string warning;  // a line: the rest is not loaded
};
/// Nothing if `config` is of a language model alone, or of no model that is known (ModelFamily::whole). Throws Error if the
/// part is missing.
std::optional<TextPart> text_part(const nlohmann::json& config, const std::string& file);

/// "language_model.model.norm.weight" -> "model.norm.weight", as the part alone has it; nothing for a tensor of no text part.
/// Published files begin all names so; transformers 4.52 to 4.57 wrote "model.language_model.norm.weight".
std::optional<std::string> name_in_text_part(const std::string& tensor);

}  // namespace kvscope
