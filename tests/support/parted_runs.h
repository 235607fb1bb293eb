#pragma once
// Two runs of one prompt whose answers diverge.

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/random_run.h"

namespace kvscope::test {

/// The run with other tokens in its answer: at each of the positions that at another one, and from `left_out` on (-1: nowhere) each
/// token one place earlier, so that one is missing. The last token is doubled then: the run stays as long as it was.
inline RunRecord with_other_answer(RunRecord run, const std::vector<std::pair<int, int>>& from, int left_out = -1) {
  const RunRecord before = run;
  run.pieces = BytePool();
  for (int t = 0; t < run.n_tokens(); ++t) {
    int source = left_out >= 0 && t >= left_out && t + 1 < run.n_tokens() ? t + 1 : t;
    for (const auto& [at, other] : from)
      if (at == t) source = other;
    run.ids[static_cast<std::size_t>(t)] = before.ids[static_cast<std::size_t>(source)];
    run.pieces.push_back(before.pieces[static_cast<std::size_t>(source)]);
    if (source != t) run.logprobs[static_cast<std::size_t>(t)] = before.logprobs[static_cast<std::size_t>(source)] / 2;
  }
  return run;
}

/// B of random_run(3) under another policy: three differences from token 125 on, and a token that is left out.
inline RunRecord parted_run(const RandomRunOptions& options = {.policy = "streaming:window=30"}) {
  return with_other_answer(random_run(3, options), {{125, 20}, {126, 21}, {140, 22}, {150, 23}}, 160);
}

}  // namespace kvscope::test
