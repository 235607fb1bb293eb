#include "engine/core/study/head_selection.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>

#include "engine/core/support/error.h"

namespace kvscope {

namespace {

/// Long-range entries of one head that are still there at the run's last query: t <= q - window, visible at q. Sinks
/// count when they lie outside the window, as in density (SP-KV eq. 8).
std::int64_t retained_long_range(const RunRecord& run, int layer, int kv_head) {
  const auto& row = run.evict_at.row(layer, kv_head);
  const int q = run.queries() - 1;
  const int end = std::min(static_cast<int>(row.size()), q - run.geometry().window + 1);
  return std::count_if(row.begin(), row.begin() + std::max(0, end),
                       [q](std::int32_t evict_at) { return q < evict_at; });
}

}  // namespace

int HeadSelection::n_selected() const {
  return static_cast<int>(std::count_if(full.begin(), full.end(), [](float value) { return value >= 0.5f; }));
}

HeadSelection densest_heads(const std::vector<const RunRecord*>& runs, double share) {
  if (!(share >= 0 && share <= 1))
    throw Error({.code = ExitCode::usage, .file = "--share", .found = std::to_string(share), .expected = "0 to 1"});
  if (runs.empty()) throw Error({.code = ExitCode::usage, .found = "no runs to choose heads from"});

  HeadSelection selection{.n_layers = runs[0]->model.n_layers, .n_kv_heads = runs[0]->model.n_kv_heads};
  const std::size_t n_heads = static_cast<std::size_t>(selection.n_layers) * selection.n_kv_heads;
  std::vector<std::int64_t> retained(n_heads, 0);
  for (const RunRecord* run : runs) {
    if (run->evict_at.n_layers() != selection.n_layers || run->evict_at.n_kv_heads() != selection.n_kv_heads)
      throw Error({.found = "a run with " + std::to_string(run->evict_at.n_layers()) + " x " +
                            std::to_string(run->evict_at.n_kv_heads()) + " heads",
                   .expected = std::to_string(selection.n_layers) + " x " + std::to_string(selection.n_kv_heads) +
                               " (layers x KV heads), as in the first run"});
    for (std::size_t i = 0; i < n_heads; ++i)
      retained[i] += retained_long_range(*run, static_cast<int>(i) / selection.n_kv_heads,
                                         static_cast<int>(i) % selection.n_kv_heads);
  }

  std::vector<std::size_t> order(n_heads);
  std::iota(order.begin(), order.end(), 0);
  // Stable: of equally dense heads the one of the lower layer, then the lower head, comes first.
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return retained[a] > retained[b]; });
  const auto n_full = static_cast<std::size_t>(std::lround(share * static_cast<double>(n_heads)));
  selection.full.assign(n_heads, 0.0f);
  std::int64_t chosen = 0;
  for (std::size_t i = 0; i < n_full; ++i) {
    selection.full[order[i]] = 1.0f;
    chosen += retained[order[i]];
  }
  const auto all = std::accumulate(retained.begin(), retained.end(), std::int64_t{0});
  selection.coverage =
      all > 0 ? static_cast<double>(chosen) / static_cast<double>(all) : std::numeric_limits<double>::quiet_NaN();
  return selection;
}

}  // namespace kvscope
