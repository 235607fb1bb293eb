#include "engine/core/study/measure/oracle.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace kvscope {
namespace {

constexpr double kEpsilon = 1e-6;  // inside the logarithm (KVpop eq. 3)
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// The recorded series of a mass and weight; sum is made of the mean. Null if it was not recorded.
const HeadSeries<float>* series_of(const RunRecord& run, OracleMass mass, bool by_output) {
  const HeadSeries<float>* series = nullptr;
  switch (mass) {
    case OracleMass::mean:
    case OracleMass::sum:
      series = by_output ? &run.future.output_mean : &run.future_mass;
      break;
    case OracleMass::rms:
      series = by_output ? &run.future.output_rms : &run.future.rms;
      break;
    case OracleMass::max:
      series = by_output ? &run.future.output_max : &run.future.max;
      break;
  }
  return series->empty() ? nullptr : series;
}

int horizon_of(const RunRecord& teacher) {
  const int known = teacher.future_mass.empty() ? 0 : static_cast<int>(teacher.future_mass.row(0, 0).size());
  return teacher.oracle_horizon > 0 ? std::min(teacher.oracle_horizon, known) : known;
}

/// Queries that look at token t after it has left the teacher's window.
double n_later(const RunRecord& teacher, int horizon, int t) {
  const int all = std::max(1, horizon - (t + teacher.geometry().window));
  return teacher.oracle.look_ahead == 0 ? all : std::min(all, teacher.oracle.look_ahead + 1);
}

/// Effects of all tokens below the horizon; empty if what they are made of was not recorded.
HeadSeries<float> effects_of(const RunRecord& teacher, const OracleSpec& spec, int horizon) {
  const HeadSeries<float>* mass = series_of(teacher, spec.mass, spec.weight == OracleWeight::output);
  const HeadSeries<float>& norm = teacher.future.value_norm;
  const bool by_value = spec.weight == OracleWeight::value;
  if (mass == nullptr || (by_value && norm.empty())) return {};
  HeadSeries<float> effects(mass->n_layers(), mass->n_kv_heads());
  for (int layer = 0; layer < mass->n_layers(); ++layer) {
    for (int head = 0; head < mass->n_kv_heads(); ++head) {
      std::vector<float>& row = effects.row(layer, head);
      const std::vector<float>& from = mass->row(layer, head);
      row.assign(from.begin(),
                 from.begin() + std::min<std::ptrdiff_t>(horizon, static_cast<std::ptrdiff_t>(from.size())));
      for (std::size_t t = 0; t < row.size(); ++t) {
        if (spec.mass == OracleMass::sum)
          row[t] = static_cast<float>(row[t] * n_later(teacher, horizon, static_cast<int>(t)));
        if (by_value) row[t] *= t < norm.row(layer, head).size() ? norm.row(layer, head)[t] : kNaN;
      }
    }
  }
  return effects;
}

}  // namespace

bool Oracle::Candidate::operator<(const Candidate& other) const {
  if (priority != other.priority) return priority > other.priority;
  return t != other.t ? t < other.t : head < other.head;
}

Oracle::Oracle(const RunRecord& run, const OracleSpec& spec) : run_(run), spec_(spec) {
  if (run.ids.empty() || run.evict_at.empty() || run.future_mass.empty()) return;
  const RetentionGeometry geometry = run.geometry();
  n_sink_ = geometry.n_sink;
  window_ = geometry.window;
  decays_.push_back({0, geometry.log_gamma, geometry.decay_stride, !run.log_gamma().empty()});
  for (const PolicyChange& change : run.changes) {
    const RetentionGeometry changed = change.policy.geometry(run.n_positions);
    const bool learned = decays_[0].learned && change.policy.value("decay") == run.policy.value("decay");
    decays_.push_back({change.q, changed.log_gamma, changed.decay_stride, learned});
  }
  const int horizon = horizon_of(run);
  n_queries_ = std::min(run.queries(), horizon);
  if (spec.budget) stated_ = std::max(0, spec.budget_tokens(run.n_positions) - n_sink_ - window_);
  effect_ = effects_of(run, spec, horizon);
}

