#include "engine/decode/eviction/mass_eviction.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace kvscope::engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

OrderedLayer order_layer(const SequenceState& state, int layer, bool with_values) {
  const ModelConfig& config = state.model.config();
  const at::Tensor by_slot = state.cache.slot_position(layer).cpu();
  OrderedLayer out;
  std::size_t most = 1;
  for (int head = 0; head < config.n_kv_heads; ++head) {
    const std::int32_t* position = by_slot.data_ptr<std::int32_t>() + head * by_slot.size(1);
    std::vector<std::int32_t> slots;
    for (int slot = 0; slot < state.cache.n_slots(layer, head); ++slot) {
      if (position[slot] >= 0) slots.push_back(slot);
    }
    std::sort(slots.begin(), slots.end(), [&](int a, int b) { return position[a] < position[b]; });
    out.positions.emplace_back();
    for (const std::int32_t slot : slots) out.positions.back().push_back(position[slot]);
    most = std::max(most, slots.size());
    out.slots.push_back(std::move(slots));
  }
  at::Tensor order = at::zeros({config.n_kv_heads, static_cast<std::int64_t>(most), 1}, at::kLong);
  int n = 1;
  for (int head = 0; head < config.n_kv_heads; ++head) {
    const auto& slots = out.slots[static_cast<std::size_t>(head)];
    std::copy(slots.begin(), slots.end(), order.data_ptr<std::int64_t>() + head * static_cast<std::int64_t>(most));
    n = std::max(n, state.cache.n_slots(layer, head));
  }
  const SlotCache::Rows rows = state.cache.rows(layer, n);
  const at::Tensor there = order.to(rows.k.device()).expand({-1, -1, config.head_dim});
  out.k = rows.k.gather(1, there);
  if (with_values) out.v = rows.v.gather(1, there);
  return out;
}

}  // namespace

void HeadTokens::protect(int n_sink, int from) {
  for (std::size_t i = 0; i < worth.size(); ++i) {
    if (positions[i] >= from || positions[i] < n_sink) worth[i] = kInfinity;
    if (std::isnan(worth[i])) worth[i] = -kInfinity;
  }
}

std::int64_t HeadTokens::n_free() const {
  return static_cast<std::int64_t>(worth.size()) - std::count(worth.begin(), worth.end(), kInfinity);
}

std::vector<char> HeadTokens::best(std::int64_t n) const {
  std::vector<std::size_t> order(worth.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return worth[a] > worth[b]; });
  std::vector<char> stays(order.size(), 0);
  for (std::size_t i = 0; i < order.size(); ++i) {
    stays[order[i]] = static_cast<std::int64_t>(i) < n || worth[order[i]] == kInfinity;
  }
  return stays;
}

void evict(SequenceState& state, int n_tokens, int max_slots, bool with_values, const Score& score,
           const Choose& choose, StepFacts* facts) {
  const ModelConfig& config = state.model.config();
  std::vector<std::vector<std::int32_t>> keep;
  for (int layer = 0; layer < config.n_layers; ++layer) {
    const OrderedLayer tokens = order_layer(state, layer, with_values);
    const at::Tensor scores = score(layer, tokens).cpu().contiguous();
    for (int head = 0; head < config.n_kv_heads; ++head) {
      const auto& positions = tokens.positions[static_cast<std::size_t>(head)];
      const float* row = scores.data_ptr<float>() + head * scores.size(1);
      const std::vector<char> stays = choose({positions, {row, row + positions.size()}});
      keep.emplace_back();
      for (std::size_t i = 0; i < positions.size(); ++i) {
        if (stays[i]) {
          keep.back().push_back(tokens.slots[static_cast<std::size_t>(head)][i]);
        } else if (facts != nullptr) {
          facts->lifetimes.push_back({layer, head, positions[i], n_tokens});
        }
      }
    }
  }
  state.keep_only(keep, max_slots);
}

void keep_best(SequenceState& state, const Keep& keep, const Score& score, StepFacts* facts) {
  const int n_sink = state.policy.geometry().n_sink;
  evict(
      state, keep.n_tokens, keep.max_slots, keep.with_values, score,
      [&](HeadTokens tokens) {
        tokens.protect(n_sink, keep.fixed_from);
        return tokens.best(keep.budget);
      },
      facts);
}

bool exceeds(const SequenceState& state, int budget) {
  const ModelConfig& config = state.model.config();
  for (int layer = 0; layer < config.n_layers; ++layer) {
    for (int head = 0; head < config.n_kv_heads; ++head) {
      if (state.cache.n_slots(layer, head) > budget) return true;
    }
  }
  return false;
}

at::Tensor priorities(const SequenceState& state, int layer, const OrderedLayer& tokens) {
  const at::Tensor by_slot = state.cache.slot_priority(layer).cpu();
  at::Tensor out = at::zeros({by_slot.size(0), tokens.most()}, at::kFloat);
  for (std::int64_t head = 0; head < by_slot.size(0); ++head) {
    const auto& slots = tokens.slots[static_cast<std::size_t>(head)];
    const float* from = by_slot.data_ptr<float>() + head * by_slot.size(1);
    for (std::size_t i = 0; i < slots.size(); ++i)
      out.data_ptr<float>()[head * out.size(1) + static_cast<std::int64_t>(i)] = from[slots[i]];
  }
  return out;
}

void evict_to_budget(SequenceState& state, int n_tokens, StepFacts* facts) {
  const RetentionPlan& plan = state.policy.plan();
  const RetentionGeometry& geometry = state.policy.geometry();
  if (!plan.has_fixed_budget()) return;
  const bool decays = plan.admission != Admission::least;
  const auto score = [&](int layer, const OrderedLayer& tokens) {
    at::Tensor worth = priorities(state, layer, tokens);
    for (std::size_t head = 0; decays && head < tokens.positions.size(); ++head) {
      const int of_model = layer * state.model.config().n_kv_heads + static_cast<int>(head);
      const auto log_gamma = static_cast<float>(plan.of_head(geometry, of_model).log_gamma);
      float* row = worth.data_ptr<float>() + static_cast<std::int64_t>(head) * worth.size(1);
      for (const std::int32_t position : tokens.positions[head]) {
        *row = effective_score(*row, position, n_tokens, log_gamma, geometry.decay_stride);
        ++row;
      }
    }
    return worth;
  };
  // The token that leaves the window at the next query has its contest there.
  keep_best(state,
            {.n_tokens = n_tokens,
             .budget = geometry.budget(),
             .max_slots = state.policy.answer_slots(),
             .fixed_from = n_tokens - (decays ? geometry.window : plan.protect)},
            score, facts);
}

}  // namespace kvscope::engine
