#include "app/studies/hybrid/hybrid_plan.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <set>

#include "app/catalog/gates.h"
#include "app/engine_client/engine_job.h"
#include "app/support/table_text.h"
#include "app/support/usage.h"
#include "engine/core/files/tokenizer/text_pieces.h"
#include "engine/core/policy/policy.h"
#include "engine/core/record/pipe_gate.h"
#include "engine/core/support/error.h"
#include "engine/core/support/file.h"
#include "engine/core/support/hash.h"
#include "engine/core/support/json_file.h"

namespace kvscope::app {
namespace {

constexpr std::size_t kMostText = std::size_t{1} << 30;

/// Whether the heads of its runs keep as many tokens as they like, by a score.
bool heads_may_differ(const PolicyInfo& info) { return info.needs_scorer && !info.has_budget; }

/// The first policy of the list whose gate was given, or else is known.
std::optional<PolicySpec> policy_with_gate(const EngineJobOptions& engine, const std::string& model) {
  std::vector<KnownGate> gates;
  for (const std::string& text : engine.gates) gates.push_back({text, gate_path(text, model), {}});
  if (gates.empty()) gates = known_gates(model);
  std::vector<std::string> kinds;
  for (const KnownGate& gate : gates) {
    const GateFacts facts = read_gate(gate, model);
    if (facts.fits() && facts.adapter.empty()) kinds.push_back(facts.kind);
  }
  for (const PolicyInfo& info : policy_list()) {
    if (!heads_may_differ(info) || info.gates.empty()) continue;
    const PolicySpec spec = PolicySpec::parse(info.name);
    if (std::ranges::any_of(kinds, [&](const std::string& kind) { return reads_gate(spec, kind); })) return spec;
  }
  return std::nullopt;
}

/// The policy's gate goes before all others: hybrid:on=threshold, under which a signal is measured again, reads the first that
/// is loaded, which may be one that lies beside the model.
void put_first(const PolicySpec& policy, HybridPlan& plan) {
  std::vector<std::string> paths = plan.gates;
  for (const KnownGate& gate : known_gates(plan.model)) paths.push_back(gate.path.string());
  const auto its = std::ranges::find_if(paths, [&](const std::string& path) {
    const GateFacts facts = read_gate({path, path, {}}, plan.model);
    return reads_gate(policy, facts.kind) && facts.fits();
  });
  if (its == paths.end()) return;  // the engine says what it misses
  const std::string path = *its;
  std::erase(plan.gates, path);
  plan.gates.insert(plan.gates.begin(), path);
}

void find_policy(const EngineJobOptions& engine, HybridPlan& plan) {
  // The study names its gates with hashes, so that it can be made again: a program has none.
  if (std::ranges::any_of(engine.gates, is_pipe))
    usage_error("--gate", "pipe:COMMAND", "a gate in a file: a study of heads records what its gates are");
  if (plan.policy) {
    if (!heads_may_differ(policy_of(*plan.policy).info))
      usage_error("--policy", plan.policy->to_string(),
                  "a policy with a gate whose heads may keep different numbers of tokens",
                  "kvscope gates MODEL lists the model's gates and their policies");
  } else {
    plan.policy = policy_with_gate(engine, plan.model);
  }
  if (!plan.policy && plan.signal == SignalKind::density)
    throw Error({.file = plan.model,
                 .found = "no gate of this model distinguishes heads",
                 .expected = "for the signal density, a gate in the model's folder, or --gate PATH or NAME",
                 .hint = "--signal oracle, output-error and nll need no gate"});
  if (plan.budgets && !(plan.policy && plan.policy->has("density_over")))
    usage_error("--strategies", "budgets" + (plan.policy ? " under " + plan.policy->to_string() : std::string()),
                "a policy whose gate keeps tokens by a threshold, so that each head can have its own");
  std::vector<PolicySpec> policies;
  if (plan.policy) policies.push_back(*plan.policy);
  plan.gates = gates_for(engine, plan.model, policies);
  if (plan.policy && !engine.is_elsewhere()) put_first(*plan.policy, plan);
}

/// A file in the way is reported before hours of measuring, not after.
void check_export(const HeadTarget& target, bool overwrite, const std::vector<std::filesystem::path>& inputs) {
  std::vector<std::filesystem::path> files = {target.path};
  if (target.format->path == "FOLDER")
    files = {target.path / "full_attention_heads.tsv", target.path / "config.json", target.path / "study.json"};
  for (const auto& file : files) {
    std::error_code ignored;
    if (std::filesystem::exists(file, ignored)) writable_target(file, overwrite, inputs, kOverwriteHint);
  }
}

void check_targets(const HybridPlan& plan) {
  std::vector<std::filesystem::path> inputs(plan.texts.begin(), plan.texts.end());
  if (!plan.dry_run) {
    writable_target(plan.output, plan.overwrite, inputs, kOverwriteHint);
    inputs.emplace_back(plan.output);
    writable_target(plan.journal, true, inputs);
  }
  for (const HeadTarget& target : plan.exports) check_export(target, plan.overwrite, inputs);
}

}  // namespace

void complete_plan(HybridPlan& plan, const EngineJobOptions& engine) {
  check_targets(plan);
  find_policy(engine, plan);
}

TextPieces cut_pieces(const HybridPlan& plan) {
  const std::optional<Tokenizer> tokenizer = tokenizer_of(plan.model);
  if (!tokenizer)
    throw Error({.file = plan.model,
                 .found = "the tokenizer cannot be read on this machine",
                 .expected = "a model on this machine"});
  TextPieces result;
  for (const std::string& path : plan.texts) {
    const std::string text = as_text(read_file(path, kMostText), path);
    CutText cut = cut_text(*tokenizer, text, plan.pieces, plan.length);
    if (cut.pieces.empty())
      throw Error({.code = ExitCode::usage,
                   .file = path,
                   .found = std::to_string(cut.n_tokens) + " tokens",
                   .expected = std::to_string(plan.pieces) + " pieces of " + std::to_string(plan.length),
                   .hint = "use fewer --pieces or a smaller --length"});
    std::ranges::move(cut.pieces, std::back_inserter(result.ids));
    result.inputs.push_back(std::filesystem::path(path).filename().string() + " " + hex_text(fnv1a64(text)));
  }
  return result;
}

std::vector<int> head_counts(const HybridPlan& plan, const HeadShape& shape, const CacheShape& cache) {
  std::set<int> counts;
  bool asks = plan.greedy || plan.budgets;  // whether a rule of the plan takes a number
  for (const ChoiceRule rule : plan.rules) {
    const std::optional<int> own = own_count(rule, shape);
    if (own) counts.insert(*own);
    asks = asks || !own;
  }
  if (!asks) return {};
  for (const double share : plan.shares) counts.insert(static_cast<int>(std::lround(share * shape.count())));
  if (plan.most_bytes) {
    const int most = cache.most_global(*plan.most_bytes, shape.count());
    if (most < 0)
      usage_error("--bytes", format_number(*plan.most_bytes, 9),
                  "at least " + format_number(cache.bytes(0, shape.count()), 9) + ", with every head local at " +
                      std::to_string(cache.context) + " tokens");
    counts.insert(most);
  }
  const bool is_capped = std::ranges::find(plan.rules, ChoiceRule::capped) != plan.rules.end();
  if (is_capped)  // which throws for what has no room
    choose_global(shape, HeadValues(static_cast<std::size_t>(shape.count()), 0),
                  {.rule = ChoiceRule::capped, .n_global = *counts.rbegin(), .cap = plan.cap});
  const int most_greedy = greedy_count(shape.count(), kGreedyRounds);
  if (plan.greedy && *counts.rbegin() > most_greedy)
    usage_error("--shares", std::to_string(*counts.rbegin()) + " heads for greedy",
                "at most " + std::to_string(most_greedy) + " of " + std::to_string(shape.count()) +
                    ", ten rounds of a twentieth of the heads");
  return {counts.begin(), counts.end()};
}

}  // namespace kvscope::app
