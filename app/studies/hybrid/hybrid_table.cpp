#include "app/studies/hybrid/hybrid_table.h"

#include <algorithm>
#include <cmath>

#include "engine/core/study/measure/evaluation.h"

namespace kvscope::app {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

StudyColumn number(const char* name, const char* units, const std::string& meaning) {
  return {.name = name, .units = units, .meaning = meaning};
}
StudyColumn text(const char* name, const char* meaning) {
  return {.name = name, .units = "", .meaning = meaning, .is_text = true};
}

class Table {
 public:
  Table(const HybridStudy& study, const HybridEngine& engine)
      : study_(study), engine_(engine), n_heads_(engine.shape().count()) {
    if (study.density) density_ = study.density->mean();
    for (const HybridPoint& point : study.points) {
      if (point.strategy == "dense") dense_ = point.nll;
      has_answers_ = has_answers_ || point.answers.n > 0;
    }
  }

  std::vector<StudyColumn> columns() {
    add_names();
    add_sizes();
    add_nll();
    add_turnover();
    if (has_answers_) add_accuracy();
    return std::move(columns_);
  }

  std::vector<StudyArray> arrays() const {
    std::vector<StudyArray> arrays = {of_points("global_heads", "", "1: the head is global", [&](const HybridPoint& p) {
      return p.is_gated() ? none() : HeadValues(p.heads.begin(), p.heads.end());
    })};
    const std::vector<std::string> heads = {"layer", "kv_head"};
    arrays.push_back(
        of_signal("signal", study_.signal, "the signal on each piece; heads with greater values stay global first"));
    arrays.push_back(
        of_heads("signal_mean", "mean of signal over the pieces, by which heads are ordered", study_.signal.mean()));
    arrays.push_back(
        of_heads("signal_deviation", "standard deviation over the pieces, divisor n - 1", study_.signal.deviation()));
    if (study_.density && study_.signal.name != "density")
      arrays.push_back(of_heads("density_mean", "density under the gate's policy, mean over the pieces", density_));
    arrays.push_back(taus());
    arrays.push_back(nlls());
    if (std::ranges::any_of(study_.points, [](const HybridPoint& p) { return !p.shares.empty(); })) {
      arrays.push_back(of_points("budget", "", "for budgets: the share of its tokens that each head was to keep",
                                 [&](const HybridPoint& p) { return p.shares.empty() ? none() : p.shares; }));
      arrays.push_back(of_points(
          "budget_kept", "", "for budgets: the share that each head kept, counted as in density, mean over the pieces",
          [&](const HybridPoint& p) { return p.kept.empty() ? none() : p.kept; }));
    }
    bool any = false;
    for (const HybridPoint& point : study_.points) any = any || !point.again.empty();
    if (!any) return arrays;
    arrays.push_back(of_points("signal_again", "",
                               "the signal measured while the point's other heads are local, mean over the pieces",
                               [&](const HybridPoint& p) { return p.again.empty() ? none() : p.again; }));
    arrays.push_back(turnover_of_shares());
    return arrays;
  }

 private:
  /// Of a point whose heads are neither global nor local.
  const HeadValues& kept_of(const HybridPoint& point) const { return point.kept.empty() ? density_ : point.kept; }
  HeadValues none() const { return HeadValues(static_cast<std::size_t>(n_heads_), kNone); }

  template <typename Value>
  void add(StudyColumn column, const Value& value) {
    for (const HybridPoint& point : study_.points) {
      if constexpr (std::is_convertible_v<decltype(value(point)), double>) {
        column.numbers.push_back(value(point));
      } else {
        column.texts.push_back(value(point));
      }
    }
    columns_.push_back(std::move(column));
  }

