#include "engine/core/policy/policy_table.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "engine/core/policy/declared_policy.h"
#include "engine/core/support/error.h"
#include "engine/core/support/text.h"

namespace kvscope {
namespace {

using nlohmann::ordered_json;

ordered_json value_json(const ParameterInfo& parameter, double value) {
  if (parameter.kind == ParameterKind::choice) return parameter.choices[static_cast<std::size_t>(value)];
  if (!parameter.word.empty() && value == kWordValue) return parameter.word;
  if (parameter.kind == ParameterKind::real || value != std::floor(value)) return value;
  return static_cast<std::int64_t>(value);
}

ordered_json budget_json(int tokens, int n_positions) {
  if (tokens <= 0 || n_positions <= 0)
    return {{"tokens", tokens}, {"kept_fraction", nullptr}, {"compression_factor", nullptr}};
  const double n = n_positions;
  return {{"tokens", tokens}, {"kept_fraction", tokens / n}, {"compression_factor", n / tokens}};
}

ordered_json geometry_json(const PolicySpec& spec, int n_positions) {
  try {
    const RetentionGeometry geometry = spec.geometry(n_positions);
    return {{"n_sink", geometry.n_sink}, {"window", geometry.window}, {"top_k", geometry.top_k}};
  } catch (const Error&) {
    return nullptr;
  }
}

/// A bar would end a table's cell.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string needs(const PolicyInfo& info) {
  if (info.gates.empty())
    return info.needs_scorer ? "Reads the first loaded gate of any kind. The gate's own settings override these "
                               "defaults (docs/reference/gates.md). "
                             : "";
  std::string kinds;
  for (const std::string_view gate : info.gates) kinds += (kinds.empty() ? "" : ", ") + std::string(gate);
  return "Reads a gate of kind " + kinds +
         ". The gate's own settings override these defaults (docs/reference/gates.md). ";
}

std::string prefill(const PolicyInfo& info) {
  const PolicySpec spec = PolicySpec::parse(info.name);
  const RetentionPlan plan = policy_of(spec).plan(spec, spec.geometry(4096));
  if (plan.keeps_everything()) return "";
  return plan.dense_prefill
             ? "By default a run's prompt is dense, and eviction starts after it. In a text that is only read "
               "(kvscope score), the policy acts from the first token."
             : "The prompt is sparse: its queries see only what the policy keeps.";
}

}  // namespace

ordered_json policy_json(const PolicySpec& spec, int n_positions) {
  ordered_json parameters = ordered_json::object();
  for (const ParameterInfo& parameter : policy_of(spec).info.parameters) {
    if (spec.budget && parameter.name == "budget") continue;
    parameters[std::string(parameter.name)] = value_json(parameter, spec.value(parameter.name));
  }
  const int tokens = spec.budget_tokens(n_positions);
  const bool has_budget = policy_of(spec).info.has_budget || tokens > 0;
  return {{"name", spec.name},
          {"parameters", std::move(parameters)},
          {"budget", has_budget ? budget_json(tokens, n_positions) : ordered_json()},
          {"geometry", geometry_json(spec, n_positions)}};
}

std::string parameter_range(const ParameterInfo& parameter) {
  if (parameter.kind != ParameterKind::choice) {
    return number_text(parameter.min) + " to " + number_text(parameter.max) +
           (parameter.word.empty() ? "" : ", or " + std::string(parameter.word));
  }
  std::string names;
  for (const std::string_view choice : parameter.choices) names += (names.empty() ? "" : ", ") + std::string(choice);
  return names;
}

