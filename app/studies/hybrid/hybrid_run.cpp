#include "app/studies/hybrid/hybrid_run.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "app/support/usage.h"
#include "engine/core/files/gate/duo_directory.h"
#include "engine/core/support/error.h"

namespace kvscope::app {
namespace {

constexpr const char* kDenseRun = "dense";
constexpr const char* kLocal = "local";
constexpr const char* kGreedy = "greedy";
constexpr const char* kAgain = "d-again";
constexpr const char* kGate = "gate";
constexpr const char* kBudgets = "budgets";

HybridPoint point_of(const std::string& strategy, int count) {
  return {.strategy = strategy, .label = strategy + ":" + std::to_string(count), .count = count};
}

bool measures_again(const HybridPlan& plan) { return plan.again && !why_not_again(plan.signal); }

/// NLL that head `head` brings by being global, the others as `heads` has them.
double gain(HybridEngine& engine, GlobalHeads heads, std::size_t head, int piece) {
  heads[head] = 0;
  const double local = engine.hybrid_nll(heads, piece);
  heads[head] = 1;
  return local - engine.hybrid_nll(heads, piece);
}

/// [piece][head] of gain(). Head by head, so that the engine is given new heads as seldom as can be.
std::vector<HeadValues> gains(HybridEngine& engine, const GlobalHeads& heads) {
  std::vector<HeadValues> values(static_cast<std::size_t>(engine.n_pieces()), HeadValues(heads.size(), 0));
  for (int i = 0; i < engine.n_pieces(); ++i) engine.hybrid_nll(heads, i);
  for (std::size_t head = 0; head < heads.size(); ++head)
    for (int i = 0; i < engine.n_pieces(); ++i)
      values[static_cast<std::size_t>(i)][head] = gain(engine, heads, head, i);
  return values;
}

void check_tells_apart(const HeadSignal& signal) {
  const HeadValues mean = signal.mean();
  if (std::ranges::any_of(mean, [](double value) { return std::isnan(value); }))
    throw Error({.file = "signal " + signal.name, .found = "no value for some heads", .expected = "one for each head"});
  if (std::ranges::max(mean) > std::ranges::min(mean)) return;
  throw Error({.file = "signal " + signal.name,
               .found = "the same value for every head",
               .expected = "heads that differ; otherwise all heads tie",
               .hint = "use longer pieces, another signal, or strategies a, b and c"});
}

HeadSignal measured_signal(const HybridPlan& plan, HybridEngine& engine) {
  const auto n_heads = static_cast<std::size_t>(engine.shape().count());
  if (plan.signal == SignalKind::nll) return {plan.signal_text, gains(engine, GlobalHeads(n_heads, 1))};
  if (plan.signal == SignalKind::nll_alone) return {plan.signal_text, gains(engine, GlobalHeads(n_heads, 0))};
  if (plan.signal == SignalKind::file) return signal_of_file(plan, engine.shape());
  HeadSignal signal{plan.signal_text, {}};
  for (int i = 0; i < engine.n_pieces(); ++i) {
    signal.pieces.push_back(plan.signal == SignalKind::density  ? engine.density(i)
                            : plan.signal == SignalKind::oracle ? engine.oracle_mass_lost(i)
                                                                : engine.output_error(i));
  }
  return signal;
}

/// Heads in the order in which greedy takes them: from all local on, each round measures every head that is left global
/// besides those taken, and takes the best twentieth.
std::vector<int> greedy_order(const HybridPlan& plan, HybridEngine& engine, int n_wanted) {
  const int n_heads = engine.shape().count();
  GlobalHeads heads(static_cast<std::size_t>(n_heads), 0);
  std::vector<int> order;
  for (int round = 1; static_cast<int>(order.size()) < n_wanted; ++round) {
    const int n_more = greedy_count(n_heads, round) - static_cast<int>(order.size());
    if (n_more == 0) continue;
    HeadValues gained(heads.size(), -std::numeric_limits<double>::infinity());
    for (std::size_t head = 0; head < heads.size(); ++head) {
      if (heads[head] != 0) continue;
      gained[head] = 0;
      GlobalHeads with = heads;
      with[head] = 1;
      for (int i = 0; i < plan.greedy_pieces; ++i) gained[head] -= engine.hybrid_nll(with, i);
    }
    const std::vector<int> best = ranking(gained);
    order.insert(order.end(), best.begin(), best.begin() + n_more);
    for (const int head : order) heads[static_cast<std::size_t>(head)] = 1;
  }
  return order;
}

class Study {
 public:
  Study(const HybridPlan& plan, HybridEngine& engine) : plan_(plan), engine_(engine) {}

