#include "engine/core/policy/declaration.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "engine/core/policy/policy_parameters.h"
#include "engine/core/policy/scorer_text.h"
#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"
#include "engine/core/support/text.h"
#include "engine/core/support/utf8.h"

namespace kvscope {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxParameters = 32, kMaxChoices = 64;
constexpr std::size_t kMaxName = 80, kMaxWord = 40, kMaxTitle = 60, kMaxText = 2000;  // characters; kMaxText in bytes
constexpr double kMaxCount = 1e9;                                                     // fits an int
constexpr std::array<std::string_view, 4> kKinds = {"tokens", "real", "count", "choice"};  // in the enum's order
constexpr std::array<std::string_view, 3> kRules = {"none", "top_k", "threshold"};         // likewise
constexpr std::string_view kLower = "abcdefghijklmnopqrstuvwxyz", kDigits = "0123456789",
                           kUpper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

bool made_of(std::string_view text, std::initializer_list<std::string_view> sets) {
  return std::ranges::all_of(text, [&](char c) {
    return std::ranges::any_of(sets, [c](std::string_view set) { return set.find(c) != std::string_view::npos; });
  });
}

bool is_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    if (!c.valid) return false;
    at += c.length;
  }
  return true;
}

bool is_lower(char c) { return kLower.find(c) != std::string_view::npos; }

/// One object of a declaration: each getter refuses by the field's name.
class Fields {
 public:
  Fields(const json& object, const std::string& policy, const std::string& prefix)
      : object_(object, "policy declaration" + (policy.empty() ? "" : " " + escape_for_terminal(policy)), prefix),
        prefix_(prefix) {}