/// What a threshold that is solved is of, for all policies that have one.
constexpr std::string_view kDensitySection =
    "\n## Density\n\nWrite `density=SHARE` instead of `threshold` (giving both is an error). SHARE is the share of "
    "tokens outside sinks and window to keep. The run finds the threshold from the scores of its prompt, or of the "
    "whole text if the text is only read and the policy acts from its first token (`kvscope score`, `--chunk`). Only "
    "tokens with `n_sink <= t < prompt length - window` count: those that have left the window when the prompt ends. "
    "With `density_over=model` the tokens of all KV heads count together and there is one threshold, so heads differ "
    "in how much they keep. With `density_over=head` each head has a separate threshold.\n\nThe threshold is the one "
    "whose kept share is nearest to SHARE; of two equally near, the one that keeps more. It lies midway between the "
    "lowest score that stays and the highest that is evicted. Tokens with equal scores stay or leave together: if a "
    "gate gives 1 to half of its tokens, either half of them stay or none. If the prompt is no longer than sinks and "
    "window, all tokens outside the sinks whose score is known count, since they leave the window during the answer; "
    "if there are none, the run is refused. Local heads of a hybrid do not count. A token whose score is NaN is "
    "evicted.\n\nEvicting in one layer changes the scores in the layers above it. Therefore the threshold is first "
    "found from a dense pass over the prompt. Then the prompt is read under this threshold and a new one is found "
    "from the new scores, until the kept share is within half a percentage point of SHARE, at most four times; the "
    "nearest threshold is used. This takes two to five passes over the prompt before the run itself. The answer uses "
    "the same threshold and may keep another share. Tokens that `pool` evicts do not count. The run reports its "
    "thresholds (`kvscope run`, `score`, `inspect`, `runs/head_threshold` of a trace). If there is one threshold for "
    "all heads, `threshold=` with this value gives the same run without these passes. In `--change`, a density can "
    "only be replaced by a threshold.\n";

/// What a budget is of all heads, for all policies that may share one.
constexpr std::string_view kPooledSection =
    "\n## Pooled budgets\n\n`capacity=pooled` gives all KV heads of a model one budget. Between sinks and window, "
    "`n_heads (budget - sinks - window)` tokens stay, whichever heads they are in. The tokens with the lowest "
    "scores, decay included, are evicted; ties keep the older token, then the one in the lower layer, then in the "
    "lower head. One head may keep everything, another only sinks and window. Scores of different heads are compared "
    "directly, so a scorer must be trained for this, or with targets that are comparable across heads.\n\nWhat a "
    "head of the first layer keeps depends on scores of the last layer. Therefore the pool is cut to its budget "
    "between two queries: before query q, the losing tokens are removed from all heads, `evict_at = q`. Without "
    "`interval`, a run's prompt is dense and the first cut is before the first token of the answer. In a text that "
    "is only read (`kvscope score`, `--chunk`), a cut is before every token or every chunk. Some scores exist only "
    "at the query at which the token leaves the window (KVpop's delayed scorers). They count at the next cut; until "
    "then the token stays visible and its slot is reserved, so at every query after a cut the sum over the heads is "
    "within the pool.\n\nWith `interval=N` the pool is cut before the queries N, 2 N, ... of prompt and answer. The "
    "prompt is read N tokens at a time, with the same result as token by token, and a text that is only read gives "
    "the same run for every `--chunk`. Each cut leaves room for N - 1 more tokens per head, so the sum is within the "
    "pool at every query. A gate that was trained with a pool records this (`pool_interval`, "
    "docs/reference/gates.md), and its policy then uses both settings by default.\n\nA share such as `keep=25%` "
    "is of the final length, prompt and answer. Earlier in the run the same number of tokens is a larger share of "
    "what was read. Since each cut leaves room for the next tokens, the heads hold less than the budget between two "
    "cuts: 22 to 24 % on average for `keep=25%`, measured with `interval=32`.\n\nPages that one head no longer "
    "needs are used by other heads.\n\nWith `budget = sinks + window` there is nothing to share. `what-if` previews "
    "a pool from recorded scores. Recall and chance use what each head keeps at a query.\n";