Oracle::Oracle(const RunRecord& run, const OracleSpec& spec, const RunRecord& teacher, int n_sink, int window,
               std::array<const RunRecord*, 2> pair)
    : run_(run), spec_(spec), n_sink_(n_sink), window_(window), pair_(pair), decays_{{0, 0, 1}} {
  if (run.ids.empty() || run.evict_at.empty() || teacher.future_mass.empty()) return;
  const int horizon = horizon_of(teacher);
  n_queries_ = std::min(run.queries(), horizon);
  if (spec.budget) stated_ = std::max(0, spec.budget_tokens(run.n_positions) - n_sink - window);
  effect_ = effects_of(teacher, spec, horizon);
}

std::span<const std::int32_t> Oracle::lifetimes(int head) const {
  return run_.evict_at.row(head / run_.model.n_kv_heads, head % run_.model.n_kv_heads);
}

/// Of a run that has ended well, a token whose fate is open saw no query behind its window.
bool Oracle::is_counted(std::span<const std::int32_t> evict_at, std::int32_t t) const {
  if (t >= static_cast<std::int32_t>(evict_at.size())) return false;
  const bool open = run_.status == RunStatus::running || run_.status == RunStatus::failed;
  return open || evict_at[t] != kUndecided;
}

const Oracle::Decay& Oracle::decay_at(std::int32_t q) const {
  return *std::find_if(decays_.rbegin(), decays_.rend(), [q](const Decay& decay) { return decay.from <= q; });
}

float Oracle::effect(int layer, int kv_head, std::int32_t t) const {
  const std::vector<float>& row = effect_.row(layer, kv_head);
  return static_cast<std::size_t>(t) < row.size() ? row[t] : kNaN;
}

std::vector<double> Oracle::targets(int layer, int kv_head) const {
  const std::vector<float>& row = effect_.row(layer, kv_head);
  std::vector<double> targets(row.size());
  // In float32 first: the scores of the same oracle as a policy are float32, and ties must be the same ones.
  std::ranges::transform(row, targets.begin(),
                         [](float effect) { return std::log(static_cast<float>(kEpsilon) + effect); });
  return targets;
}

int Oracle::capacity(int kept, int eligible) const { return stated_ < 0 ? kept : std::min(eligible, stated_); }

int Oracle::gather(int head, std::int32_t q, std::vector<Candidate>& candidates) const {
  const std::span<const std::int32_t> evict_at = lifetimes(head);
  const std::vector<float>& effect = effect_.row(head / run_.model.n_kv_heads, head % run_.model.n_kv_heads);
  const Decay& decay = decay_at(q);
  int kept = 0;
  const auto end = std::min<std::int32_t>(q - window_ + 1, static_cast<std::int32_t>(effect.size()));
  for (std::int32_t t = n_sink_; t < end; ++t) {
    if (std::isnan(effect[t]) || !is_counted(evict_at, t)) continue;
    const double target = std::log(static_cast<float>(kEpsilon) + effect[t]);
    candidates.push_back({target + static_cast<double>((q - t) / decay.stride) * log_gamma(decay, head), t, head});
    kept += visible(q, t, evict_at[t]);
  }
  return kept;
}

Oracle::Pool Oracle::pool_at(int head, std::int32_t q) const {
  Pool pool;
  for (int other = spec_.pooled ? 0 : head; other < (spec_.pooled ? n_heads() : head + 1); ++other) {
    const std::size_t before = pool.eligible.size();
    const int kept = gather(other, q, pool.eligible);
    pool.capacity += capacity(kept, static_cast<int>(pool.eligible.size() - before));
  }
  std::nth_element(pool.eligible.begin(), pool.eligible.begin() + pool.capacity, pool.eligible.end());
  return pool;
}

// Counted when it is asked for: all heads of a long run are hundreds of megabytes.
std::int32_t Oracle::asked_from(int head) const {
  if (pair_[0] == nullptr) return 0;
  const int kv_heads = pair_[0]->evict_at.n_kv_heads();
  std::int32_t first = kNever;
  for (const RunRecord* run : pair_) {
    for (const std::int32_t at : run->evict_at.row(head / kv_heads, head % kv_heads))
      if (at < kUndecided) first = std::min(first, at);
  }
  return first;
}

