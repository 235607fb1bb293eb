#include "engine/core/record/oracle_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "engine/core/support/error.h"
#include "engine/core/support/text.h"

namespace kvscope {
namespace {

constexpr const char* kKeys = "one of agg, mass, weight, capacity, budget, lse, ahead, kinds";
constexpr std::array<std::string_view, 4> kMasses = {"mean", "sum", "rms", "max"};
constexpr std::array<std::string_view, 3> kWeights = {"mass", "value", "output"};
constexpr std::array<std::string_view, 3> kAggregates = {"max", "mean", "logmean"};
constexpr std::array<std::string_view, 2> kCapacities = {"head", "pooled"}, kNormalisers = {"dense", "sparse"},
                                          kKinds = {"one", "all"};

[[noreturn]] void bad(std::string_view key, std::string_view value, const std::string& expected) {
  throw Error({.code = ExitCode::usage,
               .file = "oracle",
               .where = std::string(key),
               .found = "\"" + escape_for_terminal(value) + "\"",
               .expected = expected});
}

/// Which of `choices` it is.
template <std::size_t n>
int choice(std::string_view key, std::string_view value, const std::array<std::string_view, n>& choices) {
  std::string names;
  for (std::size_t i = 0; i < n; ++i) {
    if (value == choices[i]) return static_cast<int>(i);
    names += (i == 0 ? "" : i + 1 == n ? " or " : ", ") + std::string(choices[i]);
  }
  bad(key, value, names);
}

std::optional<OracleSpec::Budget> parse_budget(std::string_view text) {
  if (text == "match") return std::nullopt;
  OracleSpec::Budget budget;
  budget.is_share = text.ends_with('%');
  const std::string_view number = text.substr(0, text.size() - (budget.is_share ? 1 : 0));
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), budget.value);
  const bool whole = budget.is_share || budget.value == std::floor(budget.value);
  const double most = budget.is_share ? 100 : 1 << 24;
  if (error != std::errc() || end != number.data() + number.size() || !whole || !(budget.value > 0) ||
      budget.value > most) {
    bad("budget", text, "match, a number of tokens, or a share of the run as in 25%");
  }
  if (budget.is_share) budget.value /= 100;
  return budget;
}

int parse_look_ahead(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > 1 << 24) {
    bad("ahead", text, "a whole number from 0 (to the end) to 16777216");
  }
  return value;
}

void set(OracleSpec& spec, std::string_view key, std::string_view value) {
  if (key == "agg") {
    spec.aggregate = static_cast<OracleSpec::Aggregate>(choice(key, value, kAggregates));
  } else if (key == "mass") {
    spec.mass = static_cast<OracleMass>(choice(key, value, kMasses));
  } else if (key == "weight") {
    spec.weight = static_cast<OracleWeight>(choice(key, value, kWeights));
  } else if (key == "capacity") {
    spec.pooled = choice(key, value, kCapacities) == 1;
  } else if (key == "budget") {
    spec.budget = parse_budget(value);
  } else if (key == "lse") {
    spec.sparse_lse = choice(key, value, kNormalisers) == 1;
  } else if (key == "ahead") {
    spec.look_ahead = parse_look_ahead(value);
  } else if (key == "kinds") {
    spec.all_kinds = choice(key, value, kKinds) == 1;
  } else {
    bad(key, value, kKeys);
  }
}

std::string budget_text(const std::optional<OracleSpec::Budget>& budget) {
  if (!budget) return "match";
  return budget->is_share ? number_text(100 * budget->value) + "%" : number_text(budget->value);
}

}  // namespace

std::string_view to_string(OracleMass mass) { return kMasses[static_cast<std::size_t>(mass)]; }
std::string_view to_string(OracleWeight weight) { return kWeights[static_cast<std::size_t>(weight)]; }

OracleSpec OracleSpec::parse(std::string_view text) {
  OracleSpec spec;
  while (!text.empty()) {
    const std::string_view pair = text.substr(0, text.find(','));
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos) bad(pair, "", std::string("key=value with ") + kKeys);
    set(spec, pair.substr(0, equals), pair.substr(equals + 1));
    text.remove_prefix(std::min(text.size(), pair.size() + 1));
  }
  return spec;
}

std::string OracleSpec::to_string() const {
  std::string text = "agg=" + std::string(kAggregates[static_cast<std::size_t>(aggregate)]) +
                     ",mass=" + std::string(kvscope::to_string(mass)) +
                     ",lse=" + std::string(kNormalisers[sparse_lse]) + ",ahead=" + std::to_string(look_ahead);
  if (weight != OracleWeight::mass) text += ",weight=" + std::string(kvscope::to_string(weight));
  if (pooled) text += ",capacity=pooled";
  if (budget) text += ",budget=" + budget_text(budget);
  if (!all_kinds) text += ",kinds=one";
  return text;
}

std::string OracleSpec::definition() const {
  constexpr std::array<const char*, 3> kGroupWords = {"largest over the group", "mean over the group",
                                                      "mean of logarithms over the group"};
  constexpr std::array<const char*, 4> kMassWords = {"mean", "sum", "root mean square", "maximum"};
  constexpr std::array<const char*, 3> kWeightWords = {"", " times |v|", " times |W_o v| over the layer's mean output"};
  const std::string queries = look_ahead == 0 ? "all queries" : "the " + std::to_string(look_ahead + 1) + " queries";
  return std::string(kGroupWords[static_cast<std::size_t>(aggregate)]) + " of the " +
         kMassWords[static_cast<std::size_t>(mass)] + " of the dense teacher's attention from " + queries +
         " after the token left the window" + (sparse_lse ? ", normalised over what the policy kept" : "") +
         kWeightWords[static_cast<std::size_t>(weight)] +
         (budget ? "; capacity " + budget_text(budget) + ", sinks and window included"
                 : "; capacity: as many tokens as the policy keeps") +
         (pooled ? ", shared by all heads" : "");
}

std::string OracleSpec::title() const {
  std::string title(kvscope::to_string(mass));
  if (weight != OracleWeight::mass) title += " x " + std::string(kvscope::to_string(weight));
  if (budget) title += ", " + budget_text(budget);
  if (pooled) title += ", pooled";
  return title;
}

int OracleSpec::budget_tokens(int n_positions) const {
  if (!budget) return 0;
  return static_cast<int>(budget->is_share ? std::lround(budget->value * n_positions) : std::lround(budget->value));
}

}  // namespace kvscope