  void add_names() {
    using Point = const HybridPoint&;
    add(text("point", "strategy:heads requested; for c also the seed"), [](Point p) { return p.label; });
    add(text(
            "strategy",
            "how the global heads were chosen; dense: all heads, local: none, gate: the gate's own policy, budgets: a share for each head"),
        [](Point p) { return p.strategy; });
    add(number("seed", "", "seed with which the heads of c were drawn"),
        [](Point p) { return p.seed ? static_cast<double>(*p.seed) : kNone; });
  }

  void add_sizes() {
    using Point = const HybridPoint&;
    const auto n_global = [](Point p) { return p.is_gated() ? kNone : count_of(p.heads); };
    add(number("n_global", "heads", "KV heads that keep everything"), n_global);
    add(number("share", "", "n_global / KV heads of the model"), [&](Point p) { return n_global(p) / n_heads_; });
    add(number("coverage", "", "long-range entries kept under the gate's policy in the global heads / in all heads"),
        [&](Point p) { return p.is_gated() || density_.empty() ? kNone : coverage(density_, p.heads); });
    add(number("density", "", "share of long-range tokens kept, mean over heads; measured for gate and budgets"),
        [&](Point p) {
          if (!p.is_gated()) return n_global(p) / n_heads_;
          double sum = 0;
          for (const double d : kept_of(p)) sum += d;
          return sum / n_heads_;
        });
    add(number("cache_bytes", "bytes",
               "bytes of keys and values at `context` tokens; for gate and budgets, at their density"),
        [&](Point p) {
          return p.is_gated() ? engine_.cache().bytes(kept_of(p)) : engine_.cache().bytes(count_of(p.heads), n_heads_);
        });
  }

  void add_interval(const std::string& name, const std::string& meaning,
                    const std::function<HeadValues(const HybridPoint&)>& sample) {
    const auto add_part = [&](const char* suffix, const char* what, double MeanInterval::*part) {
      add({.name = name + suffix, .units = "nats/token", .meaning = what + meaning},
          [&](const HybridPoint& p) { return mean_interval(sample(p)).*part; });
    };
    add_part("", "", &MeanInterval::mean);
    add_part("_se", "standard error over pieces of ", &MeanInterval::se);
    add_part("_low", "Student's 95 % interval of ", &MeanInterval::low);
    add_part("_high", "Student's 95 % interval of ", &MeanInterval::high);
  }

  void add_nll() {
    add_interval("nll", "mean negative log-probability, mean over pieces", [](const HybridPoint& p) { return p.nll; });
    add(number("nll_n", "", "number of pieces that nll averages"),
        [](const HybridPoint& p) { return static_cast<double>(p.nll.size()); });
    add_interval("nll_difference", "nll - that of the dense model on the same piece, mean over pieces",
                 [&](const HybridPoint& p) {
                   HeadValues pairs;
                   for (std::size_t i = 0; i < dense_.size(); ++i) pairs.push_back(p.nll[i] - dense_[i]);
                   return pairs;
                 });
  }

  void add_turnover() {
    add(number("turnover_pieces", "",
               "share of the heads that d chooses on one piece and not on another, mean over pairs"),
        [](const HybridPoint& p) { return p.turnover_pieces; });
    add(number("turnover_again", "",
               "share of d's heads that d would not choose by the signal measured under these heads"),
        [](const HybridPoint& p) { return p.turnover_again; });
  }

  void add_accuracy() {
    using Point = const HybridPoint&;
    const auto interval = [](Point p) {
      return p.answers.n > 0 ? wilson_95(p.answers.marks, p.answers.n) : Interval{kNone, kNone};
    };
    add(number("accuracy", "", "mean mark of the answers when decoded: 1 right, 0 wrong, or a share"),
        [](Point p) { return p.answers.marks / p.answers.n; });
    add(number("accuracy_low", "", "Wilson's 95 % interval of accuracy"), [&](Point p) { return interval(p).low; });
    add(number("accuracy_high", "", "Wilson's 95 % interval of accuracy"), [&](Point p) { return interval(p).high; });
    add(number("accuracy_n", "", "questions"), [](Point p) { return static_cast<double>(p.answers.n); });
  }

