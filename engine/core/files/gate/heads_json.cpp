// Our own head files: all of a HeadChoice, so that what was measured goes with what was chosen. Sides of tables are
// [n_layers][n_kv_heads]; a number that is not there is null.
//
//     {"format": "kvscope-heads", "version": 1, "model": "smollm2-135m", "weights_hash": "...", "group_size": 3,
//      "rule": "d", "sinks": 4, "window": 64, "selected": 6, "coverage": 0.81, "full": [[1, 0, 0], ...],
//      "tied": [[0, 2], [1, 2]], "tied_chosen": 1, "one_threshold": [],
//      "runs": 3, "policies": ["sp-kv:..."], "signal": "density", "value": [[...], ...], "spread": [[...], ...],
//      "facts": {}}

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>

#include "engine/core/files/gate/gate_formats.h"
#include "engine/core/files/gate/head_formats.h"
#include "engine/core/support/refuse.h"

namespace kvscope {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr int kMaxSide = 4096, kMaxTokens = 1 << 30;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

ordered_json number(double value) { return std::isnan(value) ? ordered_json() : ordered_json(value); }

template <typename T, typename Show>
ordered_json table_of(const std::vector<T>& values, const HeadSelection& heads, Show show) {
  ordered_json rows = ordered_json::array();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i % static_cast<std::size_t>(heads.n_kv_heads) == 0) rows.push_back(ordered_json::array());
    rows.back().push_back(show(values[i]));
  }
  return rows;
}

/// Indented as far as the rows of tables, which keep a line each: 24 layers are 24 lines.
std::string text_of(const ordered_json& object) {
  std::string text = "{";
  for (const auto& [key, value] : object.items()) {
    text += (text.size() > 1 ? ",\n  " : "\n  ") + json(key).dump() + ": ";
    const bool is_table = value.is_array() && !value.empty() && value[0].is_array();
    if (!is_table) {
      text += value.dump();
      continue;
    }
    for (std::size_t i = 0; i < value.size(); ++i) text += (i == 0 ? "[\n    " : ",\n    ") + value[i].dump();
    text += "\n  ]";
  }
  return text + "\n}\n";
}

/// Keys in order of the alphabet, so that facts that were read are written as they were.
json facts_of(const HeadOrigin& origin, const std::filesystem::path& path) {
  if (origin.facts.empty()) return json::object();
  json facts = parse_json(origin.facts, path.string());
  if (!facts.is_object())
    throw Error({.code = ExitCode::internal, .file = path.string(), .where = "facts", .found = "not a JSON object"});
  return facts;
}

class Reader {
 public:
  Reader(const json& found, std::string file) : object_(found, std::move(file)) {
    check_version(object_, kHeadsFormat);
    static const std::set<std::string> kKeys = {"format",   "version", "model",       "weights_hash",  "group_size",
                                                "rule",     "sinks",   "window",      "selected",      "coverage",
                                                "full",     "tied",    "tied_chosen", "one_threshold", "runs",
                                                "policies", "signal",  "value",       "spread",        "facts"};
    for (const auto& [key, value] : found.items())
      if (!kKeys.contains(key))
        refuse(object_.file(), in_quotes(key, 40), "an unknown key", "see docs/reference/head-files.md");
  }

  const JsonObject& object() const { return object_; }
  int integer(const char* key, int min, int max) const { return static_cast<int>(object_.integer(key, min, max)); }

  /// A table of the first one's shape, which `full` is; none if it is empty or not there.
  std::vector<double> table(const char* key, HeadSelection& heads) const {
    std::vector<double> values;
    if (!object_.has(key)) return values;
    const json& rows = object_.raw()[key];
    if (rows.is_array() && rows.empty()) return values;
    if (!rows.is_array() || rows.size() > kMaxSide) fail(key, "not a table", "a row per layer");
    for (const json& row : rows) {
      if (!row.is_array() || row.empty() || row.size() > kMaxSide)
        fail(key, "a row that is not a list", "a number per head");
      if (heads.n_kv_heads == 0) heads.n_kv_heads = static_cast<int>(row.size());
      if (row.size() != static_cast<std::size_t>(heads.n_kv_heads))
        fail(key, "a row of " + std::to_string(row.size()), std::to_string(heads.n_kv_heads) + ", as in the first");
      for (const json& cell : row) {
        if (!cell.is_null() && !cell.is_number()) fail(key, in_quotes(cell.dump(), 40), "numbers");
        values.push_back(cell.is_null() ? kNaN : cell.get<double>());
      }
    }
    if (heads.n_layers == 0) heads.n_layers = static_cast<int>(rows.size());
    if (rows.size() != static_cast<std::size_t>(heads.n_layers))
      fail(key, std::to_string(rows.size()) + " rows", std::to_string(heads.n_layers) + ", as in full");
    return values;
  }

