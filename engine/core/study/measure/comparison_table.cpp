#include "engine/core/study/measure/comparison_table.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>

#include "engine/core/policy/scorer_text.h"
#include "engine/core/record/run_gate.h"
#include "engine/core/study/measure/common_oracle.h"
#include "engine/core/study/measure/compare_runs.h"
#include "engine/core/study/measure/oracle_label.h"
#include "engine/core/study/measure/output_error.h"
#include "engine/core/study/measure/run_measures.h"
#include "engine/core/support/text.h"

namespace kvscope {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr char kNone[] = "–";

std::string number(double v, int digits = 4) { return std::isnan(v) ? kNone : number_text(v, digits); }

std::string signed_number(double v) {
  if (std::isnan(v)) return kNone;
  return (v > 0 ? "+" : "") + number_text(v, 3);
}

ComparisonRow words(std::string name, std::string a, std::string b) {
  return {.name = std::move(name), .a = std::move(a), .b = std::move(b), .difference = "", .definition = ""};
}

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty() ? std::optional(value)
                                                                                   : std::nullopt;
}

/// Values of a parameter, with their difference where both are numbers; of a share in percentage points.
ComparisonRow values(const std::string& name, const std::string& a, const std::string& b) {
  ComparisonRow row = words(name, a, b);
  if (a == b) return row;
  const auto of_a = number_of(a), of_b = number_of(b);
  if (of_a && of_b)
    row.difference = name == "keep" ? signed_number(100 * (*of_b - *of_a)) + " points" : signed_number(*of_b - *of_a);
  return row;
}

ComparisonRow numbers(std::string name, double a, double b, std::string definition) {
  return {.name = std::move(name),
          .a = number(a),
          .b = number(b),
          .difference = signed_number(b - a),
          .definition = std::move(definition)};
}

/// How many heads keep everything, of B how many of them are A's as well; the heads themselves are on the board.
ComparisonRow global_heads(const RunRecord& a, const RunRecord& b) {
  const auto count = [](const RunRecord& run) {
    const std::vector<std::uint8_t> local = run.local_heads();
    const auto n = std::ranges::count(local, std::uint8_t{0});
    return local.empty() ? std::string(kNone) : std::to_string(n) + " of " + std::to_string(local.size());
  };
  std::string of_b = count(b);
  const std::vector<std::uint8_t> local_a = a.local_heads(), local_b = b.local_heads();
  if (!local_a.empty() && local_a.size() == local_b.size() && local_a != local_b) {
    int same = 0;
    for (std::size_t i = 0; i < local_a.size(); ++i) same += local_a[i] + local_b[i] == 0;
    of_b += ", " + std::to_string(same) + " shared with A";
  }
  return words("global heads", count(a), of_b);
}

/// "name:key=value,key=value" as its pairs, in their order.
std::vector<std::pair<std::string, std::string>> pairs_of(const std::string& policy) {
  std::vector<std::pair<std::string, std::string>> pairs;
  std::size_t at = policy.find(':');
  while (at != std::string::npos) {
    const std::size_t begin = at + 1, end = policy.find(',', begin);
    const std::string pair = policy.substr(begin, end == std::string::npos ? end : end - begin);
    const std::size_t equals = pair.find('=');
    pairs.emplace_back(pair.substr(0, equals), equals == std::string::npos ? "yes" : pair.substr(equals + 1));
    at = end;
  }
  return pairs;
}

void add_policy(std::vector<ComparisonRow>& rows, const PolicySpec& a, const PolicySpec& b) {
  rows.push_back(words("policy", method_name(a), method_name(b)));
  const auto of_a = pairs_of(a.to_string()), of_b = pairs_of(b.to_string());
  const auto brief_a = pairs_of(a.brief()), brief_b = pairs_of(b.brief());  // the same keys
  const auto value = [](const auto& pairs, const std::string& key) -> std::string {
    const auto found = std::ranges::find(pairs, key, [](const auto& pair) { return pair.first; });
    return found == pairs.end() ? kNone : found->second;
  };
  for (const auto& [key, text] : of_a) {
    // Two numbers that differ only in what is not read are told apart by all their digits.
    const bool brief = text == value(of_b, key) || value(brief_a, key) != value(brief_b, key);
    rows.push_back(brief ? values(key, value(brief_a, key), value(brief_b, key)) : values(key, text, value(of_b, key)));
  }
  for (const auto& [key, text] : brief_b) {
    if (value(of_a, key) == kNone) rows.push_back(words(key, kNone, text));
  }
}

