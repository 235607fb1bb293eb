#include "app/workspace/settings.h"

#include <nlohmann/json.hpp>

#include "app/workspace/field_json.h"
#include "app/workspace/workspace_folder.h"

namespace kvscope::app {
namespace {

constexpr std::size_t kMaxSettingsBytes = 1 << 16;  // it is read before the first frame

}  // namespace

Appearance read_settings(const std::filesystem::path& file, std::string& damage) {
  Appearance appearance;
  std::error_code error;
  if (file.empty() || !std::filesystem::exists(file, error)) return appearance;
  try {
    const nlohmann::json json = read_json(file, {.max_bytes = kMaxSettingsBytes});
    const JsonObject object(json, file.string());
    object.integer("version", 1, 1);
    visit_fields(appearance, ReadField{object});
    return appearance;
  } catch (const Error& fault) {
    const auto kept = set_aside(file);
    damage =
        std::string(fault.what()) + (kept.empty() ? "; it could not be moved aside, and the next change overwrites it"
                                                  : "; the file is kept as " + kept.string());
    return {};
  }
}

std::string settings_text(const Appearance& appearance) {
  nlohmann::json json = fields_json(appearance);
  json["version"] = 1;
  return json.dump(1) + "\n";
}

}  // namespace kvscope::app
