// One budget for all heads: between two queries the tokens of least score leave, whichever head they are of.
#include <algorithm>

#include "engine/core/policy/pooled_plan.h"
#include "engine/decode/eviction/sequence_state.h"

namespace kvscope::engine {
namespace {

/// The heads that share the pool: those of layers that the model itself does not make local.
std::vector<int> pool_heads(const SequenceState& state) {
  const ModelConfig& config = state.model.config();
  std::vector<int> heads;
  for (int head = 0; head < config.n_layers * config.n_kv_heads; ++head)
    if (!state.policy.is_local_layer(head / config.n_kv_heads)) heads.push_back(head);
  return heads;
}

std::vector<RetentionGeometry> geometries(const SequenceState& state) {
  std::vector<RetentionGeometry> of_head;
  for (const int head : pool_heads(state))
    of_head.push_back(state.policy.plan().of_head(state.policy.geometry(), head));
  return of_head;
}

/// Scores and places are followed on the host, which hears of both with every step anyway: nothing of the cache is copied
/// back to find who leaves, and of a step only the few that leave are touched.
class PooledBudget final : public AttentionMethod {
 public:
  explicit PooledBudget(SequenceState& state)
      : AttentionMethod(state),
        n_kv_heads_(state.model.config().n_kv_heads),
        n_heads_(state.model.config().n_layers * n_kv_heads_),
        delay_(state.policy.scorer()->delay()),
        interval_(std::max(1, state.policy.plan().cut_interval)),
        version_(state.policy.version()),
        heads_(pool_heads(state)),
        pool_(geometries(state), delay_, interval_) {}

  void observe_scores(int layer, const at::Tensor& scores, std::int64_t first) override {
    positions_.clear();  // the prompt has changed the cache
    const std::int64_t n = scores.size(1);
    for (int head = 0; head < n_kv_heads_; ++head) {
      const float* row = scores.data_ptr<float>() + head * n;
      const int member = member_of(layer * n_kv_heads_ + head);
      for (std::int64_t i = std::max<std::int64_t>(0, -first); i < n; ++i)
        pool_.tell(member, static_cast<std::int32_t>(first + i), row[i]);
    }
  }

  void observe_step(std::int32_t position, const kernels::RetainDecision* decisions, const float* scores) override {
    for (int head = 0; head < n_heads_; ++head) {
      if (const int member = member_of(head); position >= delay_ && member >= 0)
        pool_.tell(member, position - delay_, scores[head]);
      if (positions_.empty()) continue;
      std::vector<std::int32_t>& of_head = positions_[static_cast<std::size_t>(head)];
      of_head.resize(std::max(of_head.size(), static_cast<std::size_t>(decisions[head].slot) + 1));
      of_head[static_cast<std::size_t>(decisions[head].slot)] = position;
    }
  }

  void before_queries(int n_tokens, StepFacts* facts) override {
    // Other numbers hold at once.
    if (n_tokens % interval_ != 0 && version_ == state_.policy.version()) return;
    if (version_ != state_.policy.version()) pool_.change(geometries(state_));
    version_ = state_.policy.version();
    PooledTopK::Cut cut = pool_.cut(n_tokens);
    if (cut.left.empty()) return;
    for (PooledTopK::Leaver& one : cut.left) one.head = heads_[static_cast<std::size_t>(one.head)];
    if (facts != nullptr) {
      for (const PooledTopK::Leaver& one : cut.left)
        facts->lifetimes.push_back({one.head / n_kv_heads_, one.head % n_kv_heads_, one.t, n_tokens});
      const std::vector<Contest> contests = cut.contests(n_kv_heads_);
      facts->contests.insert(facts->contests.end(), contests.begin(), contests.end());
    }
    take_out(cut.left);
  }

  /// The cut is before the next queries, which a text's last chunk does not have.
  void after_chunk(int, StepFacts*) override {}
  void cache_changed() override { positions_.clear(); }

 private:
  /// Which member of the pool a head is; -1: none.
  int member_of(int head) const {
    const auto found = std::ranges::lower_bound(heads_, head);
    return found != heads_.end() && *found == head ? static_cast<int>(found - heads_.begin()) : -1;
  }
  void read_positions();
  void take_out(const std::vector<PooledTopK::Leaver>& left);

  int n_kv_heads_, n_heads_, delay_, interval_, version_;
  std::vector<int> heads_;  // of the model, members of the pool
  PooledTopK pool_;
  /// [n_heads][slots of the head]: who is in each, as the cache has it. Empty: not known, to be read.
  std::vector<std::vector<std::int32_t>> positions_;
};

void PooledBudget::read_positions() {
  const at::Tensor by_slot = state_.cache.slot_positions().cpu();  // [n_layers, n_kv_heads, slots]
  for (int head = 0; head < n_heads_; ++head) {
    const std::int32_t* row = by_slot.data_ptr<std::int32_t>() + head * by_slot.size(2);
    positions_.emplace_back(row, row + state_.cache.n_slots(head / n_kv_heads_, head % n_kv_heads_));
  }
}

void PooledBudget::take_out(const std::vector<PooledTopK::Leaver>& left) {
  if (positions_.empty()) read_positions();
  std::vector<std::vector<std::int32_t>> leave(static_cast<std::size_t>(n_heads_)), keep(leave.size());
  std::size_t held = 0;
  auto next = left.begin();
  for (std::size_t head = 0; head < leave.size(); ++head) {
    const std::vector<std::int32_t>& positions = positions_[head];
    const auto end =
        std::find_if(next, left.end(), [&](const auto& one) { return one.head != static_cast<int>(head); });
    held += positions.size();
    for (std::size_t slot = 0; slot < positions.size() && next != end; ++slot) {
      const bool leaves = std::binary_search(next, end, PooledTopK::Leaver{0, positions[slot], 0},
                                             [](const auto& a, const auto& b) { return a.t < b.t; });
      if (leaves) leave[head].push_back(static_cast<std::int32_t>(slot));
    }
    next = end;
  }
  // A prompt's end: what stays is copied, so that the memory of what leaves is the device's again.
  if (left.size() > held / 4) {
    for (std::size_t head = 0; head < keep.size(); ++head) {
      for (std::size_t slot = 0; slot < positions_[head].size(); ++slot) {
        if (!std::ranges::binary_search(leave[head], static_cast<std::int32_t>(slot)))
          keep[head].push_back(static_cast<std::int32_t>(slot));
      }
    }
    state_.keep_only(keep, state_.policy.answer_slots());
    return;
  }
  for (const SlotCache::Move& move : state_.cache.remove(leave)) {
    std::vector<std::int32_t>& positions = positions_[move.head];
    positions[static_cast<std::size_t>(move.to)] = positions[static_cast<std::size_t>(move.from)];
  }
  for (std::size_t head = 0; head < leave.size(); ++head)
    positions_[head].resize(positions_[head].size() - leave[head].size());
}

}  // namespace

std::unique_ptr<AttentionMethod> make_pooled_budget(SequenceState& state) {
  return std::make_unique<PooledBudget>(state);
}

}  // namespace kvscope::engine