std::string sampling_text(const SamplingSpec& s) {
  if (s.temperature == 0) return "greedy";
  std::string text = "temperature " + number_text(s.temperature);
  if (s.top_k > 0) text += ", top k " + std::to_string(s.top_k);
  if (s.top_p < 1) text += ", top p " + number_text(s.top_p);
  if (s.min_p > 0) text += ", min p " + number_text(s.min_p);
  if (s.repetition_penalty != 1) text += ", repetition penalty " + number_text(s.repetition_penalty);
  return text + ", seed " + std::to_string(s.seed);
}

std::string length_text(const RunRecord& run) {
  return std::to_string(run.prompt_len) + " + " + std::to_string(run.n_tokens() - run.prompt_len);
}

/// Of the whole runs. No difference: an oracle that holds more tokens is met more often by chance.
void add_own_recall(std::vector<ComparisonRow>& rows, const RunRecord& a, const RunRecord& b) {
  if (a.future_mass.empty() && b.future_mass.empty()) return;
  const OracleMean of_a = mean_of(Oracle(a)), of_b = mean_of(Oracle(b));
  ComparisonRow row = numbers("own recall", of_a.recall, of_b.recall,
                              std::string(kRecallDefinition) + ". Over the whole run, as in the list of runs");
  row.difference.clear();
  row.label = "recall (" + oracle_label(OracleOf::own, of_a, of_b) + ")";
  rows.push_back(std::move(row));
}

/// Up to query q, by one oracle for both where they have the same text.
void add_judged(std::vector<ComparisonRow>& rows, const RunRecord& a, const RunRecord& b, std::int32_t q) {
  const auto common = CommonOracle::of(a, b);
  if (!common && (a.future_mass.empty() || b.future_mass.empty())) return;
  const OracleMean of_a = mean_of(common ? common->oracle(a) : Oracle(a), q),
                   of_b = mean_of(common ? common->oracle(b) : Oracle(b), q);
  const bool shared = common && !common->is_own();
  const std::string oracle = oracle_label(shared ? OracleOf::shared : OracleOf::own, of_a, of_b),
                    by = ", mean over heads and queries up to " + std::to_string(q) +
                         (shared ? " (one oracle for both: " + std::to_string(common->tokens()) +
                                       " tokens per head, including sinks and window)"
                          : common ? " (both heads hold the same tokens, so both have the same oracle)"
                                   : " (A and B generated different text, so each is judged by its own oracle)");
  const auto add = [&](const char* name, const char* title, double value_a, double value_b, const char* definition) {
    rows.push_back(numbers(name, value_a, value_b, definition + by));
    rows.back().label = std::string(title) + " (" + oracle + ")";
  };
  add("above chance", "recall above chance", of_a.above_chance(), of_b.above_chance(),
      "(recall - chance) / (1 - chance): 0 for a random choice, 1 for the oracle's choice, at any budget");
  add("oracle recall", "recall", of_a.recall, of_b.recall, "share of the oracle's tokens that the policy keeps");
  add("chance", "chance", of_a.chance, of_b.chance, "recall of the same number of random tokens");
  add("mass kept", "mass kept", of_a.mass_kept, of_b.mass_kept,
      "future attention on the kept tokens / on all tokens that could be evicted");
  rows.back().label.clear();  // all that could be evicted: no oracle's choice
}