  HybridStudy run(std::vector<HybridPoint> points) {
    study_.points = std::move(points);
    if (!plan_.tasks.empty()) engine_.dense_answers();  // first: tasks may not fit the length
    if (engine_.policy()) {
      study_.density.emplace(HeadSignal{"density", {}});
      for (int i = 0; i < engine_.n_pieces(); ++i) study_.density->pieces.push_back(engine_.density(i));
    }
    study_.signal = plan_.signal == SignalKind::density ? *study_.density : measured_signal(plan_, engine_);
    check_tells_apart(study_.signal);
    values_ = study_.signal.mean();
    int n_greedy = 0;
    for (const HybridPoint& point : study_.points)
      if (point.strategy == kGreedy) n_greedy = std::max(n_greedy, point.count);
    greedy_ = greedy_order(plan_, engine_, n_greedy);
    for (HybridPoint& point : study_.points) measure(point);
    return std::move(study_);
  }

 private:
  GlobalHeads chosen(const HeadValues& values, ChoiceRule rule, const HybridPoint& point) const {
    return choose_global(engine_.shape(), values,
                         {.rule = rule, .n_global = point.count, .seed = point.seed.value_or(0), .cap = plan_.cap});
  }

  GlobalHeads heads_of(const HybridPoint& point) const {
    const auto n_heads = static_cast<std::size_t>(engine_.shape().count());
    if (point.strategy == kDenseRun) return GlobalHeads(n_heads, 1);
    if (point.strategy == kLocal) return GlobalHeads(n_heads, 0);
    if (point.strategy == kAgain) return chosen(again_of(point.count).again, ChoiceRule::d, point);
    if (point.strategy == kGreedy) {
      GlobalHeads heads(n_heads, 0);
      for (int i = 0; i < point.count; ++i) heads[static_cast<std::size_t>(greedy_[static_cast<std::size_t>(i)])] = 1;
      return heads;
    }
    const auto rule = static_cast<ChoiceRule>(std::ranges::find(kChoiceRules, point.strategy) - kChoiceRules);
    return chosen(values_, rule, point);
  }

  /// The point of d of which one is chosen again.
  const HybridPoint& again_of(int count) const {
    return *std::ranges::find(study_.points, "d:" + std::to_string(count), &HybridPoint::label);
  }

  void measure_budgets(HybridPoint& point) {
    point.shares = proportional_shares(values_, point.count);
    HeadSignal kept;
    for (int i = 0; i < engine_.n_pieces(); ++i) {
      HybridEngine::BudgetReading reading = engine_.read_budgets(point.shares, i);
      point.nll.push_back(reading.nll);
      kept.pieces.push_back(std::move(reading.kept));
    }
    point.kept = kept.mean();
  }

  void measure(HybridPoint& point) {
    if (point.strategy == kBudgets) return measure_budgets(point);
    const bool is_gated = point.strategy == kGate;
    if (!is_gated) point.heads = heads_of(point);
    for (int i = 0; i < engine_.n_pieces(); ++i) {
      point.nll.push_back(is_gated                      ? engine_.gated_nll(i)
                          : point.strategy == kDenseRun ? engine_.dense_nll(i)
                                                        : engine_.hybrid_nll(point.heads, i));
    }
    if (!plan_.tasks.empty())
      point.answers = is_gated                      ? engine_.gated_answers()
                      : point.strategy == kDenseRun ? engine_.dense_answers()
                                                    : engine_.hybrid_answers(point.heads);
    if (point.strategy == kChoiceRules[static_cast<int>(ChoiceRule::d)]) look_again(point);
  }

  /// Of d: how far the choice depends on the piece, and on the other heads being global while it was measured.
  void look_again(HybridPoint& point) {
    std::vector<GlobalHeads> by_piece;
    for (const HeadValues& values : study_.signal.pieces) by_piece.push_back(chosen(values, ChoiceRule::d, point));
    point.turnover_pieces = mean_turnover(by_piece);
    if (!measures_again(plan_)) return;
    HeadSignal again{plan_.signal_text, {}};
    if (plan_.signal == SignalKind::density) {
      for (int i = 0; i < engine_.n_pieces(); ++i) again.pieces.push_back(engine_.density_under(point.heads, i));
    } else {
      again.pieces = gains(engine_, point.heads);
    }
    point.again = again.mean();
    point.turnover_again = turnover(point.heads, chosen(point.again, ChoiceRule::d, point));
  }

