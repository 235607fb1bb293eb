#include "engine/decode/eviction/mass_eviction.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/core/policy/allocation.h"

namespace kvscope::engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Who is where, of all layers. A GPU is asked once: of many small questions each waits for what is before it, and among programs that
/// share the device for their turns too.
std::vector<OrderedLayer> ordered(const SequenceState& state) {
  const ModelConfig& config = state.model.config();
  const at::Tensor all = state.cache.slot_positions().cpu();
  std::vector<OrderedLayer> layers(static_cast<std::size_t>(config.n_layers));
  std::int64_t most = 1;
  for (int layer = 0; layer < config.n_layers; ++layer) {
    for (int head = 0; head < config.n_kv_heads; ++head) {
      const std::int32_t* position = all.data_ptr<std::int32_t>() + (layer * config.n_kv_heads + head) * all.size(2);
      std::vector<std::int32_t> slots, positions;
      for (int slot = 0; slot < state.cache.n_slots(layer, head); ++slot) {
        if (position[slot] >= 0) slots.push_back(slot);
      }
      std::sort(slots.begin(), slots.end(), [&](int a, int b) { return position[a] < position[b]; });
      for (const std::int32_t slot : slots) positions.push_back(position[slot]);
      most = std::max(most, static_cast<std::int64_t>(slots.size()));
      OrderedLayer& out = layers[static_cast<std::size_t>(layer)];
      out.slots.push_back(std::move(slots));
      out.positions.push_back(std::move(positions));
    }
  }
  // Both to the device at once as well.
  at::Tensor host = at::zeros({config.n_layers, 2, config.n_kv_heads, most}, at::kLong);
  std::int64_t* to = host.data_ptr<std::int64_t>();
  for (const OrderedLayer& layer : layers) {
    for (const auto* lists : {&layer.slots, &layer.positions})
      for (const auto& list : *lists) std::copy(list.begin(), list.end(), to), to += most;
  }
  const at::Tensor there = host.to(state.cache.slot_positions().device());
  for (int layer = 0; layer < config.n_layers; ++layer) {
    layers[static_cast<std::size_t>(layer)].slot = there[layer][0];
    layers[static_cast<std::size_t>(layer)].position = there[layer][1];
  }
  return layers;
}

