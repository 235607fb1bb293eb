#include "engine/core/record/run_facts.h"

#include <algorithm>
#include <utility>

namespace kvscope {

void spread(StepFacts& facts) {
  // A vector that grows copies tens of millions of contests again and again. Memory that is not used yet is not taken.
  std::size_t n_lifetimes = facts.lifetimes.size(), n_scores = facts.scores.size(), n_contests = facts.contests.size();
  for (const HeadDecisions& head : facts.decisions) {
    n_lifetimes += head.evictions.size();
    n_scores += head.scores.size();
    n_contests += head.contests.size();
  }
  facts.lifetimes.reserve(n_lifetimes);
  facts.scores.reserve(n_scores);
  facts.contests.reserve(n_contests);
  for (HeadDecisions& here : facts.decisions) {
    const HeadDecisions head = std::move(here);  // its memory goes when it has been read
    for (const TokenEviction& gone : head.evictions)
      facts.lifetimes.push_back({head.layer, head.kv_head, gone.token, gone.evict_at});
    for (std::int32_t i = 0; i < std::ssize(head.scores); ++i) {
      const float score = head.scores[static_cast<std::size_t>(i)];
      if (score == score) facts.scores.push_back({head.layer, head.kv_head, head.first_scored + i, score});
    }
    for (Contest contest : head.contests) {
      contest.layer = head.layer;
      contest.kv_head = head.kv_head;
      facts.contests.push_back(contest);
    }
  }
  facts.decisions = {};
}

}  // namespace kvscope