void add_kept(std::vector<ComparisonRow>& rows, const RunRecord& a, const RunRecord& b, std::int32_t q) {
  const auto add = [&](const char* name, Metric metric, const char* definition) {
    rows.push_back(numbers(name, mean(head_metric(a, metric, q)), mean(head_metric(b, metric, q)), definition));
  };
  rows.push_back(numbers("in cache", tokens_in_cache(a, q), tokens_in_cache(b, q),
                         "tokens in the cache of a head, including window and sinks; mean over heads"));
  add("density", Metric::density,
      "kept tokens / all tokens, of those that have left the window, including sinks; mean over heads");
  rows.back().label = "density (incl. sinks)";
  add_judged(rows, a, b, q);
  add_own_recall(rows, a, b);
}

}  // namespace

ComparisonTable comparison_table(const RunRecord& a, const RunRecord& b, std::int32_t q, bool b_is_preview) {
  const RunComparison common = compare_runs(a, b);
  ComparisonTable table;
  table.asked.push_back(words("model", a.model.name, b.model.name));
  add_policy(table.asked, a.policy, b.policy);
  const std::string gate_a = gate_of(a), gate_b = gate_of(b);
  if (gate_a + gate_b != "")
    table.asked.push_back(words("gate", gate_a.empty() ? kNone : gate_a, gate_b.empty() ? kNone : gate_b));
  if (!a.local_heads().empty() || !b.local_heads().empty()) table.asked.push_back(global_heads(a, b));
  if (a.chunk + b.chunk > 0)
    table.asked.push_back(words("acts after", describe_chunk(a.chunk), describe_chunk(b.chunk)));
  table.asked.push_back(words("sampling", sampling_text(a.sampling), sampling_text(b.sampling)));
  table.asked.push_back(
      words("prompt", common.same_prompt ? "same" : "its own", common.same_prompt ? "same" : "different"));

  table.tokens = common.diverged ? "Tokens diverge at " + std::to_string(common.n_common)
                 : a.n_tokens() == b.n_tokens()
                     ? "Identical: all " + std::to_string(a.n_tokens()) + " tokens"
                     : "Identical for the " + std::to_string(common.n_common) + " tokens both have";
  table.came_of.push_back(words("prompt + answer", length_text(a), length_text(b)));
  const std::int32_t last = std::min(q, common.q);
  if (!b_is_preview && a.n_tokens() > a.prompt_len && b.n_tokens() > b.prompt_len) {
    table.came_of.push_back(numbers("NLL of the answer", answer_nll(a), answer_nll(b),
                                    "nats per token, mean over the tokens of each run's answer"));
    if (common.diverged) table.came_of.back().difference.clear();  // of two texts
  }
  const bool is_all = common.n_common == std::max(a.n_tokens(), b.n_tokens()) || common.n_common == 0;
  if (!b_is_preview)
    table.came_of.push_back(numbers(
        is_all ? "NLL of all" : "NLL of the first " + std::to_string(common.n_common), common.nll_a, common.nll_b,
        "nats per token, mean over the " + std::to_string(common.n_scored) + " tokens that both have"));
  if (last >= 0 && last < std::min(q, a.queries() - 1))
    table.came_of.push_back({.name = "at query",
                             .a = std::to_string(last),
                             .b = std::to_string(last),
                             .difference = "",
                             .definition = "the last query up to which both runs have the same tokens"});
  if (last >= 0) add_kept(table.came_of, a, b, last);
  table.came_of.push_back({.name = "kept by both",
                           .a = number(mean(common.overlap)),
                           .b = number(mean(common.overlap)),
                           .difference = "",
                           .definition = "tokens that both keep / tokens that either keeps, at query " +
                                         std::to_string(common.q) + "; mean over heads"});
  if (b_is_preview) return table;
  const double error_a = mean_output_error(a), error_b = mean_output_error(b);
  if (!std::isnan(error_a) || !std::isnan(error_b))
    table.came_of.push_back(numbers("output error", error_a, error_b,
                                    "|change of a layer's attention output| / |that output|, mean over layers"));
  table.came_of.push_back(numbers("ms per token", ms_per_token(a), ms_per_token(b),
                                  std::string(info_of(RunMeasure::ms_per_token).definition)));
  return table;
}

}  // namespace kvscope
