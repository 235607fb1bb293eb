#include "app/studies/sweep/sweep_recipe.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "app/support/closest.h"
#include "engine/core/policy/policy_text.h"
#include "engine/core/study/measure/task_sets.h"
#include "engine/core/study/table/study_cost.h"
#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"

namespace kvscope::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kMostPoints = 10'000;
constexpr const char* kGates = "gates";  // of an entry: an axis too

constexpr std::string_view kKeys[] = {"name",      "note",  "model",    "device",      "dtype",  "policies",
                                      "gates",     "texts", "pieces",   "length",      "chunk",  "tasks",
                                      "questions", "seeds", "filler",   "chat",        "oracle", "output_error",
                                      "matched",   "cost",  "rollouts", "temperature", "top_p"};
constexpr std::string_view kEntryKeys[] = {"policy", "axes", "gates", "along", "model"};
constexpr std::string_view kCosts[] = {"cache_size", "cache_size_end", "cache_bytes",
                                       "density",    "read_share",     "ms_per_token"};

std::string list_of(std::span<const std::string_view> names) {
  std::string text;
  for (const std::string_view name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

[[noreturn]] void fail(const std::string& file, std::string where, std::string found, std::string expected) {
  throw Error({.file = file, .where = std::move(where), .found = std::move(found), .expected = std::move(expected)});
}

void check_keys(const json& object, std::span<const std::string_view> known, const std::string& file,
                const std::string& where) {
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(known, key) != known.end()) {
      if (!value.is_null()) continue;
      fail(file, where.empty() ? key : where + "." + key, "null", "a value, or leave out the key");
    }
    const std::string close = closest(key, {known.begin(), known.end()});
    throw Error({.file = file,
                 .where = where,
                 .found = in_quotes(key) + ", which is not one of its parameters",
                 .expected = list_of(known),
                 .hint = close.empty() ? "" : "did you mean " + close + "?"});
  }
}

/// A value of an axis as a policy's text has it.
std::string axis_value(const json& value, const std::string& file, const std::string& where) {
  if (value.is_string() && !value.get<std::string>().empty()) return value.get<std::string>();
  if (value.is_number()) return value.dump();
  fail(file, where, value.dump(), "a list of numbers or texts, as in a policy");
}

/// One number, or a list of them.
std::vector<std::int64_t> integers(const json& recipe, const char* key, std::int64_t fallback, std::int64_t min,
                                   std::int64_t max, const std::string& file) {
  if (!recipe.contains(key)) return {fallback};
  const json list = recipe[key].is_array() ? recipe[key] : json::array({recipe[key]});
  std::vector<std::int64_t> values;
  for (const json& value : list) {
    const bool fits = value.is_number_integer() && value.get<double>() >= static_cast<double>(min) &&
                      value.get<double>() <= static_cast<double>(max);
    const bool is_new = fits && std::ranges::find(values, value.get<std::int64_t>()) == values.end();
    if (!is_new) {
      fail(file, key, value.dump(),
           "whole numbers from " + std::to_string(min) + " to " + std::to_string(max) + ", each once");
    }
    values.push_back(value.get<std::int64_t>());
  }
  if (values.empty()) fail(file, key, "an empty list", "a number, or a list of them");
  return values;
}

/// A folder of the recipe's folder, or else the name as it is.
std::string model_beside(const fs::path& recipe, const std::string& model) {
  const std::string folder = beside(recipe, model);
  std::error_code error;
  return fs::exists(fs::path(folder) / "config.json", error) ? folder : model;
}

/// The text under a policy's name, as an error of this file.
PolicySpec policy_spec(const std::string& text, const std::string& file, const std::string& where) {
  try {
    return PolicySpec::parse(text);
  } catch (const Error& error) {
    Error::Parts parts = error.parts();
    parts.where = where + ": " + parts.file + (parts.where.empty() ? "" : ": " + parts.where);
    parts.file = file;
    parts.code = ExitCode::bad_input;
    throw Error(std::move(parts));
  }
}

struct Axis {
  std::string name;
  std::vector<std::string> values;
};

