#pragma once
// A run whose dense prompt was cut to the budget at its end, as H2O and TOVA do it: no engine, made by hand.

#include <cstdint>
#include <string>

#include "tests/support/random_run.h"

namespace kvscope::test {

/// Of random_run(3)'s tokens and future mass. Of tokens behind the window go, until as many stay as `policy` has budget for,
/// those of the least of numbers that only look drawn.
inline RunRecord cut_run(const std::string& policy, RandomRunOptions options = {.policy = "full"}) {
  RunRecord run = random_run(3, options);
  run.policy = PolicySpec::parse(policy);
  run.contests.clear();
  const RetentionGeometry geometry = run.geometry();
  const auto holds = [](const std::vector<std::int32_t>& row, std::int32_t q) {
    int n = 0;
    for (std::int32_t t = 0; t < q; ++t) n += visible(q, t, row[static_cast<std::size_t>(t)]);
    return n;
  };
  for (int layer = 0; layer < options.n_layers; ++layer) {
    for (int head = 0; head < options.n_kv_heads; ++head) {
      auto& row = run.evict_at.row(layer, head);
      for (std::int32_t q = run.prompt_len; q < run.n_tokens(); ++q) {
        while (holds(row, q) > geometry.budget()) {
          std::int32_t least = -1;
          const auto priority = [&](std::int32_t t) { return (t * 37 + head * 11 + layer * 5) % 101; };
          for (std::int32_t t = 0; t < q - geometry.window; ++t) {
            if (visible(q, t, row[static_cast<std::size_t>(t)]) && (least < 0 || priority(t) < priority(least)))
              least = t;
          }
          row[static_cast<std::size_t>(least)] = q;
        }
      }
    }
  }
  return run;
}

}  // namespace kvscope::test
