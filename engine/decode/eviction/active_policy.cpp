#include "engine/decode/eviction/active_policy.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "engine/core/policy/allocation.h"
#include "engine/core/policy/gates_of_model.h"
#include "engine/core/policy/run_problems.h"
#include "engine/scorer/loaded_model.h"
#include "engine/scorer/token_scorer.h"

namespace kvscope::engine {
namespace {

void check_window(const PolicySpec& spec, const RetentionGeometry& geometry, const TokenScorer& scorer) {
  const int delay = scorer.delay();
  if (goes_with_delay(geometry.window, scorer.kind(), delay)) return;
  throw Error(
      {.file = spec.to_string(),
       .where = "window",
       .found = std::to_string(geometry.window),
       .expected = fixes_window(scorer.kind(), delay)
                       ? std::to_string(delay) + ", the delay that this model's scorer was trained with"
                       : "at least " + std::to_string(delay) + ", because this gate looks that many tokens ahead",
       .hint = "write window=" + std::to_string(delay)});
}

const TokenScorer& scorer_for(const PolicySpec& spec, const LoadedModel& model) {
  const PolicyInfo& info = policy_of(spec).info;
  if (const TokenScorer* scorer = model.scorer(info.gates)) return *scorer;
  throw Error(
      {.file = spec.to_string(),
       .found = model.info().scorer.empty() ? "a model without any gate" : "a model with " + model.info().scorer,
       .expected = gate_kinds_in_words(info.gates),
       .hint =
           "load one with --gate PATH (docs/reference/gates.md); full, streaming and the attention policies need none"});
}

}  // namespace

ActivePolicy::ActivePolicy(const PolicySpec& spec, int n_positions, const LoadedModel& model, int forced_chunk,
                           FirstPass first)
    : model_(model),
      spec_(resolved(spec, model)),
      n_positions_(n_positions),
      forced_chunk_(forced_chunk),
      first_(std::move(first)),
      windows_(model.config().windows()),
      geometry_(spec_.geometry(n_positions)),
      plan_(make_plan(spec_, geometry_)) {
  if (plan_.source == ScoreSource::gate) {
    scorer_ = &scorer_for(spec_, model);
    check_window(spec_, geometry_, *scorer_);
  } else if (plan_.source == ScoreSource::random) {
    scorer_ = &model.random_scorer(plan_.seed);
  } else if (plan_.source == ScoreSource::future) {
    scorer_ = first_.future.get();
    if (scorer_ == nullptr) throw std::logic_error("ActivePolicy: future attention was not measured");
  }
}

PolicySpec ActivePolicy::resolved(const PolicySpec& asked, const LoadedModel& model) {
  return policy_on(asked, {model.config().n_layers, model.config().n_kv_heads}, model.gate_numbers());
}

RetentionPlan ActivePolicy::make_plan(const PolicySpec& spec, const RetentionGeometry& geometry) const {
  RetentionPlan plan = policy_of(spec).plan(spec, geometry);
  const LoadedGate* gate = has_learned_decay(spec) ? model_.gate(policy_of(spec).info.gates) : nullptr;
  const ModelConfig& config = model_.config();
  KnownHeads known{.n_layers = config.n_layers,
                   .n_kv_heads = config.n_kv_heads,
                   .alpha = model_.heads().alpha,
                   .thresholds = first_.thresholds,
                   .budgets = first_.budgets,
                   .windows = windows_};
  if (gate != nullptr) known.log_gamma = gate->log_gamma;
  try {
    plan.heads = head_rules(spec, geometry, plan, known);
  } catch (const std::invalid_argument&) {
    throw Error({.file = spec.to_string(),
                 .found = "a model without a head directory",
                 .expected = "full_attention_heads.tsv and config.json from DuoAttention or kvscope heads",
                 .hint = "load one with --gate FOLDER"});
  }
  if (forced_chunk_ > 0) plan.dense_prefill = false;
  return plan;
}

void ActivePolicy::check_change(const PolicySpec& spec, const RetentionGeometry& geometry, const RetentionPlan& plan,
                                const std::function<bool(const PolicySpec&)>& accepts) const {
  const auto refuse = [&](const std::string& what) {
    throw Error(
        {.code = ExitCode::usage,
         .file = "policy " + spec_.to_string(),
         .where = what,
         .found = spec.to_string(),
         .expected = "other values of threshold, decay, stride or drop, or a smaller budget, of the same policy",
         .hint = "stop the run and start it again"});
  };
  if (spec.name != spec_.name) refuse("name");
  if (geometry.n_sink != geometry_.n_sink) refuse("sinks");
  if (geometry.window != geometry_.window) refuse("window");
  const bool was_found = !first_.budgets.empty() || plan.allocation.by_score();
  if (geometry.top_k > geometry_.top_k || (was_found && geometry.top_k != geometry_.top_k)) refuse("budget");
  for (int head = 0; head < model_.config().n_layers * model_.config().n_kv_heads; ++head) {
    if (plan.of_head(geometry, head).top_k > plan_.of_head(geometry_, head).top_k) refuse("budget");
    if (plan.is_local(head) != plan_.is_local(head)) refuse("parameters");
  }
  RetentionPlan allowed = plan_;
  allowed.threshold = plan.threshold;
  if (plan.density == 0) allowed.density = 0, allowed.density_per_head = plan.density_per_head;
  allowed.heads = plan.heads;
  if (plan != allowed || !accepts(spec)) refuse("parameters");
}

void ActivePolicy::change(const PolicySpec& wanted, const std::function<bool(const PolicySpec&)>& accepts) {
  const PolicySpec spec = resolved(wanted, model_);
  if (spec.name != spec_.name) check_change(spec, geometry_, plan_, accepts);
  const RetentionGeometry geometry = spec.geometry(n_positions_);
  RetentionPlan plan = make_plan(spec, geometry);
  if (plan.allocation.by_score() && !plan_.heads.empty()) {  // what scores have found stays
    if (plan.heads.empty()) plan.heads.assign(plan_.heads.size(), kvscope::rule_of(geometry, plan.threshold));
    for (std::size_t i = 0; i < plan.heads.size(); ++i) plan.heads[i].top_k = plan_.heads[i].top_k;
  }
  check_change(spec, geometry, plan, accepts);
  spec_ = spec;
  geometry_ = geometry;
  plan_ = std::move(plan);
  ++version_;
}

int ActivePolicy::greatest_budget() const {
  if (plan_.heads.empty()) return geometry_.budget();
  return std::ranges::max(plan_.heads, {}, &HeadRule::budget).budget();
}

bool ActivePolicy::divides_budget() const {
  return plan_.allocation.by_score() || std::ranges::any_of(plan_.heads, [&](const HeadRule& head) {
           return head.locality != Locality::model && head.budget() != geometry_.budget();
         });
}

void ActivePolicy::set_places(int layer, const std::vector<int>& places) {
  const ModelConfig& config = model_.config();
  if (plan_.heads.empty())
    plan_.heads.assign(static_cast<std::size_t>(config.n_layers) * config.n_kv_heads,
                       kvscope::rule_of(geometry_, plan_.threshold));
  for (std::size_t head = 0; head < places.size(); ++head)
    plan_.heads[static_cast<std::size_t>(layer) * config.n_kv_heads + head].top_k = places[head];
  ++version_;
}

kernels::RetainRule ActivePolicy::rule(int layer) const {
  return is_local_layer(layer) ? kernels::RetainRule::window : rule();
}

kernels::RetainRule ActivePolicy::rule() const {
  switch (plan_.admission) {
    case Admission::keep:  // of a hybrid: a threshold that all scores reach, or none
      return treats_heads_apart() ? kernels::RetainRule::threshold : kernels::RetainRule::keep_all;
    case Admission::pooled:  // the method evicts
      return kernels::RetainRule::keep_all;
    case Admission::drop:
      return kernels::RetainRule::window;
    case Admission::threshold:
      return kernels::RetainRule::threshold;
    case Admission::top_k:
      return kernels::RetainRule::top_k;
    case Admission::least:
      return defers() ? kernels::RetainRule::keep_all : kernels::RetainRule::least;  // the method evicts then
  }
  throw std::logic_error("ActivePolicy: no such admission");
}

float ActivePolicy::threshold(int head) const {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (plan_.is_local(head)) return kInfinity;
  return plan_.admission == Admission::keep ? -kInfinity : plan_.threshold_of(head);
}

std::vector<float> ActivePolicy::solved_thresholds(const HeadSeries<float>& scores, int n_tokens) const {
  return solve_density(plan_, geometry_, scores, n_tokens, scorer_->delay());
}

std::vector<std::int32_t> ActivePolicy::solved_budgets(const HeadSeries<float>& scores, int n_tokens) const {
  std::vector<std::int32_t> budgets = solve_places(plan_, geometry_, scores, n_tokens, scorer_->delay());
  for (std::int32_t& budget : budgets) budget += geometry_.n_sink + geometry_.window;
  return budgets;
}

double ActivePolicy::error_of(std::span<const float> thresholds, const HeadSeries<float>& scores, int n_tokens) const {
  return density_error(plan_, geometry_, thresholds, scores, n_tokens, scorer_->delay());
}

int ActivePolicy::answer_slots() const {
  if (plan_.admission == Admission::least) {
    return std::min(greatest_budget() + std::max(1, forced_chunk_), n_positions_);
  }
  return plan_.has_fixed_budget() ? std::min(greatest_budget(), n_positions_) : n_positions_;
}

}  // namespace kvscope::engine
