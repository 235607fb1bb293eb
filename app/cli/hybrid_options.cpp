#include "app/cli/hybrid_options.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <set>

#include "app/support/split.h"
#include "app/support/usage.h"
#include "engine/core/study/measure/task_sets.h"

namespace kvscope::app {
namespace {

constexpr std::int64_t kMostPlanTokens = 1 << 24;

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
  const auto found = std::ranges::find(kSignalNames, text);
  if (found == std::end(kSignalNames))
    usage_error("--signal", "'" + text + "'", "density, oracle, output-error, nll, nll-alone or file:FOLDER");
  plan.signal = static_cast<SignalKind>(found - std::begin(kSignalNames));
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

void read_targets(const Arguments& arguments, HybridPlan& plan) {
  plan.overwrite = arguments.has("overwrite");
  plan.dry_run = arguments.has("dry-run");
  plan.output = arguments.text("o");
  if (plan.output.empty() && !plan.dry_run) usage_error("-o", "not given", "-o FILE.h5, or --dry-run");
  plan.keep_journal = arguments.has("journal");
  plan.journal = arguments.text("journal", plan.output + ".journal");
  plan.point = arguments.text("point");
  if (arguments.has("export") == plan.point.empty())
    usage_error(plan.point.empty() ? "--export" : "--point", "given alone", "--export FORMAT:PATH with --point LABEL");
  for (const std::string& text : arguments.texts("export"))
    plan.exports.push_back(parse_head_target(text, "--export", true));
}

}  // namespace

HybridPlan hybrid_plan(const Arguments& arguments, const EngineJobOptions& engine) {
  HybridPlan plan{.model = model_for(engine, arguments.positionals()[0]), .texts = arguments.texts("texts")};
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
  plan.tasks = expanded_tasks(split(arguments.text("tasks", ""), ','));
  const std::string again = arguments.text("again", "on");
  if (again != "on" && again != "off") usage_error("--again", "'" + again + "'", "on or off");
  plan.again = again == "on";
  read_signal(arguments.text("signal", "density"), plan);
  read_strategies(split(arguments.text("strategies", "a,b,c,d"), ','), plan);
  for (const std::string& text : split(arguments.text("shares", "10%,20%,30%,40%,50%"), ','))
    plan.shares.push_back(share_of(text));
  for (const std::string& text : split(arguments.text("seeds", "0,1,2"), ',')) plan.seeds.push_back(seed_of(text));
  if (plan.seeds.empty()) usage_error("--seeds", "none", "at least one, for strategy c");
  read_targets(arguments, plan);
  if (arguments.has("policy")) plan.policy = PolicySpec::parse(arguments.text("policy"));
  complete_plan(plan, engine);
  return plan;
}

}  // namespace kvscope::app
