#include "engine/core/trace/trace_notes.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/core/support/error.h"
#include "engine/core/support/hash.h"
#include "engine/core/support/json_file.h"

namespace kvscope {
namespace {

using nlohmann::json;

constexpr int kVersion = 1, kMaxRun = 1 << 24;
constexpr std::size_t kMaxBytes = 64u << 20, kMaxName = 4096;
constexpr const char* kFormat = "kvscope-notes";

json run_json(const RunNotes& notes) {
  json pins = json::array();
  for (const Pin& pin : notes.pins) pins.push_back(pin_json(pin));
  return {{"run", notes.run}, {"ids", notes.ids}, {"name", notes.name}, {"note", notes.note}, {"pins", pins}};
}

std::string short_text(const JsonObject& object, const char* key, std::size_t max_bytes) {
  std::string text = object.text_or(key, "");
  if (text.size() > max_bytes)
    throw Error({.file = object.file(),
                 .where = std::string("runs.") + key,
                 .found = std::to_string(text.size()) + " bytes",
                 .expected = "at most " + std::to_string(max_bytes)});
  return text;
}

RunNotes run_from_json(const json& value, const std::string& file) {
  const JsonObject object(value, file, "runs.");
  RunNotes notes{.run = static_cast<int>(object.integer("run", 0, kMaxRun)),
                 .ids = object.text("ids"),
                 .name = short_text(object, "name", kMaxName),
                 .note = short_text(object, "note", kMaxNote),
                 .pins = {}};
  const json pins = value.value("pins", json::array());
  if (!pins.is_array() || pins.size() > kMaxPins)
    throw Error({.file = file, .where = "runs.pins", .found = "not a list of at most eight pins"});
  for (const json& pin : pins) {
    notes.pins.push_back(pin_from_json(JsonObject(pin, file, "runs.pins.")));
    if (std::ranges::count(notes.pins, notes.pins.back().letter, &Pin::letter) > 1)
      throw Error({.file = file,
                   .where = "runs.pins",
                   .found = "two pins with the letter " + pin_letter(notes.pins.back().letter)});
  }
  std::ranges::sort(notes.pins, {}, &Pin::letter);
  return notes;
}

}  // namespace

std::filesystem::path notes_file(const std::filesystem::path& trace) { return trace.string() + ".notes.json"; }

std::string ids_hash(const RunRecord& run) {
  Fnv1a hash;
  for (const std::int32_t id : run.ids) hash.add_word(static_cast<std::uint32_t>(id));
  return hash.hex();
}

std::vector<RunNotes> read_notes(const std::filesystem::path& trace) {
  const std::filesystem::path path = notes_file(trace);
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, error))) return {};
  const json value = read_json(path, {.max_bytes = kMaxBytes});
  const JsonObject object(value, path.string());
  if (object.text_or("format", "") != kFormat)
    throw Error({.file = path.string(),
                 .where = "format",
                 .found = in_quotes(object.text_or("format", "")),
                 .expected = in_quotes(kFormat)});
  if (const auto version = object.integer("version", 1, INT32_MAX); version > kVersion)
    throw Error({.file = path.string(),
                 .where = "version",
                 .found = std::to_string(version),
                 .expected = std::to_string(kVersion),
                 .hint = "written by a newer kvscope"});
  const json list = value.value("runs", json::array());
  if (!list.is_array()) throw Error({.file = path.string(), .where = "runs", .found = "not a list of runs"});
  std::vector<RunNotes> runs;
  for (const json& run : list) runs.push_back(run_from_json(run, path.string()));
  std::ranges::stable_sort(runs, {}, &RunNotes::run);
  return runs;
}

void update_notes(const std::filesystem::path& trace, const std::vector<RunNotes>& runs) {
  const std::vector<RunNotes> before = read_notes(trace);
  std::vector<RunNotes> now = before;
  for (const RunNotes& notes : runs) {
    std::erase_if(now, [&](const RunNotes& other) { return same_run(other, notes); });
    if (!notes.empty()) now.push_back(notes);
  }
  std::ranges::stable_sort(now, {}, &RunNotes::run);
  if (now == before) return;
  const std::filesystem::path path = notes_file(trace);
  if (now.empty()) {
    std::filesystem::remove(path);
    return;
  }
  json list = json::array();
  for (const RunNotes& notes : now) list.push_back(run_json(notes));
  const json object = {{"format", kFormat}, {"version", kVersion}, {"runs", list}};
  write_file_atomic(path, object.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
}

}  // namespace kvscope