  const HybridPlan& plan_;
  HybridEngine& engine_;
  HybridStudy study_;
  HeadValues values_;
  std::vector<int> greedy_;
};

}  // namespace

HeadSignal signal_of_file(const HybridPlan& plan, const HeadShape& shape) {
  const HeadSelection heads = import_duo(plan.signal_folder);
  if (heads.n_layers != shape.n_layers || heads.n_kv_heads != shape.n_kv_heads)
    throw Error({.file = plan.signal_folder,
                 .found = std::to_string(heads.n_layers) + " x " + std::to_string(heads.n_kv_heads) + " heads",
                 .expected = std::to_string(shape.n_layers) + " x " + std::to_string(shape.n_kv_heads) +
                             " (layers x KV heads), the model's"});
  return {plan.signal_text, {HeadValues(heads.full.begin(), heads.full.end())}};
}

std::optional<std::string> why_not_again(SignalKind signal) {
  switch (signal) {
    case SignalKind::density:
    case SignalKind::nll:
    case SignalKind::nll_alone:
      return std::nullopt;
    case SignalKind::oracle:
      return "the oracle uses a dense pass, whichever heads are local";
    case SignalKind::output_error:
      return "a global head has no output error, so it cannot be compared with a local one";
    case SignalKind::file:
      return "a file is not measured";
  }
  return std::nullopt;
}

std::vector<HybridPoint> planned_points(const HybridPlan& plan, const HeadShape& shape,
                                        const std::vector<int>& counts) {
  std::vector<HybridPoint> points = {{.strategy = kDenseRun, .label = kDenseRun, .count = shape.count()},
                                     {.strategy = kLocal, .label = kLocal}};
  if (plan.policy) points.push_back({.strategy = kGate, .label = kGate});
  for (const ChoiceRule rule : plan.rules) {
    const std::string name(kChoiceRules[static_cast<std::size_t>(rule)]);
    if (const std::optional<int> own = own_count(rule, shape)) {
      points.push_back(point_of(name, *own));
      continue;
    }
    for (const int count : counts) {
      points.push_back(point_of(name, count));
      if (rule != ChoiceRule::c) continue;
      points.pop_back();
      for (const std::uint64_t seed : plan.seeds) {
        points.push_back(point_of(name, count));
        points.back().label += ":" + std::to_string(seed);
        points.back().seed = seed;
      }
    }
  }
  if (plan.greedy)
    for (const int count : counts) points.push_back(point_of(kGreedy, count));
  if (plan.budgets)
    for (const int count : counts) points.push_back(point_of(kBudgets, count));
  const bool has_d = std::ranges::find(plan.rules, ChoiceRule::d) != plan.rules.end();
  if (has_d && measures_again(plan))
    for (const int count : counts) points.push_back(point_of(kAgain, count));
  return points;
}

std::string label_of(const std::string& point, const std::vector<HybridPoint>& points, const HeadShape& shape) {
  std::string label = point;
  const std::size_t colon = point.find(':');
  double share = -1;
  if (colon != std::string::npos && point.find_first_of(".%") != std::string::npos) {
    const char* end = point.data() + point.size() - (point.ends_with('%') ? 1 : 0);
    const auto read = std::from_chars(point.data() + colon + 1, end, share);
    if (read.ec == std::errc() && read.ptr == end)
      label = point.substr(0, colon + 1) +
              std::to_string(std::lround((point.ends_with('%') ? share / 100 : share) * shape.count()));
  }
  std::string list;
  for (const HybridPoint& there : points) {
    if (there.strategy == kGate || there.strategy == kBudgets) continue;  // no choice of heads
    if (there.label == label) return label;
    list += (list.empty() ? "" : ", ") + there.label;
  }
  usage_error("--point", "'" + point + "'", "a point of this study: " + list);
}

int n_passes(const HybridPlan& plan, const HeadShape& shape, int n_pieces, const std::vector<HybridPoint>& points) {
  const int n_heads = shape.count();
  int of_signal = plan.policy ? 1 : 0;  // density, which coverage needs in any case
  int n = 0;
  if (plan.signal == SignalKind::oracle || plan.signal == SignalKind::output_error) of_signal += 2;
  if (plan.signal == SignalKind::nll || plan.signal == SignalKind::nll_alone) of_signal += n_heads + 1;
  n += (of_signal + static_cast<int>(points.size())) * n_pieces;
  int most = 0, n_again = 0;
  for (const HybridPoint& point : points) {
    if (point.strategy == kGreedy) most = std::max(most, point.count);
    n_again += point.strategy == kAgain;
    n += point.strategy == kBudgets ? n_pieces : 0;  // two readings each
  }
  for (int round = 1, taken = 0; taken < most; taken = greedy_count(n_heads, round++))
    if (greedy_count(n_heads, round) > taken) n += (n_heads - taken) * plan.greedy_pieces;
  return n + n_again * n_pieces * (plan.signal == SignalKind::density ? 1 : n_heads + 1);
}

HybridStudy run_hybrid(const HybridPlan& plan, HybridEngine& engine, std::vector<HybridPoint> points) {
  return Study(plan, engine).run(std::move(points));
}

}  // namespace kvscope::app
