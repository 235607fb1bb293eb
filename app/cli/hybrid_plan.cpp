#include "app/cli/hybrid_plan.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <set>

#include "app/cli/engine_job.h"
#include "app/cli/output.h"
#include "app/process/gates.h"
#include "engine/core/files/tokenizer/text_pieces.h"
#include "engine/core/policy/policy.h"
#include "engine/core/support/error.h"
#include "engine/core/support/file.h"
#include "engine/core/support/hash.h"
#include "engine/core/support/json_file.h"

namespace kvscope::app {
namespace {

constexpr std::size_t kMostText = std::size_t{1} << 30;
constexpr std::int64_t kMostPlanTokens = 1 << 24;
constexpr std::string_view kSignals[] = {"density", "oracle", "output-error", "nll", "nll-alone"};  // by their numbers

std::vector<std::string> list_of(const Arguments& arguments, std::string_view name, const std::string& fallback) {
  const std::string text = arguments.text(name, fallback);
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    if (end > at) parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

/// "0.3" or "30%".
double share_of(const std::string& text) {
  const bool percent = text.ends_with('%');
  const char* end = text.data() + text.size() - (percent ? 1 : 0);
  double value = 0;
  const auto read = std::from_chars(text.data(), end, value);
  if (percent) value /= 100;
  if (read.ec != std::errc() || read.ptr != end || !(value >= 0 && value <= 1))
    usage_error("--shares", "'" + text + "'", "shares from 0 to 1, or 0% to 100%, separated by commas");
  return value;
}

std::uint64_t seed_of(const std::string& text) {
  std::uint64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size() || value > INT32_MAX)
    usage_error("--seeds", "'" + text + "'", "whole numbers separated by commas");
  return value;
}

void read_signal(const std::string& text, HybridPlan& plan) {
  plan.signal_text = text;
  if (text.starts_with("file:") && text.size() > 5) {
    plan.signal = SignalKind::file;
    plan.signal_folder = text.substr(5);
    return;
  }
  const auto found = std::ranges::find(kSignals, text);
  if (found == std::end(kSignals))
    usage_error("--signal", "'" + text + "'", "density, oracle, output-error, nll, nll-alone or file:FOLDER");
  plan.signal = static_cast<SignalKind>(found - std::begin(kSignals));
}

constexpr std::string_view kStrategyNames = "a, b, c, d, capped, layers, greedy and budgets";

void read_strategies(const std::vector<std::string>& names, HybridPlan& plan) {
  std::set<ChoiceRule> rules;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(kChoiceRules, name);
    if (name == "greedy") {
      plan.greedy = true;
    } else if (name == "budgets") {
      plan.budgets = true;
    } else if (found == std::end(kChoiceRules)) {
      usage_error("--strategies", "'" + name + "'", std::string(kStrategyNames) + ", separated by commas");
    } else {
      rules.insert(static_cast<ChoiceRule>(found - std::begin(kChoiceRules)));
    }
  }
  plan.rules.assign(rules.begin(), rules.end());
  if (rules.empty() && !plan.greedy && !plan.budgets)
    usage_error("--strategies", "none", "at least one of " + std::string(kStrategyNames));
}

/// Whether the heads of its runs keep as many tokens as they like, by a score.
bool heads_may_differ(const PolicyInfo& info) { return info.needs_scorer && !info.has_budget; }

/// The first policy of the list whose gate was given, or else is known.
std::optional<PolicySpec> policy_with_gate(const Arguments& arguments, const std::string& model) {
  std::vector<KnownGate> gates;
  for (const std::string& text : arguments.texts("gate")) gates.push_back({text, gate_path(text, model), {}});
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

void read_policy(const Arguments& arguments, HybridPlan& plan) {
  if (arguments.has("policy")) {
    plan.policy = PolicySpec::parse(arguments.text("policy"));
    if (!heads_may_differ(policy_of(*plan.policy).info))
      usage_error("--policy", plan.policy->to_string(),
                  "a policy with a gate whose heads may keep different numbers of tokens",
                  "kvscope gates MODEL lists the model's gates and their policies");
  } else {
    plan.policy = policy_with_gate(arguments, plan.model);
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
  plan.gates = gate_arguments(arguments, plan.model, policies);
  if (plan.policy && !arguments.has("engine")) put_first(*plan.policy, plan);
}

/// A file in the way is told before hours of measuring, not after.
void check_export(const HeadTarget& target, bool overwrite, const std::vector<std::filesystem::path>& inputs) {
  std::vector<std::filesystem::path> files = {target.path};
  if (target.format->path == "FOLDER")
    files = {target.path / "full_attention_heads.tsv", target.path / "config.json", target.path / "study.json"};
  for (const auto& file : files) {
    std::error_code ignored;
    if (std::filesystem::exists(file, ignored)) writable_target(file, overwrite, inputs, kOverwriteHint);
  }
}

void read_targets(const Arguments& arguments, HybridPlan& plan) {
  plan.overwrite = arguments.has("overwrite");
  plan.dry_run = arguments.has("dry-run");
  plan.output = arguments.text("o");
  if (plan.output.empty() && !plan.dry_run) usage_error("-o", "not given", "-o FILE.h5, or --dry-run");
  plan.keep_journal = arguments.has("journal");
  plan.journal = arguments.text("journal", plan.output + ".journal");
  std::vector<std::filesystem::path> inputs(plan.texts.begin(), plan.texts.end());
  if (!plan.dry_run) {
    writable_target(plan.output, plan.overwrite, inputs, kOverwriteHint);
    inputs.emplace_back(plan.output);
    writable_target(plan.journal, true, inputs);
  }
  plan.point = arguments.text("point");
  if (arguments.has("export") == plan.point.empty())
    usage_error(plan.point.empty() ? "--export" : "--point", "given alone", "--export FORMAT:PATH with --point LABEL");
  for (const std::string& text : arguments.texts("export")) {
    plan.exports.push_back(parse_head_target(text, "--export", true));
    check_export(plan.exports.back(), plan.overwrite, inputs);
  }
}

}  // namespace

HybridPlan hybrid_plan(const Arguments& arguments) {
  HybridPlan plan{.model = model_argument(arguments, arguments.positionals()[0]), .texts = arguments.texts("texts")};
  if (plan.texts.empty()) usage_error("--texts", "not given", "--texts FILE");
  const auto whole = [&](const char* name, std::int64_t fallback, std::int64_t min, std::int64_t max) {
    return static_cast<int>(arguments.integer(name, fallback, min, max));
  };
  plan.pieces = whole("pieces", plan.pieces, 1, 100'000);
  plan.length = whole("length", plan.length, 16, kMostPlanTokens);
  plan.chunk = whole("chunk", plan.chunk, 1, kMostPlanTokens);
  plan.context = whole("context", 0, 1, 1 << 30);
  plan.cap = whole("cap", 0, 1, 1 << 16);
  plan.questions = whole("questions", plan.questions, 1, 100'000);
  plan.greedy_pieces =
      std::min(whole("greedy-pieces", 1, 1, 100'000), plan.pieces * static_cast<int>(plan.texts.size()));
  if (arguments.has("sinks")) plan.n_sink = whole("sinks", 0, 0, kMostPlanTokens);
  if (arguments.has("window")) plan.window = whole("window", 0, 1, kMostPlanTokens);
  if (arguments.has("bytes")) plan.most_bytes = arguments.real("bytes", 0, 0, 1e18);
  plan.tasks = list_of(arguments, "tasks", "");
  const std::string again = arguments.text("again", "on");
  if (again != "on" && again != "off") usage_error("--again", "'" + again + "'", "on or off");
  plan.again = again == "on";
  read_signal(arguments.text("signal", "density"), plan);
  read_strategies(list_of(arguments, "strategies", "a,b,c,d"), plan);
  for (const std::string& text : list_of(arguments, "shares", "10%,20%,30%,40%,50%"))
    plan.shares.push_back(share_of(text));
  for (const std::string& text : list_of(arguments, "seeds", "0,1,2")) plan.seeds.push_back(seed_of(text));
  if (plan.seeds.empty()) usage_error("--seeds", "none", "at least one, for strategy c");
  read_targets(arguments, plan);
  read_policy(arguments, plan);
  return plan;
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