  std::vector<int> places(const char* key, const HeadSelection& heads) const {
    std::vector<int> places;
    if (!object_.has(key)) return places;
    for (const json& pair : object_.raw()[key]) {
      const bool numbers = pair.is_array() && pair.size() == 2 && pair[0].is_number_unsigned() &&
                           pair[1].is_number_unsigned() &&
                           pair[0].get<std::uint64_t>() < static_cast<std::uint64_t>(heads.n_layers) &&
                           pair[1].get<std::uint64_t>() < static_cast<std::uint64_t>(heads.n_kv_heads);
      if (!numbers) fail(key, in_quotes(pair.dump(), 40), "[layer, head] of the model");
      places.push_back(pair[0].get<int>() * heads.n_kv_heads + pair[1].get<int>());
    }
    return places;
  }

  [[noreturn]] void fail(const char* key, std::string found, std::string expected) const {
    refuse(object_.file(), key, std::move(found), std::move(expected));
  }

 private:
  JsonObject object_;
};

HeadOrigin read_origin(const Reader& reader, HeadSelection& heads) {
  const JsonObject& object = reader.object();
  HeadOrigin origin{.model = object.text_or("model", ""),
                    .weights_hash = object.text_or("weights_hash", ""),
                    .signal = object.text_or("signal", ""),
                    .policies = object.texts("policies"),
                    .n_runs = static_cast<int>(object.integer_or("runs", 0, 0, 1 << 30))};
  if (object.has("facts")) {
    const json& facts = object.raw()["facts"];
    if (!facts.is_object()) reader.fail("facts", in_quotes(facts.dump(), 40), "an object");
    if (!facts.empty()) origin.facts = facts.dump();
  }
  origin.value = reader.table("value", heads);
  origin.spread = reader.table("spread", heads);
  return origin;
}

}  // namespace

std::vector<FileToWrite> write_heads_json(const HeadChoice& choice, const std::filesystem::path& path) {
  const HeadSelection& heads = choice.selection;
  const HeadOrigin& origin = choice.origin;
  ordered_json tied = ordered_json::array();
  for (const int head : heads.tied) tied.push_back({head / heads.n_kv_heads, head % heads.n_kv_heads});
  const ordered_json object = {{"format", kHeadsFormat},
                               {"version", 1},
                               {"model", origin.model},
                               {"weights_hash", origin.weights_hash},
                               {"group_size", choice.group_size},
                               {"rule", heads.rule},
                               {"sinks", choice.sizes.n_sink},
                               {"window", choice.sizes.window},
                               {"selected", heads.n_selected()},
                               {"coverage", number(heads.coverage)},
                               {"full", table_of(heads.full, heads, [](float value) { return value >= 0.5f ? 1 : 0; })},
                               {"tied", tied},
                               {"tied_chosen", heads.n_tied_chosen},
                               {"one_threshold", heads.thresholded},
                               {"runs", origin.n_runs},
                               {"policies", origin.policies},
                               {"signal", origin.signal},
                               {"value", table_of(origin.value, heads, number)},
                               {"spread", table_of(origin.spread, heads, number)},
                               {"facts", facts_of(origin, path)}};
  return {{path, text_of(object)}};
}

bool is_heads_json(const std::filesystem::path& file) {
  const json found = read_json(file);
  const auto format = found.is_object() ? found.find("format") : found.end();
  return format != found.end() && format->is_string() && format->get<std::string>() == kHeadsFormat;
}

HeadFile read_heads_json(const std::filesystem::path& path, const HeadShape& model) {
  const json found = read_json(path);
  if (!found.is_object() || !found.contains("format"))
    refuse(path.string(), "format", "missing", kHeadsFormat,
           "other formats are duo:, headkv:, hf:, block:, kvzip: and rlkv:");
  const Reader reader(found, path.string());
  HeadSelection heads;
  for (const double value : reader.table("full", heads)) {
    if (value != 0 && value != 1) reader.fail("full", "a value that is neither 0 nor 1", "1 for a global head");
    heads.full.push_back(static_cast<float>(value));
  }
  if (heads.full.empty()) reader.fail("full", "missing", "a row per layer");
  if (const int n = reader.integer("selected", 0, heads.n_heads()); n != heads.n_selected())
    reader.fail("selected", std::to_string(n),
                std::to_string(heads.n_selected()) + ", the number of global heads in full");
  heads.rule = reader.object().text_or("rule", "file");
  heads.coverage = reader.object().number_or("coverage", kNaN, 0, 1);
  heads.tied = reader.places("tied", heads);
  heads.n_tied_chosen = static_cast<int>(reader.object().integer_or("tied_chosen", 0, 0, heads.n_heads()));
  heads.thresholded = reader.object().texts("one_threshold");
  HeadFile file{.threshold = 0.5,
                .n_sink = reader.integer("sinks", 0, kMaxTokens),
                .window = reader.integer("window", 0, kMaxTokens),
                .origin = read_origin(reader, heads),
                .group_size = static_cast<int>(reader.object().integer_or("group_size", 0, 0, kMaxSide)),
                .files = {path}};
  file.selection = std::move(heads);
  check_shape(file, model, path.string());
  return file;
}

}  // namespace kvscope
