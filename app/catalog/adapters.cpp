#include "app/catalog/adapters.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <system_error>
#include <vector>

#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"

namespace kvscope::app {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kShown = 3;

/// "llama-3-8b" of "Meta/Llama-3-8B", of "C:\models\Llama-3-8B\" and of ".../models--Meta--Llama-3-8B/snapshots/1a2b".
std::string short_name(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return c == '\\' ? '/' : static_cast<char>(std::tolower(c)); });
  constexpr std::string_view kCached = "models--";
  if (const std::size_t at = text.rfind(kCached); at != text.npos) {
    const std::size_t owner = text.find("--", at + kCached.size());
    const std::size_t from = owner == text.npos ? at + kCached.size() : owner + 2;
    return text.substr(from, std::min(text.find('/', from), text.size()) - from);
  }
  while (text.ends_with('/')) text.pop_back();
  return text.substr(text.rfind('/') + 1);  // npos + 1 is 0
}

std::string name_in_config(const fs::path& model) {
  try {
    const nlohmann::json config = read_json(model / "config.json");
    return config.is_object() && config.contains("_name_or_path") && config["_name_or_path"].is_string()
               ? config["_name_or_path"].get<std::string>()
               : "";
  } catch (const Error&) {
    return "";  // its reader says what is wrong with it
  }
}

}  // namespace

bool may_be_base(const std::string& base, const fs::path& model) {
  std::error_code error;
  const std::string wanted = short_name(base);
  if (wanted.empty() || wanted == "." || wanted == "..") return true;
  const std::set<std::string> names = {short_name(fs::absolute(model, error).lexically_normal().string()),
                                       short_name(fs::weakly_canonical(model, error).string()),
                                       short_name(name_in_config(model))};
  return names.contains(wanted);
}

std::string adapter_note(const LoraFile& adapter, const fs::path& model) {
  std::string note;
  const std::string& base = adapter.config().base();
  if (!may_be_base(base, model)) {
    note = "made for " + in_quotes(base) + " (base_model_name_or_path), not for " +
           in_quotes(short_name(fs::absolute(model).lexically_normal().string())) +
           ": its results are meaningless unless both have the same weights";
  }
  const std::vector<std::string> left_out = adapter.left_out(ModelConfig::load(model));
  for (std::size_t i = 0; i < std::min(left_out.size(), kShown); ++i)
    note += (i > 0 ? ", " : note.empty() ? "no tensors for " : "; no tensors for ") + left_out[i];
  if (left_out.size() > kShown) note += " and " + std::to_string(left_out.size() - kShown) + " more";
  if (!left_out.empty()) note += ", which it targets; these are not adapted, as in PEFT";
  return note;
}

std::string note_of_adapter(const fs::path& path, const fs::path& model) {
  if (!LoraFile::is_there(path)) return "";
  try {
    return adapter_note(LoraFile::open(path), model);
  } catch (const Error&) {
    return "";
  }
}

}  // namespace kvscope::app