/// An entry of "policies": {"policy": "kvpop:sinks=4", "axes": {"keep": ["50%", "25%"]}, "gates": [...], "along": "keep"}.
class Entry {
 public:
  Entry(const json& entry, std::string file, std::string where) : file_(std::move(file)), where_(std::move(where)) {
    if (entry.is_string()) {
      base_ = entry.get<std::string>();
      is_plain_ = true;
      return;
    }
    if (!entry.is_object())
      fail(file_, where_, entry.dump(), "a policy's text, or an object with \"policy\" and \"axes\"");
    check_keys(entry, kEntryKeys, file_, where_);
    const JsonObject object(entry, file_, where_);
    base_ = object.text("policy");
    model_ = object.text_or("model", "");
    if (object.has(kGates)) axes_.push_back({kGates, values_of(entry[kGates], kGates)});
    const json axes = entry.value("axes", json::object());
    if (!axes.is_object()) fail(file_, where_ + ".axes", axes.dump(), "an object of lists");
    for (const auto& [name, values] : axes.items()) axes_.push_back({name, values_of(values, name)});
    along_ = object.text_or("along", most_values());
    if (!along_.empty() && std::ranges::find(axes_, along_, &Axis::name) == axes_.end()) {
      fail(file_, where_ + ".along", in_quotes(along_), "one of the entry's axes");
    }
  }

  const std::vector<Axis>& axes() const { return axes_; }

  /// Every combination, the last axis the fastest.
  std::vector<SweepPoint> points() const {
    std::vector<SweepPoint> points = {{}};
    for (const Axis& axis : axes_) {
      if (points.size() * axis.values.size() > kMostPoints) fail(file_, where_, "more than 10000 points", "fewer");
      std::vector<SweepPoint> next;
      for (const SweepPoint& point : points) {
        for (const std::string& value : axis.values) {
          next.push_back(point);
          next.back().axes[axis.name] = value;
        }
      }
      points = std::move(next);
    }
    for (SweepPoint& point : points) finish(point);
    return points;
  }

 private:
  std::vector<std::string> values_of(const json& values, const std::string& name) const {
    const std::string place = where_ + (name == kGates ? "." : ".axes.") + name;
    if (!values.is_array() || values.empty()) fail(file_, place, values.dump(), "a list of values");
    std::vector<std::string> texts;
    for (const json& value : values) texts.push_back(axis_value(value, file_, place));
    return texts;
  }

  /// Of axes that are equally long the first, gates last.
  std::string most_values() const {
    const Axis* longest = nullptr;
    for (const Axis& axis : axes_) {
      if (longest == nullptr || axis.values.size() > longest->values.size() ||
          (axis.values.size() == longest->values.size() && longest->name == kGates)) {
        longest = &axis;
      }
    }
    return longest ? longest->name : "";
  }

  /// From axes to the text of a policy, with '*' in the place of the axis that a curve goes along.
  void finish(SweepPoint& point) const {
    std::string text = base_, curve = base_;
    for (const auto& [name, value] : point.axes) {
      if (name == kGates) continue;
      const char* before = text.find(':') == std::string::npos ? ":" : ",";
      text += before + name + "=" + value;
      curve += before + name + "=" + (name == along_ ? "*" : value);
    }
    const PolicySpec spec = policy_spec(text, file_, where_);
    point.policy = text;
    point.model = model_;
    if (!model_.empty()) curve += " model=" + model_;
    if (const auto gate = point.axes.find(kGates); gate != point.axes.end()) {
      point.gate = gate->second;
      curve += " gate=" + (along_ == kGates ? "*" : gate->second);
    }
    point.curve = is_plain_ ? spec.name : curve;
  }

  std::string file_, where_, base_, along_, model_;
  bool is_plain_ = false;
  std::vector<Axis> axes_;
};

void add_points(SweepRecipe& recipe, const json& entries, const std::string& file) {
  if (!entries.is_array() || entries.empty()) {
    fail(file, "policies", entries.is_null() ? "nothing" : entries.dump(), "a list of policies");
  }
  const PolicySpec dense = PolicySpec::parse(kDensePolicy);
  struct Seen {
    PolicySpec spec;
    std::string gate, model;
  };
  std::vector<Seen> seen;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Entry entry(entries[i], file, "policies[" + std::to_string(i) + "]");
    for (const Axis& axis : entry.axes()) {
      if (axis.name == kGates || std::ranges::find(recipe.axes, axis.name) != recipe.axes.end()) continue;
      recipe.axes.push_back(axis.name);
    }
    for (SweepPoint& point : entry.points()) {
      const PolicySpec spec = PolicySpec::parse(point.policy);
      // wg-kv and wg-kv:threshold=0.1 are two points: what was not written, a gate may decide.
      const bool is_there = std::ranges::any_of(seen, [&](const Seen& other) {
        return other.spec == spec && other.spec.unwritten == spec.unwritten && other.gate == point.gate &&
               other.model == point.model;
      });
      if (spec == dense || is_there) continue;
      seen.push_back({spec, point.gate, point.model});
      point.model = model_beside(file, point.model);
      recipe.points.push_back(std::move(point));
      if (recipe.points.size() > kMostPoints) fail(file, "policies", "more than 10000 points", "fewer");
    }
  }
}

