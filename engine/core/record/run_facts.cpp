#include "engine/core/record/run_facts.h"

#include <algorithm>
#include <utility>

namespace kvscope {
namespace {

/// A vector that grows copies tens of millions of contests again and again. Memory that is not used yet is not taken.
template <typename T>
void make_room(std::vector<T>& facts, std::size_t n) {
  if (n > facts.capacity()) facts.reserve(std::max(n, 2 * facts.capacity()));  // a method adds to them layer by layer
}

}  // namespace

void spread(StepFacts& facts) {
  std::size_t n_lifetimes = facts.lifetimes.size(), n_scores = facts.scores.size(), n_contests = facts.contests.size();
  for (const HeadDecisions& head : facts.decisions) {
    n_lifetimes += head.evictions.size();
    n_scores += head.scores.size();
    n_contests += head.contests.size();
  }
  make_room(facts.lifetimes, n_lifetimes);
  make_room(facts.scores, n_scores);
  make_room(facts.contests, n_contests);
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
