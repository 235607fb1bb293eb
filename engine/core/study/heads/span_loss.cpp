#include "engine/core/study/heads/span_loss.h"

#include <algorithm>
#include <tuple>

#include "engine/core/study/heads/head_evictions.h"

namespace kvscope {
namespace {

const std::vector<VerdictOfEviction>* row_of(const RunRecord& run, const EvictionVerdicts& verdicts, int layer,
                                             int kv_head) {
  return verdicts.empty() ? nullptr : &verdicts[static_cast<std::size_t>(layer) * run.model.n_kv_heads + kv_head];
}

HeadSpan head_span(const RunRecord& run, int layer, int kv_head, const EvictionVerdicts& verdicts,
                   const SpanLoss& span) {
  const HeadEvictions rows(run, layer, kv_head, row_of(run, verdicts, layer, kv_head));
  HeadSpan head{.layer = layer, .kv_head = kv_head};
  std::int32_t last_left = -1;
  for (std::int32_t t = span.first; t <= span.last; ++t) {
    head.held_at_answer += visible(span.answer, t, rows.gone(t));
    if (!rows.is_evicted(t)) {
      ++head.held_at_end;
      continue;
    }
    const Eviction& eviction = head.evictions.emplace_back(rows.eviction(t));
    last_left = std::max(last_left, eviction.q);
    head.mass_lost += eviction.mass;
    head.judged += eviction.verdict != EvictionVerdict::unknown;
    head.wrong += eviction.verdict == EvictionVerdict::wrong;
    head.token_queries += run.queries() - eviction.q;
  }
  if (head.held_at_end == 0) head.gone_at = last_left;
  std::ranges::stable_sort(head.evictions, {}, &Eviction::q);  // they come by token
  return head;
}

void add(SpanLoss& all, HeadSpan head) {
  all.n_all += head.held_at_answer == all.read_at_answer;
  all.n_none += head.held_at_answer == 0;
  all.mass_lost += head.mass_lost;
  all.judged += head.judged, all.wrong += head.wrong;
  all.evicted += static_cast<std::int64_t>(head.evictions.size());
  all.token_queries += head.token_queries;
  all.heads.push_back(std::move(head));
}

/// Calls visit(layer, kv_head) for each head in which a policy decides.
template <typename Visit>
void each_decided_head(const RunRecord& run, Visit visit) {
  for (int layer = 0; layer < run.evict_at.n_layers(); ++layer) {
    for (int head = 0; head < run.evict_at.n_kv_heads(); ++head)
      if (!run.is_local_by_model(layer, head)) visit(layer, head);
  }
}

}  // namespace

SpanLoss span_loss(const RunRecord& run, std::int32_t first, std::int32_t last, const EvictionVerdicts& verdicts) {
  SpanLoss loss;
  const std::int32_t n = run.queries();
  loss.first = std::max(0, first), loss.last = std::min(last, n - 1);
  if (loss.last < loss.first) return loss;
  loss.answer = run.prompt_len < n && loss.first <= run.prompt_len ? run.prompt_len : n - 1;
  loss.read_at_answer = std::min(loss.last, loss.answer) - loss.first + 1;
  each_decided_head(run, [&](int layer, int head) { add(loss, head_span(run, layer, head, verdicts, loss)); });
  loss.bytes = static_cast<double>(run.model.bytes_of_token()) * static_cast<double>(loss.evicted);
  return loss;
}

std::vector<std::int32_t> span_held(const RunRecord& run, int layer, int kv_head, std::int32_t first,
                                    std::int32_t last) {
  const std::int32_t n = run.queries();
  std::vector<std::int32_t> held(static_cast<std::size_t>(n), 0);
  const HeadEvictions rows(run, layer, kv_head, nullptr);
  for (std::int32_t t = std::max(0, first); t <= std::min(last, n - 1); ++t) {
    ++held[static_cast<std::size_t>(t)];
    if (rows.is_evicted(t)) --held[static_cast<std::size_t>(rows.gone(t))];
  }
  for (std::size_t q = 1; q < held.size(); ++q) held[q] += held[q - 1];
  return held;
}

std::vector<Eviction> worst_misses(const RunRecord& run, const EvictionVerdicts& verdicts, int n) {
  std::vector<Eviction> worst;
  if (verdicts.empty() || n <= 0) return worst;
  const auto costs_more = [](const Eviction& a, const Eviction& b) {
    return std::tuple(-a.mass, a.t, a.layer, a.kv_head) < std::tuple(-b.mass, b.t, b.layer, b.kv_head);
  };
  each_decided_head(run, [&](int layer, int head) {
    const HeadEvictions rows(run, layer, head, row_of(run, verdicts, layer, head));
    for (std::int32_t t = 0; t < run.queries(); ++t) {
      if (!rows.is_evicted(t)) continue;
      const Eviction eviction = rows.eviction(t);
      if (eviction.verdict != EvictionVerdict::wrong) continue;
      const bool full = worst.size() == static_cast<std::size_t>(n);
      if (full && !costs_more(eviction, worst.front())) continue;
      if (full) std::ranges::pop_heap(worst, costs_more), worst.pop_back();
      worst.push_back(eviction);
      std::ranges::push_heap(worst, costs_more);  // the one that costs least is in front
    }
  });
  std::ranges::sort(worst, costs_more);
  return worst;
}

}  // namespace kvscope