OracleCounts Oracle::counts(int layer, int kv_head, std::int32_t q) const {
  OracleCounts counts;
  if (!is_known() || q < 0 || q >= n_queries_) return counts;
  const int head = flat(layer, kv_head);
  const std::span<const std::int32_t> evict_at = lifetimes(head);
  const Pool pool = pool_at(head, q);
  counts.pool = pool.capacity;
  for (std::size_t i = 0; i < pool.eligible.size(); ++i) {
    const Candidate& candidate = pool.eligible[i];
    if (candidate.head != head) continue;
    const double mass = effect(layer, kv_head, candidate.t);
    const bool kept = visible(q, candidate.t, evict_at[candidate.t]);
    ++counts.eligible;
    counts.eligible_mass += mass;
    if (kept) {
      ++counts.kept;
      counts.kept_mass += mass;
    }
    if (i < static_cast<std::size_t>(pool.capacity)) {
      ++counts.capacity;
      counts.hits += kept;
      counts.oracle_mass += mass;
    }
    if (candidate.t != 0) continue;
    counts.first_mass = mass;
    counts.keeps_first = kept;
  }
  counts.chosen = pool.is_choice() && counts.capacity > 0 && q >= asked_from(head);
  return counts;
}

std::vector<std::uint8_t> Oracle::keeps(int layer, int kv_head, std::int32_t q) const {
  std::vector<std::uint8_t> keeps(static_cast<std::size_t>(std::max(0, q + 1)), 0);
  if (!is_known() || q < 0 || q >= n_queries_) return keeps;
  const Pool pool = pool_at(flat(layer, kv_head), q);
  for (const Candidate& candidate : std::span(pool.eligible).first(static_cast<std::size_t>(pool.capacity))) {
    if (candidate.head == flat(layer, kv_head)) keeps[candidate.t] = 1;
  }
  return keeps;
}

OracleSet::OracleSet(const RunRecord& run, int layer, int kv_head, std::int32_t q) {
  const Oracle oracle(run);
  if (!oracle.is_known() || q >= oracle.n_queries()) return;
  chosen_ = oracle.counts(layer, kv_head, q).chosen;
  if (!chosen_) return;
  n_sink_ = oracle.n_sink();
  last_ = q - oracle.window();
  keeps_ = oracle.keeps(layer, kv_head, q);
}

void MeanOverPairs::add(const OracleCounts& counts) {
  if (const double kept = counts.mass_kept(); !std::isnan(kept)) sums_.mass_kept += kept, ++n_mass_;
  if (!counts.chosen) return;
  if (sums_.n == 0) first_capacity_ = counts.capacity;
  sums_.one_capacity = sums_.one_capacity && counts.capacity == first_capacity_;
  ++sums_.n;
  sums_.recall += counts.recall();
  sums_.chance += counts.chance();
  sums_.mass_recall += counts.mass_recall();
  sums_.capacity += counts.capacity;
}

OracleMean MeanOverPairs::value() const {
  OracleMean mean = sums_;
  const auto n = static_cast<double>(mean.n);
  for (double* sum : {&mean.recall, &mean.chance, &mean.mass_recall, &mean.capacity})
    *sum /= n;  // 0 / 0 is the NaN that no pair means
  mean.mass_kept /= static_cast<double>(n_mass_);
  return mean;
}

OracleMean mean_of(std::span<const OracleCounts> curve) {
  MeanOverPairs mean;
  for (const OracleCounts& counts : curve) mean.add(counts);
  return mean.value();
}

OracleMean mean_at(const Oracle& oracle, std::int32_t q) {
  MeanOverPairs mean;
  q = std::min(q, oracle.n_queries() - 1);
  for (int layer = 0; layer < oracle.n_layers(); ++layer) {
    for (int head = 0; head < oracle.n_kv_heads(); ++head) mean.add(oracle.counts(layer, head, q));
  }
  return mean.value();
}

OracleMean mean_of(const Oracle& oracle, std::int32_t q) {
  MeanOverPairs mean;
  if (oracle.is_known()) {
    for (const auto& curve : oracle.curves()) {
      const std::size_t n = std::min(curve.size(), static_cast<std::size_t>(std::max(q, -1) + std::int64_t{1}));
      for (const OracleCounts& counts : std::span(curve).first(n)) mean.add(counts);
    }
  }
  return mean.value();
}

}  // namespace kvscope