std::vector<double> matched_of(const json& recipe, const std::string& file) {
  std::vector<double> costs;
  const json list = recipe.value("matched", json::array());
  if (!list.is_array()) fail(file, "matched", list.dump(), "a list of numbers");
  for (const json& cost : list) {
    if (!cost.is_number()) fail(file, "matched", cost.dump(), "a list of numbers");
    costs.push_back(cost.get<double>());
  }
  return costs;
}

/// What an evaluation is asked for, policies and gates apart.
EvalRequest request_of(const JsonObject& object, const fs::path& path) {
  const EvalRequest usual;
  EvalRequest request{.device = object.text_or("device", usual.device),
                      .dtype = object.text_or("dtype", usual.dtype),
                      .gates = object.texts("gates"),
                      .tasks = expanded_tasks(object.texts("tasks")),
                      .texts = object.texts("texts"),
                      .questions = static_cast<int>(object.integer_or("questions", usual.questions, 1, 100'000)),
                      .pieces = static_cast<int>(object.integer_or("pieces", usual.pieces, 1, 100'000)),
                      .filler = beside(path, object.text_or("filler", "")),
                      .chat = object.boolean_or("chat", false),
                      .oracle = object.boolean_or("oracle", false),
                      .output_error = object.boolean_or("output_error", false)};
  request.rollouts = static_cast<int>(object.integer_or("rollouts", 1, 1, 10'000));
  const bool samples = request.rollouts > 1;
  request.temperature = object.number_or("temperature", samples ? kRolloutTemperature : 0, 0, 100);
  request.top_p = object.number_or("top_p", samples ? kRolloutTopP : 1, 1e-6, 1);
  if (samples && request.temperature == 0)
    fail(object.file(), "temperature", "0 with several rollouts", "more than 0: greedy rollouts are all the same");
  for (std::string& text : request.texts) {
    text = beside(path, text);
    std::error_code error;
    if (!fs::exists(text, error)) fail(object.file(), "texts", text + " is not there", "files in the recipe's folder");
  }
  if (request.texts.empty() && request.tasks.empty()) {
    fail(object.file(), "texts, tasks", "neither", "texts to read, tasks to ask, or both");
  }
  return request;
}

/// Density leaves the window out: by it a policy that keeps nothing but a long window would cost nothing.
void refuse_windows(const SweepRecipe& recipe, const std::string& file) {
  std::vector<double> windows;
  for (const SweepPoint& point : recipe.points) {
    for (const int length : recipe.lengths) windows.push_back(PolicySpec::parse(point.policy).geometry(length).window);
  }
  if (const auto spread = window_spread(windows))
    fail(file, "cost", "\"density\" for policies with windows of " + spread->text() + " tokens",
         "policies with one window, because density leaves it out; or \"cost\": \"cache_size\"");
}

}  // namespace

std::string beside(const fs::path& recipe, const std::string& file) {
  const fs::path path(file);
  return file.empty() || path.is_absolute() ? file
                                            : (fs::absolute(recipe).parent_path() / path).lexically_normal().string();
}

SweepRecipe read_sweep_recipe(const fs::path& path) {
  const json recipe = read_json(path);
  const std::string file = path.string();
  if (!recipe.is_object()) fail(file, "", "not a JSON object", "a sweep recipe (docs/reference/studies.md)");
  check_keys(recipe, kKeys, file, "");
  const JsonObject object(recipe, file);
  for (const char* said : {"name", "note"}) object.text_or(said, "");  // for people, and texts all the same
  SweepRecipe result{
      .text = recipe.dump(), .model = model_beside(path, object.text("model")), .request = request_of(object, path)};
  add_points(result, recipe.value("policies", json()), file);
  for (const std::int64_t length : integers(recipe, "length", 0, 0, kMaxPositions, file)) {
    result.lengths.push_back(static_cast<int>(length));
  }
  if (result.lengths.size() == 1) result.request.length = result.lengths[0];
  for (const std::int64_t chunk : integers(recipe, "chunk", 1, 1, kMaxPositions, file)) {
    result.chunks.push_back(static_cast<int>(chunk));
  }
  for (const std::int64_t seed : integers(recipe, "seeds", 1, 0, INT64_MAX / 2, file)) {
    result.seeds.push_back(static_cast<std::uint64_t>(seed));
  }
  result.matched = matched_of(recipe, file);
  result.cost = object.text_or("cost", std::string(kCosts[0]));
  if (std::ranges::find(kCosts, result.cost) == std::end(kCosts)) {
    fail(file, "cost", in_quotes(result.cost), list_of(kCosts));
  }
  if (result.cost == "density") refuse_windows(result, file);
  return result;
}

}  // namespace kvscope::app