  [[noreturn]] void fail(const std::string& key, std::string found, std::string expected) const {
    throw Error({.file = object_.file(),
                 .where = prefix_.empty() ? key : prefix_ + "." + key,
                 .found = std::move(found),
                 .expected = std::move(expected)});
  }
  bool has(const char* key) const { return object_.has(key); }
  const json& raw(const char* key) const { return object_.raw().at(key); }
  /// Printed as it is, so one line without control characters.
  std::string line(const char* key, std::size_t max_bytes, bool may_be_empty = false) const {
    std::string text = object_.text(key);
    if (text.empty() && !may_be_empty) fail(key, "an empty text", "a text");
    if (text.size() > max_bytes)
      fail(key, std::to_string(text.size()) + " bytes", "at most " + std::to_string(max_bytes));
    if (!is_utf8(text) || std::ranges::any_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
      fail(key, in_quotes(text), "one line of UTF-8 without control characters");
    return text;
  }
  std::string line_or_empty(const char* key) const { return has(key) ? line(key, kMaxText, true) : ""; }
  bool boolean(const char* key) const {
    if (!has(key)) fail(key, "nothing", "true or false");
    return object_.boolean_or(key, false);
  }
  bool boolean_or(const char* key, bool fallback) const { return object_.boolean_or(key, fallback); }
  double number(const char* key, double min, double max) const { return object_.number(key, min, max); }
  /// The index of the word.
  std::size_t one_of(const char* key, std::span<const std::string_view> words) const {
    const std::string word = object_.text(key);
    const auto found = std::ranges::find(words, word);
    std::string list;
    for (const std::string_view one : words) list += (list.empty() ? "" : ", ") + std::string(one);
    if (found == words.end()) fail(key, in_quotes(word), "one of " + list);
    return static_cast<std::size_t>(found - words.begin());
  }
  const json& array(const char* key, std::size_t max_size) const {
    if (!has(key) || !raw(key).is_array()) fail(key, has(key) ? raw(key).type_name() : "nothing", "a list");
    if (raw(key).size() > max_size)
      fail(key, std::to_string(raw(key).size()) + " entries", "at most " + std::to_string(max_size));
    return raw(key);
  }

 private:
  JsonObject object_;
  std::string prefix_;
};

std::string policy_name(const Fields& fields) {
  std::string name = fields.line("name", kMaxName);
  const std::size_t dot = name.find('.');
  const std::string_view prefix = std::string_view(name).substr(0, dot);
  const bool fits = dot != std::string::npos && dot + 1 < name.size() && dot > 0 && is_lower(name[0]) &&
                    made_of(prefix, {kLower, kDigits}) &&
                    made_of(std::string_view(name).substr(dot + 1), {kLower, kUpper, kDigits, "_.-"});
  if (!fits)
    fields.fail("name", in_quotes(name),
                "a prefix of a-z and 0-9, a dot, then letters, digits, _ . or -, for example hf.snapkv (the names of "
                "KVScope's policies have no dot)");
  return name;
}

/// A foreign method may not pass for one of KVScope's.
std::string policy_title(const Fields& fields) {
  std::string title = fields.line("title", 4 * kMaxTitle);
  const auto n = static_cast<std::size_t>(
      std::ranges::count_if(title, [](unsigned char c) { return (c & 0xC0) != 0x80; }));  // characters, not bytes
  if (n > kMaxTitle) fields.fail("title", std::to_string(n) + " characters", "at most " + std::to_string(kMaxTitle));
  for (const PolicyInfo& info : policy_list()) {
    if (title == info.title || title == method_name(info.name))
      fields.fail("title", in_quotes(title), "another title than that of KVScope's policy " + std::string(info.name));
  }
  return title;
}

std::vector<std::string> choices_of(const Fields& fields) {
  std::vector<std::string> choices;
  for (const json& one : fields.array("choices", kMaxChoices)) {
    const std::string choice = one.is_string() ? one.get<std::string>() : "";
    // It stands in a policy's text, between = and a comma.
    if (choice.empty() || choice.size() > kMaxWord || !made_of(choice, {kLower, kUpper, kDigits, "_.+-"}))
      fields.fail("choices", one.is_string() ? in_quotes(choice) : one.type_name(),
                  "words of letters, digits, _ . + or -, each of at most 40");
    if (std::ranges::count(choices, choice) > 0) fields.fail("choices", in_quotes(choice) + " twice", "each once");
    choices.push_back(choice);
  }
  if (choices.empty()) fields.fail("choices", "an empty list", "at least one word");
  return choices;
}

void check_default(const Fields& fields, const DeclaredParameter& parameter) {
  const bool whole = parameter.kind != ParameterKind::real;
  const double value = parameter.default_value;
  if (parameter.min > parameter.max)
    fields.fail("max", number_text(parameter.max), "at least min, " + number_text(parameter.min));
  if (whole && parameter.min != std::floor(parameter.min))
    fields.fail("min", number_text(parameter.min), "a whole number");
  if (whole && parameter.max != std::floor(parameter.max))
    fields.fail("max", number_text(parameter.max), "a whole number");
  if (parameter.share && value > 0 && value < 1) return;
  if (value >= parameter.min && value <= parameter.max && (!whole || value == std::floor(value))) return;
  fields.fail("default", number_text(value),
              std::string(whole ? "a whole number" : "a number") + " from " + number_text(parameter.min) + " to " +
                  number_text(parameter.max));
}

DeclaredParameter parameter_of(const json& object, const std::string& policy, const std::string& place) {
  const Fields fields(object, policy, place);
  DeclaredParameter parameter;
  parameter.name = fields.line("name", kMaxWord);
  if (!is_lower(parameter.name[0]) || !made_of(parameter.name, {kLower, kDigits, "_"}))
    fields.fail("name", in_quotes(parameter.name), "a word of a-z, 0-9 and _, a letter first");
  parameter.kind = static_cast<ParameterKind>(fields.one_of("kind", kKinds));
  parameter.unit = fields.line("unit", kMaxWord, true);
  parameter.definition = fields.line("definition", kMaxText);
  parameter.share = fields.boolean_or("share", false);
  if (parameter.share && parameter.kind != ParameterKind::tokens)
    fields.fail("share", "true", "false, unless kind is tokens");
  const bool is_choice = parameter.kind == ParameterKind::choice;
  if (is_choice) parameter.choices = choices_of(fields);
  if (!is_choice && fields.has("choices")) fields.fail("choices", "a list", "nothing, unless kind is choice");
  const double most = parameter.kind == ParameterKind::real     ? std::numeric_limits<double>::max()
                      : parameter.kind == ParameterKind::tokens ? kMaxTokens
                                                                : kMaxCount;
  const double least = parameter.kind == ParameterKind::tokens ? 0 : -most;
  parameter.min = is_choice ? 0 : fields.number("min", least, most);
  parameter.max = is_choice ? static_cast<double>(parameter.choices.size() - 1) : fields.number("max", least, most);
  parameter.default_value =
      fields.number("default", -std::numeric_limits<double>::max(), std::numeric_limits<double>::max());
  check_default(fields, parameter);
  return parameter;
}

const DeclaredParameter* find(const Declaration& declaration, std::string_view name) {
  const auto found = std::ranges::find(declaration.parameters, name, &DeclaredParameter::name);
  return found == declaration.parameters.end() ? nullptr : &*found;
}

/// Of a parameter that means to KVScope what it means under its own policies.
void check_meaning(const Fields& fields, const Declaration& declaration, std::string_view name, ParameterKind kind,
                   double least) {
  const DeclaredParameter* parameter = find(declaration, name);
  if (parameter == nullptr) return;
  const std::string key = "parameters[" + std::to_string(parameter - declaration.parameters.data()) + "]";
  if (parameter->kind != kind)
    fields.fail(key + ".kind", in_quotes(kKinds[static_cast<std::size_t>(parameter->kind)]),
                std::string(kKinds[static_cast<std::size_t>(kind)]) + ", because " + std::string(name) +
                    " means what it means under KVScope's policies");
  if (parameter->min < least) fields.fail(key + ".min", number_text(parameter->min), "at least " + number_text(least));
  if (parameter->share) fields.fail(key + ".share", "true", "false, because " + std::string(name) + " is a number");
}

void check_rule(const Fields& fields, const Declaration& declaration) {
  constexpr double kAny = std::numeric_limits<double>::lowest();
  check_meaning(fields, declaration, "sinks", ParameterKind::tokens, 0);
  check_meaning(fields, declaration, "window", ParameterKind::tokens, 1);
  if (declaration.budget) {
    check_meaning(fields, declaration, "budget", ParameterKind::tokens, 1);
    if (find(declaration, "budget") == nullptr)
      fields.fail("parameters", "no parameter named budget", "one of kind tokens, because budget is true");
    for (const char* name : {"keep", "compression"})
      if (find(declaration, name) != nullptr)
        fields.fail("parameters", "a parameter named " + std::string(name),
                    "another name: with budget true it is another way to write the budget");
  }
  if (declaration.rule == Declaration::Rule::top_k && !declaration.budget)
    fields.fail("budget", "false", "true, because rule is top_k");
  if (declaration.rule == Declaration::Rule::threshold) {
    check_meaning(fields, declaration, "threshold", ParameterKind::real, kAny);
    if (find(declaration, "threshold") == nullptr)
      fields.fail("parameters", "no parameter named threshold", "one of kind real, because rule is threshold");
  }
}

json parameter_json(const DeclaredParameter& parameter) {
  json object = {{"name", parameter.name},
                 {"kind", kKinds[static_cast<std::size_t>(parameter.kind)]},
                 {"unit", parameter.unit},
                 {"default", parameter.default_value},
                 {"definition", parameter.definition}};
  if (parameter.kind == ParameterKind::choice) {
    object["choices"] = parameter.choices;
  } else {
    object["min"] = parameter.min;
    object["max"] = parameter.max;
  }
  if (parameter.share) object["share"] = true;
  return object;
}

}  // namespace

