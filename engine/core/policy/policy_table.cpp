#include "engine/core/policy/policy_table.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "engine/core/policy/policy.h"
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
    return info.needs_scorer ? "Reads the first loaded gate of any kind, whose own numbers go before the defaults "
                               "(docs/reference/gates.md). "
                             : "";
  std::string kinds;
  for (const std::string_view gate : info.gates) kinds += (kinds.empty() ? "" : ", ") + std::string(gate);
  return "Reads a gate of kind " + kinds + ", whose own numbers go before the defaults (docs/reference/gates.md). ";
}

std::string prefill(const PolicyInfo& info) {
  const PolicySpec spec = PolicySpec::parse(info.name);
  const RetentionPlan plan = policy_of(spec).plan(spec, spec.geometry(4096));
  if (plan.keeps_everything()) return "";
  return plan.dense_prefill
             ? "A run's prompt is dense unless told otherwise: eviction begins after it. A text that is read (kvscope score) is "
               "under the policy from its first token on."
             : "The prompt is sparse: its queries see what the policy keeps.";
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
    "\n## Density\n\n`density=SHARE` in the place of `threshold` (both is an error): the share of tokens outside sinks and "
    "window that is to stay. The run solves for the threshold on the scores of its prompt, or of "
    "the whole of a text that is read under the policy from its first token on (`kvscope score`, `--chunk`), of "
    "`n_sink <= t < prompt length - window`, the tokens that have left the window when the prompt ends, those of all KV "
    "heads together (`density_over=model`: one threshold, so that heads differ in how much they keep) or of each head "
    "(`density_over=head`: a threshold of its own).\n\nThe threshold is that whose kept share is nearest to SHARE; of two "
    "equally near, that which keeps more. Scores that are equal stay or leave together, so that a gate that says 1 to half "
    "of its tokens keeps half, or none. It lies midway between the last score that stays and the first that leaves. Of a "
    "prompt shorter than sinks and window, all tokens outside the sinks whose score is known count: they will leave the "
    "window while the answer is written; without any the run is refused. Local heads of a hybrid count nowhere. A token "
    "with a score of NaN leaves.\n\nWhat is evicted in one layer changes the scores of those "
    "above. So the threshold is first solved on a dense pass over the prompt, then the prompt is read under it and it is "
    "solved again on the scores that it has so, until it keeps SHARE within half a percentage point, four times at most; "
    "the nearest stands. That is two to five passes over the prompt before the run's own. The answer's tokens are under the "
    "same threshold and may keep another share. What `pool` drops besides is not counted. The "
    "run says the thresholds it found (`kvscope run`, `score`, `inspect`, `runs/head_threshold` of a trace); written as "
    "`threshold=` one of all heads gives the same run without them. In `--change` a density can only be left for a "
    "threshold.\n";

/// What a budget is of all heads, for all policies that may share one.
constexpr std::string_view kPooledSection =
    "\n## Pooled budgets\n\n`capacity=pooled` gives the KV heads of a model one budget together: of all their tokens between "
    "sinks and window as many stay as `n_heads (budget - sinks - window)`, whichever head they are of. Those of least score, decay "
    "included, leave; of equals the older stays, then that of the lower layer, then of the lower head. A head may keep "
    "everything, and another nothing but sinks and window. Scores of different heads are compared as they are, so a scorer must "
    "have been trained for that, or by targets that are alike for all heads.\n\nWhat a head of the first layer keeps depends on "
    "scores of the last. So the pool is cut to size between two queries: before query q the tokens that lose are taken out "
    "of all heads, `evict_at = q`. Without `interval` a run's prompt is dense, and the first cut is before the answer's first token; in a text "
    "that is read from its first token on (`kvscope score`, `--chunk`) a cut is before every token, or every chunk. A score that "
    "comes only with the query at which its token leaves the window (KVpop's delayed scorers) is judged before the next "
    "query; until then the token is seen, and its place is kept free, so that at every query behind a cut the sum over the heads is "
    "within the pool.\n\nWith `interval=N` the pool is cut before the queries N, 2 N, ... of prompt and answer alike: the prompt passes "
    "N tokens at a time, as its tokens one by one would, a text that is read is the same run whatever `--chunk` says, and what "
    "happens in between finds its places free, N - 1 a head, so that the sum is within the pool at every query. A gate that was "
    "trained under a pool says so (`pool_interval`, docs/reference/gates.md), and its policy has both by default.\n\nPages that a head does not need any more serve the others.\n\nWith `budget = sinks + window` there "
    "is nothing to share. `what-if` previews a pool from recorded scores. Recall and chance go by what each head keeps at a query, "
    "few or many.\n";

std::string policy_notes(const PolicyInfo& info) { return needs(info) + prefill(info); }

std::string policy_document() {
  std::string out =
      "# Policies\n\nMade from the declarations in `engine/core/policy/`; `core_tests \"docs/policies.md*\"` compares, and "
      "with KVSCOPE_WRITE_DOCS=1 in the environment writes it.\n\nA policy is written `NAME:key=value,...`; a budget also "
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
  out += kPooledSection;
  return out;
}

}  // namespace kvscope