/// Their keys, and values if asked for.
void read_rows(const SequenceState& state, int layer, bool with_values, OrderedLayer& tokens) {
  int n = 1;
  for (int head = 0; head < state.model.config().n_kv_heads; ++head) n = std::max(n, state.cache.n_slots(layer, head));
  const SlotCache::Rows rows = state.cache.rows(layer, n);
  const at::Tensor there = tokens.slot.unsqueeze(2).expand({-1, -1, state.model.config().head_dim});
  tokens.k = rows.k.gather(1, there);
  if (with_values) tokens.v = rows.v.gather(1, there);
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

std::vector<float> HeadTokens::free_worth() const {
  std::vector<float> out;
  std::ranges::copy_if(worth, std::back_inserter(out), [](float one) { return one != kInfinity; });
  return out;
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

void evict(SequenceState& state, int n_tokens, const std::function<int()>& max_slots, bool with_values,
           const Score& score, const Choose& choose, StepFacts* facts) {
  const ModelConfig& config = state.model.config();
  std::vector<OrderedLayer> layers = ordered(state);
  std::vector<at::Tensor> of_layers;
  for (int layer = 0; layer < config.n_layers; ++layer) {
    OrderedLayer& tokens = layers[static_cast<std::size_t>(layer)];
    if (state.policy.is_local_layer(layer)) {
      of_layers.push_back(at::zeros(tokens.slot.sizes(), tokens.slot.options().dtype(at::kFloat)));
      continue;
    }
    read_rows(state, layer, with_values, tokens);
    of_layers.push_back(score(layer, tokens));
    tokens.k = tokens.v = at::Tensor();
  }
  const at::Tensor all = at::stack(of_layers).cpu();  // one wait for all layers
  std::vector<std::vector<std::int32_t>> keep;
  for (int layer = 0; layer < config.n_layers; ++layer) {
    const OrderedLayer& tokens = layers[static_cast<std::size_t>(layer)];
    const at::Tensor scores = all[layer];
    std::vector<HeadTokens> heads;
    for (int head = 0; head < config.n_kv_heads; ++head) {
      const auto& positions = tokens.positions[static_cast<std::size_t>(head)];
      const float* row = scores.data_ptr<float>() + head * scores.size(1);
      heads.push_back({positions, {row, row + positions.size()}});
    }
    std::vector<std::vector<char>> of_heads;
    if (state.policy.is_local_layer(layer)) {  // its window is the model's
      for (const HeadTokens& one : heads) of_heads.emplace_back(one.positions.size(), 1);
    } else {
      of_heads = choose(layer, std::move(heads));
    }
    for (int head = 0; head < config.n_kv_heads; ++head) {
      const auto& positions = tokens.positions[static_cast<std::size_t>(head)];
      const std::vector<char>& stays = of_heads[static_cast<std::size_t>(head)];
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
  state.keep_only(keep, max_slots());
}

namespace {

/// AdaKV: the places of a layer's heads from what their tokens are worth. Who is protected is in no contest.
void divide(SequenceState& state, int layer, const std::vector<HeadTokens>& heads) {
  const RetentionPlan& plan = state.policy.plan();
  const int n_heads = static_cast<int>(heads.size());
  int sum = 0;
  std::vector<std::vector<float>> worth;
  for (int head = 0; head < n_heads; ++head) {
    worth.push_back(heads[static_cast<std::size_t>(head)].free_worth());
    sum += plan.of_head(state.policy.geometry(), layer * n_heads + head).top_k;
  }
  state.policy.set_places(layer, ada_places(worth, sum / n_heads, plan.allocation.safeguard));
}

}  // namespace

void keep_best(SequenceState& state, const Keep& keep, const Score& score, StepFacts* facts) {
  const int n_sink = state.policy.geometry().n_sink;
  const bool divides = keep.divides && state.policy.finds_budgets();
  const auto max_slots = [&] {
    const ActivePolicy& policy = state.policy;
    if (policy.plan().has_fixed_budget()) return policy.answer_slots();
    return std::min(std::min(policy.greatest_budget(), keep.n_tokens) + keep.n_more, state.n_positions);
  };
  evict(
      state, keep.n_tokens, max_slots, keep.with_values, score,
      [&](int layer, std::vector<HeadTokens> heads) {
        for (HeadTokens& tokens : heads) tokens.protect(n_sink, keep.fixed_from);
        if (divides) divide(state, layer, heads);
        std::vector<std::vector<char>> stays;
        for (const HeadTokens& tokens : heads) {
          const int head = layer * static_cast<int>(heads.size()) + static_cast<int>(stays.size());
          stays.push_back(tokens.best(state.policy.budget(head)));
        }
        return stays;
      },
      facts);
  if (divides && facts != nullptr) facts->heads = state.policy.plan().heads;
}

bool exceeds_budget(const SequenceState& state) {
  const ModelConfig& config = state.model.config();
  for (int head = 0; head < config.n_layers * config.n_kv_heads; ++head) {
    if (state.cache.n_slots(head / config.n_kv_heads, head % config.n_kv_heads) > state.policy.budget(head))
      return true;
  }
  return false;
}

at::Tensor priorities(const SequenceState& state, int layer, const OrderedLayer& tokens) {
  return state.cache.slot_priority(layer).gather(1, tokens.slot);
}

void evict_to_budget(SequenceState& state, int n_tokens, StepFacts* facts) {
  const RetentionPlan& plan = state.policy.plan();
  const RetentionGeometry& geometry = state.policy.geometry();
  if (!plan.has_fixed_budget()) return;
  const bool decays = plan.admission != Admission::least;
  const auto score = [&](int layer, const OrderedLayer& tokens) {
    at::Tensor worth = priorities(state, layer, tokens).cpu();
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
  keep_best(
      state,
      {.n_tokens = n_tokens, .fixed_from = n_tokens - (decays ? geometry.window : plan.protect), .divides = false},
      score, facts);
}

}  // namespace kvscope::engine