Declaration declaration_of_json(const json& object, const std::string& place) {
  const std::string name = object.is_object() && object.contains("name") && object["name"].is_string()
                               ? object["name"].get<std::string>()
                               : "";
  const Fields fields(object, name, place);
  Declaration declaration{.name = policy_name(fields),
                          .title = policy_title(fields),
                          .definition = fields.line("definition", kMaxText),
                          .evicted = fields.line_or_empty("evicted"),
                          .kept = fields.line_or_empty("kept"),
                          .budget = fields.boolean("budget"),
                          .rule = static_cast<Declaration::Rule>(fields.one_of("rule", kRules)),
                          .dense_prompt = fields.one_of("prompt", kPrefillChoices) == 0,
                          .revision = fields.has("revision") ? fields.line("revision", kMaxName) : "",
                          .parameters = {}};
  const std::string prefix = place.empty() ? "" : place + ".";
  for (const json& one : fields.array("parameters", kMaxParameters)) {
    const std::string at = "parameters[" + std::to_string(declaration.parameters.size()) + "]";
    DeclaredParameter parameter = parameter_of(one, name, prefix + at);
    if (find(declaration, parameter.name) != nullptr)
      fields.fail(at + ".name", in_quotes(parameter.name) + " again", "each parameter once");
    declaration.parameters.push_back(std::move(parameter));
  }
  check_rule(fields, declaration);
  return declaration;
}

json declaration_json(const Declaration& declaration) {
  json object = {{"name", declaration.name},
                 {"title", declaration.title},
                 {"definition", declaration.definition},
                 {"budget", declaration.budget},
                 {"rule", kRules[static_cast<std::size_t>(declaration.rule)]},
                 {"prompt", kPrefillChoices[declaration.dense_prompt ? 0 : 1]},
                 {"parameters", json::array()}};
  if (!declaration.evicted.empty()) object["evicted"] = declaration.evicted;
  if (!declaration.kept.empty()) object["kept"] = declaration.kept;
  if (!declaration.revision.empty()) object["revision"] = declaration.revision;
  for (const DeclaredParameter& parameter : declaration.parameters)
    object["parameters"].push_back(parameter_json(parameter));
  return object;
}

}  // namespace kvscope
