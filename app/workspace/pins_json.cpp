#include "app/workspace/pins_json.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "engine/core/record/run_fields.h"
#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"
#include "engine/core/support/text.h"

namespace kvscope::app {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxPinnedTexts = 4096;

std::uint64_t hash_field(const JsonObject& object) {
  const std::string text = object.text("tokens");
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size())
    throw Error({.file = object.file(), .where = "tokens", .found = in_quotes(text), .expected = "a hash"});
  return value;
}

PinnedText text_from(const json& value, const std::string& file) {
  const JsonObject object(value, file);
  PinnedText text{
      .n = static_cast<std::int32_t>(object.integer("n", 1, kMaxPositions)), .tokens = hash_field(object), .pins = {}};
  const json pins = value.value("pins", json::array());
  if (!pins.is_array() || pins.size() > kMaxPins)
    throw Error({.file = file, .found = "not a list of at most eight pins"});
  int before = -1;
  for (const json& one : pins) {
    const JsonObject pin(one, file, "pins.");
    text.pins.push_back(pin_from_json(pin));
    text.pins.back().tokens = hash_field(pin);
    if (text.pins.back().letter <= before) throw Error({.file = file, .found = "pins out of alphabetical order"});
    before = text.pins.back().letter;
  }
  return text;
}

}  // namespace

nlohmann::json pinned_texts_json(const PinnedTexts& texts) {
  json list = json::array();
  for (const PinnedText& text : texts) {
    json pins = json::array();
    for (const Pin& pin : text.pins) {
      pins.push_back(pin_json(pin));
      pins.back()["tokens"] = hex_text(pin.tokens);
    }
    list.push_back({{"n", text.n}, {"tokens", hex_text(text.tokens)}, {"pins", pins}});
  }
  return list;
}

PinnedTexts pinned_texts_from(const nlohmann::json& list, const std::string& file) {
  if (!list.is_array() || list.size() > kMaxPinnedTexts)
    throw Error({.file = file, .found = "not a list of texts with pins"});
  PinnedTexts texts;
  for (const json& text : list) texts.push_back(text_from(text, file));
  return texts;
}

std::map<int, std::string> run_notes_from(const nlohmann::json& object, const std::string& file) {
  const auto refuse = [&](const std::string& found) {
    throw Error({.file = file, .where = "run_notes", .found = found, .expected = "texts by run"});
  };
  if (!object.is_object()) refuse(object.type_name());
  std::map<int, std::string> notes;
  for (const auto& [key, note] : object.items()) {
    int run = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), run);
    if (error != std::errc() || end != key.data() + key.size() || run < 1 || run > kMaxRunId) refuse(in_quotes(key));
    if (!note.is_string()) refuse(note.type_name());
    notes[run] = note.get<std::string>();
    if (notes[run].size() > kMaxNote) refuse(std::to_string(notes[run].size()) + " bytes");
  }
  return notes;
}

}  // namespace kvscope::app
