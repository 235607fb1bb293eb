// What the map and the head board ask of the session: a metric that varies, and a hybrid of chosen heads measured.

#include <algorithm>
#include <cmath>
#include <exception>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "app/session/obstacles.h"
#include "app/session/session.h"
#include "app/support/usage.h"
#include "engine/core/study/measure/common_oracle.h"
#include "views/figure/layer_head_map_figure.h"
#include "views/figure/token_facts.h"

namespace kvscope::app {

namespace {

// Under one budget for all heads the first one may keep everything: the head of the median density among those that evict,
// if the first evicts nothing.
std::optional<views::KvHead> evicting_head(const RunRecord& run) {
  const HeadMap density = head_metric(run, Metric::density, run.queries() - 1);
  if (density.values.empty() || !(density.values[0] == 1)) return {};
  const auto of = [&](int head) { return density.values[static_cast<std::size_t>(head)]; };
  std::vector<int> evicting;
  for (int head = 0; head < static_cast<int>(density.values.size()); ++head)
    if (of(head) < 1) evicting.push_back(head);
  if (evicting.empty()) return {};
  std::ranges::stable_sort(evicting, {}, of);
  const int head = evicting[evicting.size() / 2];
  return views::KvHead{head / density.n_kv_heads, head % density.n_kv_heads};
}

// Two runs are compared by what a larger budget does not raise of itself.
bool compares_by_oracle(const RunRecord& a, const RunRecord& b) {
  return views::same_shape(a, b) && !a.future_mass.empty() && !b.future_mass.empty();
}

/// What the map opens on: beside B recall above chance, by one oracle for both, where it has a value; of A alone what varies.
Metric opening_metric(const RunRecord& a, const RunRecord* b, Metric now) {
  if (b != nullptr && compares_by_oracle(a, *b)) {
    const std::int32_t q = std::min(a.queries(), b->queries()) - 1;
    const auto common = CommonOracle::of(a, *b);
    const auto has_value = [&](const RunRecord& run) {
      const HeadMap map =
          common ? common->metric(run, Metric::above_chance, q) : head_metric(run, Metric::above_chance, q);
      return std::ranges::any_of(map.values, [](float value) { return !std::isnan(value); });
    };
    if (has_value(a) || has_value(*b)) return Metric::above_chance;
  }
  return views::varying_metric(a, now == Metric::above_chance ? Metric::density : now);
}

}  // namespace

// A run whose recall costs less than a frame is looked at here, so that who waits for its end (a script that exports its
// map) finds the metric settled; a longer one beside the window.
void Session::suggest_metric() {
  constexpr int kAtOnce = 1 << 16;  // lifetimes: 1.2 ms on one busy core
  if (!a()) return;
  const auto run = a()->run, other = b() ? b()->run : nullptr;
  const bool wants_head = !head_was_shown_, wants_metric = !selection_.metric_chosen;
  if (!wants_head && !wants_metric) return;
  const auto look = [run, other, wants_head, wants_metric, now = selection_.metric] {
    return std::pair(wants_head ? evicting_head(*run) : std::nullopt,
                     wants_metric ? opening_metric(*run, other.get(), now) : now);
  };
  const auto show = [this, run, now = selection_.metric](const std::pair<std::optional<views::KvHead>, Metric>& found) {
    if (!a() || a()->run != run) return;
    show_evicting_head(found.first);
    if (!selection_.metric_chosen && selection_.metric == now) show_metric(found.second);
  };
  // Beside B every query of every head is looked at.
  const int looks = std::max(1, run->n_tokens()) * (other ? 20 : 1);
  if (run->evict_at.n_layers() * run->evict_at.n_kv_heads() <= kAtOnce / looks) return show(look());
  background_.post([look, show]() -> Worker::Finish { return [show, found = look()] { show(found); }; },
                   [this](const std::string& text) { messages_.log("no metric chosen: " + text); });
}

// Whoever has looked at no head yet, and at no token, sees the policy at work. Once: the choice is theirs then.
void Session::show_evicting_head(std::optional<views::KvHead> head) {
  if (std::exchange(head_was_shown_, true) || !head) return;
  if (selection_.layer > 0 || selection_.kv_head > 0 || selection_.token >= 0) return;
  selection_.layer = head->layer, selection_.kv_head = head->kv_head;
  revision_.rise();
}

// The colour range was that of the metric before.
void Session::show_metric(Metric metric) {
  if (metric == selection_.metric) return;
  views::choose_metric(selection_, metric);
  selection_.metric_chosen = false;  // by a person
  revision_.rise();
}

std::string Session::why_not_measure_heads() const {
  if (!a() || a()->run->n_tokens() == 0) return "There is no run A to replay.";
  if (run_in_progress()) return "A run is in progress.";
  if (measuring_) return "The heads are loading.";
  if (!engine_.model()) return "No model is open. Open A's model first.";
  return why_not_of_a(*this);
}

void Session::measure_heads(const std::string& folder) {
  if (const std::string why = why_not_measure_heads(); !why.empty()) usage_error("heads", why);
  measuring_ = true;
  const std::string model = engine_.model_path();
  files_.in_background("measure heads " + folder, [this, folder, model]() -> Worker::Finish {
    GateFacts facts;
    std::exception_ptr unreadable;
    try {
      facts = read_gate({std::filesystem::path(folder).filename().string(), folder, KnownGate::Origin::shipped}, model);
    } catch (...) {
      unreadable = std::current_exception();
    }
    return [this, facts, model, unreadable] {
      measuring_ = false;
      if (unreadable) std::rethrow_exception(unreadable);
      if (model != engine_.model_path() || run_in_progress() || !a()) return;  // something else was begun meanwhile
      if (!facts.fits())
        throw Error({.file = facts.gate.name, .found = "these heads do not fit the model: " + facts.misfit});
      const std::string path = facts.gate.path.string();
      if (added_to_ != model) added_gates_.clear(), added_to_ = model;
      gates_.add(facts);
      const auto with_these_alone = [&](const std::vector<std::string>& given) {
        // A board that an earlier start has loaded is none that was found here.
        std::vector<std::string> gates = gates_.with(facts, given);
        std::erase_if(gates, [&](const std::string& other) {
          return other != path &&
                 std::filesystem::path(other).parent_path() == std::filesystem::path(path).parent_path();
        });
        return gates;
      };
      const auto wanted = with_these_alone(engine_.gates_to_load());
      added_gates_ = with_these_alone(added_gates_);
      measured_run_ = a()->id;
      if (wanted == engine_.gates_to_load()) return;  // poll() begins
      engine_.set_gates(wanted);
      engine_.load(model);
    };
  });
}

// Once the engine has read the heads; not if A became another run, or the model could not be loaded.
void Session::begin_measuring() {
  if (measured_run_ == 0 || engine_.state() == EngineState::loading || engine_.state() == EngineState::starting) return;
  const int id = std::exchange(measured_run_, 0);
  if (engine_.state() != EngineState::ready || run_in_progress() || !a() || a()->id != id) return;
  const PolicySpec policy = PolicySpec::parse("hybrid:heads=d");
  set_policy(policy);  // else the preview of another one would take B's place
  replay(policy);
}

}  // namespace kvscope::app
