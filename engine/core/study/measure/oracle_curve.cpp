#include "engine/core/study/measure/oracle_curve.h"

#include <optional>
#include <utility>

namespace kvscope {

static void add_curves(const Oracle& oracle, const std::vector<int>& pool,
                       std::vector<std::vector<OracleCounts>>& curves) {
  std::vector<OracleCounts> row(pool.size());
  for (const int head : pool)
    curves[static_cast<std::size_t>(head)].resize(static_cast<std::size_t>(oracle.n_queries()));
  OracleCurve::for_each_query(oracle, pool, [&](const OracleCurve& heads, std::int32_t q) {
    heads.read(row);
    for (std::size_t i = 0; i < pool.size(); ++i)
      curves[static_cast<std::size_t>(pool[i])][static_cast<std::size_t>(q)] = row[i];
  });
}

std::vector<std::vector<OracleCounts>> Oracle::curves() const {
  if (!is_known()) return {};
  std::vector<std::vector<OracleCounts>> curves(static_cast<std::size_t>(n_heads()));
  for (const std::vector<int>& pool : OracleCurve::pools(*this)) add_curves(*this, pool, curves);
  return curves;
}

std::vector<OracleCounts> Oracle::curve(int layer, int kv_head) const {
  if (!is_known()) return {};
  const int head = flat(layer, kv_head);
  if (spec_.pooled) return curves()[static_cast<std::size_t>(head)];
  std::vector<std::vector<OracleCounts>> curves(static_cast<std::size_t>(n_heads()));
  add_curves(*this, {head}, curves);
  return curves[static_cast<std::size_t>(head)];
}

namespace {

/// Of what the capacity of the policy says nothing, an oracle of a quarter of the run does (METHODS: verdict).
constexpr OracleSpec::Budget kQuarter{0.25, true};

OracleSpec quarter_of(OracleSpec spec) {
  spec.budget = kQuarter;
  return spec;
}

bool leaves_from_behind_the_window(const Oracle& oracle, std::int32_t t, std::int32_t evict_at) {
  return evict_at < kUndecided && evict_at < oracle.n_queries() && t >= oracle.n_sink() &&
         t <= evict_at - oracle.window();
}

}  // namespace

VerdictOfEviction eviction_verdict(const RunRecord& run, int layer, int kv_head, std::int32_t t) {
  const std::vector<std::int32_t>& row = run.evict_at.row(layer, kv_head);
  const std::int32_t evict_at =
      static_cast<std::size_t>(t) < row.size() ? row[static_cast<std::size_t>(t)] : kUndecided;
  const Oracle own(run);
  if (!own.is_known() || !leaves_from_behind_the_window(own, t, evict_at)) return {};
  const auto judged = [&](const Oracle& oracle, bool by_quarter) -> VerdictOfEviction {
    const bool wrong = oracle.keeps(layer, kv_head, evict_at)[static_cast<std::size_t>(t)] != 0;
    return {wrong ? EvictionVerdict::wrong : EvictionVerdict::right, by_quarter};
  };
  if (own.counts(layer, kv_head, evict_at).pool > 0) return judged(own, false);
  if (run.oracle.budget) return {};
  const Oracle quarter(run, quarter_of(run.oracle));
  return quarter.counts(layer, kv_head, evict_at).pool > 0 ? judged(quarter, true) : VerdictOfEviction{};
}

namespace {

using Verdicts = std::vector<std::vector<VerdictOfEviction>>;

/// Of the pools that have the head, or of all of them: rows of other heads are empty.
Verdicts verdicts_of_pools(const RunRecord& run, std::optional<int> wanted) {
  const Oracle own(run);
  if (!own.is_known()) return {};
  const auto n_heads = static_cast<std::size_t>(run.model.n_layers) * static_cast<std::size_t>(run.model.n_kv_heads);
  Verdicts verdicts(n_heads);
  const auto judge = [&](const Oracle& oracle, bool by_quarter) {
    for (const std::vector<int>& pool : OracleCurve::pools(oracle)) {
      if (wanted && std::ranges::find(pool, *wanted) == pool.end()) continue;
      for (const int head : pool) verdicts[static_cast<std::size_t>(head)].resize(run.ids.size());
      std::vector<OracleCounts> row(pool.size());
      OracleCurve::for_each_query(oracle, pool, [&](const OracleCurve& heads, std::int32_t q) {
        bool has_read = false;
        heads.visit_evicted(q, [&](std::size_t i, std::int32_t t, bool keeps) {
          if (!has_read) heads.read(row);
          has_read = true;
          VerdictOfEviction& verdict = verdicts[static_cast<std::size_t>(pool[i])][static_cast<std::size_t>(t)];
          if (row[i].pool == 0 || (by_quarter && verdict.verdict != EvictionVerdict::unknown)) return;
          verdict = {keeps ? EvictionVerdict::wrong : EvictionVerdict::right, by_quarter};
        });
      });
    }
  };
  judge(own, false);
  if (!run.oracle.budget) judge(Oracle(run, quarter_of(run.oracle)), true);
  return verdicts;
}

}  // namespace

Verdicts eviction_verdicts(const RunRecord& run) { return verdicts_of_pools(run, std::nullopt); }

std::vector<VerdictOfEviction> eviction_verdicts(const RunRecord& run, int layer, int kv_head) {
  const int head = layer * run.model.n_kv_heads + kv_head;
  Verdicts verdicts = verdicts_of_pools(run, head);
  return verdicts.empty() ? std::vector<VerdictOfEviction>() : std::move(verdicts[static_cast<std::size_t>(head)]);
}

}  // namespace kvscope
