#include "views/widgets/judged_runs.h"

#include <algorithm>

namespace kvscope::views {
namespace {

constexpr std::int64_t kCellsAtOnce = 1 << 16;  // lifetimes: some milliseconds of one core

bool can_be_judged(const RunRecord& run) { return run.status != RunStatus::running && !run.future_mass.empty(); }

/// What was judged before is taken over.
std::shared_ptr<const Judged> judge(const std::vector<ShownRun>& runs, std::vector<RunKey> keys, const Judged* before) {
  auto judged = std::make_shared<Judged>();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::shared_ptr<const EvictionVerdicts> verdicts;
    for (std::size_t k = 0; before != nullptr && k < before->keys.size(); ++k)
      if (before->keys[k] == keys[i]) verdicts = before->verdicts[k];
    if (!verdicts)
      verdicts = std::make_shared<const EvictionVerdicts>(can_be_judged(*runs[i].run) ? eviction_verdicts(*runs[i].run)
                                                                                      : EvictionVerdicts());
    judged->verdicts.push_back(std::move(verdicts));
  }
  judged->keys = std::move(keys);
  if (!runs.empty()) judged->worst = worst_misses(*runs[0].run, *judged->verdicts[0], JudgedRuns::kMisses);
  return judged;
}

}  // namespace

std::shared_ptr<const Judged> JudgedRuns::of(std::span<const ShownRun> runs) {
  std::vector<RunKey> keys;
  std::int64_t cost = 0;
  for (const ShownRun& run : runs) {
    const bool judgeable = can_be_judged(*run.run);
    // One that goes on is the same with every token: there is nothing to judge.
    keys.push_back(judgeable ? RunKey(&run) : RunKey());
    const bool known = last_ && std::ranges::find(last_->keys, keys.back()) != last_->keys.end();
    if (judgeable && !known)
      cost += std::int64_t{run.run->n_tokens()} * run.run->evict_at.n_layers() * run.run->evict_at.n_kv_heads();
  }
  if (last_ && keys == keys_) return last_;
  const std::vector<ShownRun> all(runs.begin(), runs.end());
  Answer answer;
  if (cost <= kCellsAtOnce) {
    answer = judge(all, keys, last_.get());
  } else if (auto found = debounced_.of(keys, [all, keys, before = last_] { return judge(all, keys, before.get()); })) {
    answer = *found;
  }
  if (answer) last_ = answer, keys_ = keys;
  return answer;
}

}  // namespace kvscope::views