/// Budgets that differ between heads.
constexpr std::string_view kAllocationSection =
    "\n## Budgets of heads\n\n`allocation` divides the budget of a policy that has this parameter among layers and heads (of `tova` among layers only, whose heads hold the same tokens). Sinks and window are the same for all heads; what is divided is "
    "the rest, the places: `places = budget - sinks - window`. The mean over heads stays the policy's budget.\n\n"
    "- `pyramid` (PyramidKV): `least = floor(places / beta)`, `most = 2 places - least`; layer l of L has `most - l "
    "floor((most - least) / (L - 1))` places. No layer gets more places than the run has positions.\n"
    "- `ada` (AdaKV, algorithm 1): the tokens of all heads of a layer compete for `n_kv_heads places`. A head that "
    "has f of the best gets `safeguard places + (1 - safeguard) f` places, rounded so that the sum stays.\n"
    "- `ada-pyramid`: the layers as `pyramid` has them, and within each layer `ada`.\n\nThe scores for `ada` are "
    "the method's own at the end of the prompt. With `expected-attention` and an `interval`, and in a text that is "
    "only read, each compression divides the budget again. Under `kvpop` and `top-k` the scores are the gate's, "
    "from a dense pass over the prompt, of tokens that have left the window; decay counts.\n\nYou can also give the "
    "budgets: `--budgets FILE` (`kvscope run`, `capture`, `score`) and *Set the budgets of heads* in the window. The "
    "file has a line per layer and a number of tokens per KV head, sinks and window included, or is a hybrid study with "
    "the strategy `budgets`, whose shares divide the budget. The same budgets give "
    "the same run, whichever way they were found. A trace keeps each head's places (`runs/head_top_k`); `inspect "
    "--json` prints the budgets.\n";

namespace {

std::string notes_of(const Declaration& declaration) {
  const std::string rule = declaration.rule == Declaration::Rule::none
                               ? "The rule is the engine's: KVScope shows what it evicts and computes no preview. "
                               : "The recorded scores and the rule of " +
                                     std::string(declaration.rule == Declaration::Rule::top_k ? "top-k" : "threshold") +
                                     " give every eviction, so KVScope can preview other settings. ";
  return rule + (declaration.dense_prompt ? "The prompt is dense, and eviction starts after it."
                                          : "The prompt is sparse: its queries see only what the policy keeps.");
}

}  // namespace

std::string policy_notes(const PolicyInfo& info) {
  const DeclaredPolicy* declared = is_declared_name(info.name) ? find_declared(info.name) : nullptr;
  if (declared != nullptr) return notes_of(declared->declaration);
  return needs(info) + prefill(info);
}

std::string policy_document() {
  std::string out =
      "# Policies\n\nGenerated from the declarations in `engine/core/policy/`. The test `core_tests \"docs/policies.md*\"` compares "
      "it; with KVSCOPE_WRITE_DOCS=1 in the environment it writes it.\n\nA policy is written `NAME:key=value,...`; a budget also "
      "as `keep=25%` or `compression=4x`, a threshold as a [density](#density). Lifetimes: `evict_at[t]` is the first query that can no longer see token "
      "t.\n";
  for (const PolicyInfo& info : policy_list()) {
    out += "\n## `" + std::string(info.name) + "`: " + std::string(info.title) + "\n\n" + std::string(info.definition) +
           "\n\n";
    if (const std::string notes = policy_notes(info); !notes.empty()) out += notes + "\n\n";
    if (info.parameters.empty()) continue;
    out += "| parameter | default | range | unit | meaning |\n|---|---|---|---|---|\n";
    for (const ParameterInfo& parameter : info.parameters) {
      out += "| `" + std::string(parameter.name) + "` | " + parameter_value(parameter, parameter.default_value) +
             " | " + parameter_range(parameter) + " | " + std::string(parameter.unit) + " | " +
             cell(parameter.definition) + " |\n";
    }
  }
  out += kDensitySection;
  out += kAllocationSection;
  out += kPooledSection;
  return out;
}

}  // namespace kvscope