  StudyArray of_heads(const char* name, const std::string& meaning, const HeadValues& values) const {
    const HeadShape shape = engine_.shape();
    return {.name = name,
            .units = "",
            .meaning = meaning,
            .axes = {"layer", "kv_head"},
            .shape = {shape.n_layers, shape.n_kv_heads},
            .values = values};
  }

  StudyArray of_signal(const char* name, const HeadSignal& signal, const std::string& meaning) const {
    StudyArray array = of_heads(name, meaning, {});
    array.axes.insert(array.axes.begin(), signal.pieces.size() == dense_.size() ? "piece" : "file");
    array.shape.insert(array.shape.begin(), static_cast<std::int64_t>(signal.pieces.size()));
    for (const HeadValues& piece : signal.pieces) array.values.insert(array.values.end(), piece.begin(), piece.end());
    return array;
  }

  template <typename Values>
  StudyArray of_points(const char* name, const char* units, const std::string& meaning, const Values& values) const {
    StudyArray array = of_heads(name, meaning, {});
    array.units = units;
    array.axes.insert(array.axes.begin(), "point");
    array.shape.insert(array.shape.begin(), static_cast<std::int64_t>(study_.points.size()));
    for (const HybridPoint& point : study_.points) {
      const HeadValues of_point = values(point);
      array.values.insert(array.values.end(), of_point.begin(), of_point.end());
    }
    return array;
  }

  StudyArray taus() const {
    const auto& pieces = study_.signal.pieces;
    const auto n = static_cast<std::int64_t>(pieces.size());
    const std::string axis = pieces.size() == dense_.size() ? "piece" : "file";
    StudyArray array{.name = "kendall_tau",
                     .units = "",
                     .meaning = "Kendall's tau-b of the heads' order on two pieces",
                     .axes = {axis, axis + "_other"},
                     .shape = {n, n}};
    for (const HeadValues& a : pieces)
      for (const HeadValues& b : pieces) array.values.push_back(kendall_tau(a, b));
    return array;
  }

  StudyArray nlls() const {
    StudyArray array{
        .name = "piece_nll",
        .units = "nats/token",
        .meaning = "mean negative log-probability of each piece",
        .axes = {"point", "piece"},
        .shape = {static_cast<std::int64_t>(study_.points.size()), static_cast<std::int64_t>(dense_.size())}};
    for (const HybridPoint& point : study_.points)
      array.values.insert(array.values.end(), point.nll.begin(), point.nll.end());
    return array;
  }

  /// Between the choices of d that are made again: those of the first signal lie inside each other.
  StudyArray turnover_of_shares() const {
    std::vector<GlobalHeads> choices;
    for (const HybridPoint& point : study_.points)
      if (point.strategy == "d-again") choices.push_back(point.heads);
    const auto n = static_cast<std::int64_t>(choices.size());
    StudyArray array{.name = "turnover_shares",
                     .units = "",
                     .meaning = "share of d-again's heads at one count that it does not choose at another count",
                     .axes = {"count", "count_other"},
                     .shape = {n, n}};
    for (const GlobalHeads& a : choices)
      for (const GlobalHeads& b : choices) array.values.push_back(turnover(a, b));
    return array;
  }

  const HybridStudy& study_;
  const HybridEngine& engine_;
  int n_heads_;
  HeadValues density_, dense_;
  bool has_answers_ = false;
  std::vector<StudyColumn> columns_;
};

}  // namespace

StudyTable hybrid_table(const HybridStudy& study, const HybridEngine& engine, const nlohmann::ordered_json& request,
                        const nlohmann::ordered_json& facts) {
  Table table(study, engine);
  return {.kind = std::string(kHybridStudy),
          .request = request.dump(),
          .facts = facts.dump(),
          .columns = table.columns(),
          .arrays = table.arrays()};
}

}  // namespace kvscope::app
