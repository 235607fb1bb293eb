// Policies as text. Numbers go through std::from_chars and std::to_chars: no locale, and the shortest text that reads
// back as the same number.
#include "engine/core/policy/policy_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <set>
#include <stdexcept>

#include "engine/core/policy/declared_policy.h"
#include "engine/core/policy/policy.h"
#include "engine/core/support/error.h"
#include "engine/core/support/text.h"
#include "engine/core/support/trim.h"

namespace kvscope {
namespace {

constexpr double kMaxCompression = 1e6;

/// Never more than was asked for, but 0.29 of 100 is 29 although the product is 28.999999999999996.
int whole(double tokens) { return static_cast<int>(std::floor(tokens + 1e-6)); }

bool is_share(const ParameterInfo& parameter, double value) { return parameter.may_be_share && value > 0 && value < 1; }

/// Reads decimal numbers only; nullopt for anything else (empty, hexadecimal, inf, nan, out of double's range).
std::optional<double> read_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

[[noreturn]] void bad_value(std::string_view policy, std::string_view key, std::string_view value,
                            std::string expected) {
  throw Error({.code = ExitCode::usage,
               .file = "policy " + std::string(policy),
               .where = std::string(key),
               .found = in_quotes(value, 200),
               .expected = std::move(expected)});
}

/// Whether a parameter may have the value; not if it is NaN.
bool allows(const ParameterInfo& parameter, double value) {
  const bool whole = parameter.kind != ParameterKind::real;
  if (!parameter.word.empty() && value == kWordValue) return true;
  if (is_share(parameter, value)) return true;
  return value >= parameter.min && value <= parameter.max && (!whole || value == std::floor(value));
}

[[noreturn]] void bad_parameter(std::string_view policy, const ParameterInfo& parameter, std::string_view text) {
  std::string expected;
  for (const std::string_view choice : parameter.choices) {
    expected += (expected.empty() ? "one of " : ", ") + std::string(choice);
  }
  if (parameter.kind != ParameterKind::choice) {
    expected = std::string(parameter.kind != ParameterKind::real ? "a whole number" : "a number") + " from " +
               number_text(parameter.min) + " to " + number_text(parameter.max);
  }
  if (!parameter.word.empty()) expected += ", or " + std::string(parameter.word);
  if (parameter.may_be_share) expected += ", or a share of the run between 0% and 100%";
  bad_value(policy, parameter.name, text, expected);
}

double parse_value(std::string_view policy, const ParameterInfo& parameter, std::string_view text) {
  if (parameter.kind == ParameterKind::choice) {
    const auto choice = std::find(parameter.choices.begin(), parameter.choices.end(), text);
    if (choice == parameter.choices.end()) bad_parameter(policy, parameter, text);
    return static_cast<double>(choice - parameter.choices.begin());
  }
  if (!parameter.word.empty() && text == parameter.word) return kWordValue;
  const bool percent = (parameter.may_be_share || parameter.percent) && text.ends_with('%');
  std::optional<double> value = read_number(text);
  if (percent) {  // by the exponent: 33.3 / 100 is not 0.333
    value = read_number(std::string(trim(text.substr(0, text.size() - 1))) + "e-2");
    if (value && parameter.may_be_share && !is_share(parameter, *value)) value.reset();
  }
  if (!value || (!parameter.word.empty() && *value == kWordValue) || !allows(parameter, *value))
    bad_parameter(policy, parameter, text);
  return *value == 0 ? 0 : *value;  // -0 would print as another text than 0
}

void check_keep(std::string_view policy, double fraction, std::string_view text) {
  if (fraction > 0 && fraction <= 1) return;
  bad_value(policy, "keep", text, "a fraction above 0 and at most 1, or a percentage above 0% and at most 100%");
}

void check_compression(std::string_view policy, double factor, std::string_view text) {
  if (factor >= 1 && factor <= kMaxCompression) return;
  bad_value(policy, "compression", text, "a factor from 1 to 1e6, such as 4 or 4x");
}

BudgetSpec parse_keep(std::string_view policy, std::string_view text) {
  const bool percent = text.ends_with('%');
  const std::optional<double> value = read_number(percent ? trim(text.substr(0, text.size() - 1)) : text);
  const double fraction = value ? (percent ? *value / 100 : *value) : 0;
  check_keep(policy, fraction, text);
  return {BudgetSpec::Kind::keep, fraction};
}

BudgetSpec parse_compression(std::string_view policy, std::string_view text) {
  const double factor = read_number(text.ends_with('x') ? text.substr(0, text.size() - 1) : text).value_or(0);
  check_compression(policy, factor, text);
  return {BudgetSpec::Kind::compression, factor};
}

const ParameterInfo* find_parameter(const PolicyInfo& info, std::string_view name) {
  for (const ParameterInfo& parameter : info.parameters) {
    if (parameter.name == name) return &parameter;
  }
  return nullptr;
}

bool is_budget(const PolicyInfo& info, const ParameterInfo& parameter) {
  return info.has_budget && parameter.name == "budget";
}

/// Who says the same in another way leaves no room for both.
void check_replaced(const PolicySpec& spec, const PolicyInfo& info, const std::set<std::string, std::less<>>& seen) {
  for (const ParameterInfo& parameter : info.parameters) {
    if (!seen.contains(parameter.instead_of) || spec.value(parameter.name) == kWordValue) continue;
    const std::string other(parameter.instead_of), name(parameter.name);
    throw Error({.code = ExitCode::usage,
                 .file = "policy " + spec.name,
                 .where = name,
                 .found = "both " + other + " and " + name,
                 .expected = "one of them"});
  }
}

std::string key_list(const PolicyInfo& info) {
  std::string keys;
  for (const ParameterInfo& parameter : info.parameters) {
    keys += (keys.empty() ? "" : ", ") + std::string(parameter.name);
    if (is_budget(info, parameter)) keys += ", keep, compression";
  }
  return keys.empty() ? "no key: this policy has no parameters" : "one of " + keys;
}

/// Takes one key=value into the spec.
void parse_pair(const PolicyInfo& info, std::string_view pair, PolicySpec& spec,
                std::set<std::string, std::less<>>& seen) {
  const std::size_t equals = pair.find('=');
  const std::string_view key = trim(pair.substr(0, equals));
  const bool budget_key = info.has_budget && (key == "budget" || key == "keep" || key == "compression");
  const ParameterInfo* parameter = find_parameter(info, key);
  const std::string file = "policy " + spec.name;
  if (!budget_key && parameter == nullptr) {
    throw Error({.code = ExitCode::usage,
                 .file = file,
                 .found = "no key named " + in_quotes(key, 200),
                 .expected = key_list(info)});
  }
  if (equals == std::string_view::npos) bad_value(spec.name, key, pair, "key=value");
  if (!seen.insert(std::string(key)).second) {
    throw Error({.code = ExitCode::usage, .file = file, .where = std::string(key), .found = "given twice"});
  }
  const std::string_view text = trim(pair.substr(equals + 1));
  spec.unwritten.erase(std::string(key));
  if (!budget_key) {
    spec.values[std::string(key)] = parse_value(spec.name, *parameter, text);
  } else if (key == "keep") {
    spec.budget = parse_keep(spec.name, text);
  } else if (key == "compression") {
    spec.budget = parse_compression(spec.name, text);
  } else {
    spec.budget = {BudgetSpec::Kind::tokens, parse_value(spec.name, *parameter, text)};
  }
}

}  // namespace

PolicySpec PolicySpec::parse(std::string_view text, const DeclaredPolicy* own) {
  const std::size_t colon = text.find(':');
  PolicySpec spec;
  spec.name = trim(text.substr(0, colon));
  if (is_declared_name(spec.name))
    spec.declared = own != nullptr && own->declaration.name == spec.name ? own : find_declared(spec.name);
  const PolicyInfo& info = policy_of(spec).info;
  for (const ParameterInfo& parameter : info.parameters) {
    if (is_budget(info, parameter)) {
      spec.budget = {BudgetSpec::Kind::tokens, parameter.default_value};
    } else {
      spec.values[std::string(parameter.name)] = parameter.default_value;
      spec.unwritten.insert(std::string(parameter.name));
    }
  }
  if (colon == std::string_view::npos) return spec;

  std::set<std::string, std::less<>> seen;
  for (std::string_view rest = text.substr(colon + 1);;) {
    const std::size_t comma = rest.find(',');
    parse_pair(info, rest.substr(0, comma), spec, seen);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (seen.contains("budget") + seen.contains("keep") + seen.contains("compression") > 1) {
    throw Error({.code = ExitCode::usage,
                 .file = "policy " + spec.name,
                 .where = "budget",
                 .found = "more than one of budget, keep and compression",
                 .expected = "one of them"});
  }
  check_replaced(spec, info, seen);
  return spec;
}

void PolicySpec::check() const {
  const PolicyInfo& info = policy_of(*this).info;
  for (const ParameterInfo& parameter : info.parameters) {
    const bool of_budget = is_budget(info, parameter);
    if (of_budget && budget && budget->kind != BudgetSpec::Kind::tokens) continue;
    const double number = !of_budget ? value(parameter.name) : budget ? budget->value : parameter.default_value;
    check_value(name, parameter, number);
  }
  if (!budget) return;
  if (budget->kind == BudgetSpec::Kind::keep) check_keep(name, budget->value, number_text(budget->value));
  if (budget->kind == BudgetSpec::Kind::compression)
    check_compression(name, budget->value, number_text(budget->value) + "x");
}

namespace {

enum class Digits { all, brief };

std::string text_of(const PolicySpec& spec, bool all, Digits digits = Digits::all) {
  const PolicyInfo& info = policy_of(spec).info;
  std::string text;
  const auto append = [&](std::string_view key, const std::string& value) {
    text += text.empty() ? ':' : ',';
    text.append(key).append("=").append(value);
  };
  for (const ParameterInfo& parameter : info.parameters) {
    if (!is_budget(info, parameter)) {
      if (!all && spec.is_open(parameter.name)) continue;
      if (spec.is_replaced(parameter.name)) continue;
      if (all && parameter.quiet && spec.value(parameter.name) == parameter.default_value) continue;
      append(parameter.name,
             (digits == Digits::all ? parameter_value : brief_value)(parameter, spec.value(parameter.name)));
      continue;
    }
    const BudgetSpec budget = spec.budget.value_or(BudgetSpec{BudgetSpec::Kind::tokens, parameter.default_value});
    const std::string number = digits == Digits::all ? number_text(budget.value) : brief_number(budget.value);
    switch (budget.kind) {
      case BudgetSpec::Kind::tokens:
        append("budget", number);
        break;
      case BudgetSpec::Kind::keep:
        append("keep", number);
        break;
      case BudgetSpec::Kind::compression:
        append("compression", number + "x");
        break;
    }
  }
  return spec.name + text;
}

}  // namespace

std::string PolicySpec::to_string() const { return text_of(*this, true); }
std::string PolicySpec::brief() const { return text_of(*this, true, Digits::brief); }
std::string PolicySpec::written() const { return text_of(*this, false); }

bool PolicySpec::is_open(std::string_view parameter) const {
  if (!unwritten.contains(parameter)) return false;
  const ParameterInfo* info = find_parameter(policy_of(*this).info, parameter);
  return info != nullptr && value(parameter) == info->default_value;
}

PolicySpec PolicySpec::closed() const {
  PolicySpec spec = *this;
  spec.unwritten.clear();
  return spec;
}

bool PolicySpec::is_replaced(std::string_view parameter) const {
  return std::ranges::any_of(policy_of(*this).info.parameters, [&](const ParameterInfo& other) {
    return other.instead_of == parameter && value(other.name) != kWordValue;
  });
}

void PolicySpec::forget_replaced() {
  for (const ParameterInfo& parameter : policy_of(*this).info.parameters) {
    if (is_replaced(parameter.name)) values[std::string(parameter.name)] = parameter.default_value;
  }
}

double PolicySpec::value(std::string_view parameter) const {
  if (const auto found = values.find(parameter); found != values.end()) return found->second;
  if (const ParameterInfo* info = find_parameter(policy_of(*this).info, parameter)) return info->default_value;
  throw std::invalid_argument("policy " + name + " has no parameter " + std::string(parameter));
}

bool PolicySpec::has(std::string_view parameter) const {
  return find_parameter(policy_of(*this).info, parameter) != nullptr;
}

int PolicySpec::tokens_of(std::string_view parameter, int n_positions) const {
  const double number = value(parameter);
  return number > 0 && number < 1 ? std::max(1, whole(number * n_positions)) : static_cast<int>(number);
}

int PolicySpec::budget_tokens(int n_positions) const {
  const PolicyInfo& info = policy_of(*this).info;
  if (const auto budget_of = policy_of(*this).budget_tokens) return budget_of(*this);
  if (!info.has_budget || !policy_of(*this).uses(*this, "budget")) return 0;
  const BudgetSpec spec =
      budget.value_or(BudgetSpec{BudgetSpec::Kind::tokens, find_parameter(info, "budget")->default_value});
  switch (spec.kind) {
    case BudgetSpec::Kind::tokens:
      return static_cast<int>(spec.value);
    case BudgetSpec::Kind::keep:
      return whole(spec.value * n_positions);
    case BudgetSpec::Kind::compression:
      return whole(n_positions / spec.value);
  }
  return 0;
}

namespace {

/// Of a value that has one; empty: it is a number.
std::string word_of(const ParameterInfo& parameter, double value) {
  if (parameter.kind == ParameterKind::choice) return std::string(parameter.choices[static_cast<std::size_t>(value)]);
  return !parameter.word.empty() && value == kWordValue ? std::string(parameter.word) : "";
}

}  // namespace

std::string parameter_value(const ParameterInfo& parameter, double value) {
  const std::string word = word_of(parameter, value);
  return word.empty() ? number_text(value) : word;
}

std::string brief_value(const ParameterInfo& parameter, double value) {
  const std::string word = word_of(parameter, value);
  return word.empty() ? brief_number(value) : word;
}

void check_value(std::string_view policy, const ParameterInfo& parameter, double value) {
  if (!allows(parameter, value)) bad_parameter(policy, parameter, number_text(value));
}

RetentionGeometry PolicySpec::geometry(int n_positions) const { return policy_of(*this).geometry(*this, n_positions); }

ParameterSlider ParameterInfo::slider_of(int n_positions) const {
  constexpr double kManyTokens = 512, kReals = 20;
  if (slider) return *slider;
  if (kind == ParameterKind::real) return {std::max(min, -kReals), std::min(max, kReals), 2};
  const double reach = kind == ParameterKind::tokens ? std::max<double>(n_positions, 2 * default_value) : max;
  const double hi = std::max(min + 1, std::min({max, std::max(reach, 256.0), 1e9}));
  if (kind != ParameterKind::tokens) return {min, std::min(hi, 1024.0), 0};
  return {min, hi, 0, hi > kManyTokens};
}

std::string describe_budget(int budget_tokens, int n_positions) {
  if (budget_tokens <= 0 || n_positions <= 0) return std::to_string(budget_tokens) + " tokens";
  const double kept = static_cast<double>(budget_tokens) / n_positions;
  char text[128];
  std::snprintf(text, sizeof(text), "%d tokens = %.4g %% of %d, %.4gx", budget_tokens, 100 * kept, n_positions,
                1 / kept);
  return text;
}

}  // namespace kvscope
