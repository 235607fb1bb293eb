#include "engine/decode/eviction/mass_eviction.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "engine/core/lifetime/running_top_k.h"
#include "engine/model/ops.h"

namespace kvscope::engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Tokens of one head: who they are and what they are worth. Both ascend by position.
struct HeadTokens {
  int head;  // layer * n_kv_heads + kv_head
  const std::vector<std::int32_t>& positions;
  std::vector<float> worth;
};

/// Indices of the n best; of equals the older. Infinite worth stays whatever n is.
std::vector<char> best(const HeadTokens& tokens, std::int64_t n) {
  std::vector<std::size_t> order(tokens.worth.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return tokens.worth[a] > tokens.worth[b]; });
  std::vector<char> stays(order.size(), 0);
  for (std::size_t i = 0; i < order.size(); ++i) {
    stays[order[i]] = static_cast<std::int64_t>(i) < n || tokens.worth[order[i]] == kInfinity;
  }
  return stays;
}

using Score = std::function<at::Tensor(int layer, const OrderedLayer& tokens)>;
using Choose = std::function<std::vector<char>(const HeadTokens& tokens)>;

/// Scores every layer, lets `choose` say who stays, and leaves only these.
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
      HeadTokens one{layer * config.n_kv_heads + head, positions, {row, row + positions.size()}};
      const std::vector<char> stays = choose(one);
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

/// Tokens from position `from` on, and sinks, stay.
void protect(HeadTokens& tokens, int n_sink, int from) {
  for (std::size_t i = 0; i < tokens.worth.size(); ++i) {
    if (tokens.positions[i] >= from || tokens.positions[i] < n_sink) tokens.worth[i] = kInfinity;
    if (std::isnan(tokens.worth[i])) tokens.worth[i] = -kInfinity;
  }
}

bool is_pool_full(const SequenceState& state) {
  const ModelConfig& config = state.model.config();
  const RetentionGeometry& geometry = state.policy.geometry();
  double held = 0;
  for (int layer = 0; layer < config.n_layers; ++layer) {
    for (int head = 0; head < config.n_kv_heads; ++head) {
      held += std::max(0, state.cache.n_slots(layer, head) - geometry.n_sink - geometry.window);
    }
  }
  return held > static_cast<double>(state.policy.plan().compression.pool) * config.n_layers * config.n_kv_heads;
}

/// WG-KV App. K: every head drops a share of its long-range tokens. Once is what the paper has; a long prompt may have
/// filled the pool many times over, so it goes on until there is room.
void empty_pool(SequenceState& state, int n_tokens, StepFacts* facts) {
  const Compression& compression = state.policy.plan().compression;
  const RetentionGeometry& geometry = state.policy.geometry();
  while (is_pool_full(state)) {
    bool dropped = false;
    evict(
        state, n_tokens, state.cache.max_slots(), false,
        [&](int layer, const OrderedLayer& tokens) { return snapkv_scores(state, layer, tokens, n_tokens); },
        [&](HeadTokens tokens) {
          protect(tokens, geometry.n_sink, n_tokens - geometry.window);
          const auto n = static_cast<std::int64_t>(tokens.worth.size());
          const std::int64_t fixed = std::count(tokens.worth.begin(), tokens.worth.end(), kInfinity);
          const auto leaves = static_cast<std::int64_t>(static_cast<double>(n - fixed) * compression.drop);
          dropped |= leaves > 0;
          return best(tokens, n - leaves);
        },
        facts);
    if (!dropped) return;  // no head has enough for one of them to be a share
  }
}

void compress(SequenceState& state, int prompt_len, int n_tokens, StepFacts* facts) {
  const Compression& compression = state.policy.plan().compression;
  const bool snapkv = compression.kind == Compression::Kind::snapkv, of_prompt = n_tokens == prompt_len;
  evict(
      state, n_tokens, state.policy.answer_slots(prompt_len), !snapkv,
      [&](int layer, const OrderedLayer& tokens) {
        return snapkv ? snapkv_scores(state, layer, tokens, n_tokens)
                      : expected_attention_scores(state, layer, tokens, n_tokens, of_prompt);
      },
      [&](HeadTokens tokens) {
        protect(tokens, compression.n_sink, snapkv ? n_tokens - compression.observe : n_tokens);
        return best(tokens, compression.budget);
      },
      facts);
}

}  // namespace

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

void add_attention_sums(SequenceState& state, int layer, const at::Tensor& q, const at::Tensor& k,
                        const at::Tensor& lse, std::int64_t first) {
  const std::int64_t n_heads = q.size(1), n_keys = k.size(1), n_kv_heads = k.size(0);
  const at::Tensor mass = at::zeros({n_heads, n_keys}, lse.options());
  ops::future_attention(q, k.transpose(0, 1).contiguous(), lse, mass, first,
                        state.model.config().attention_scale(layer), 0);
  state.cache.slot_priority(layer)
      .narrow(1, 0, n_keys)
      .add_(mass.view({n_kv_heads, n_heads / n_kv_heads, n_keys}).mean(1));
}

void evict_to_budget(SequenceState& state, int n_tokens, StepFacts* facts) {
  const RetentionPlan& plan = state.policy.plan();
  const RetentionGeometry& geometry = state.policy.geometry();
  if (!plan.has_fixed_budget()) return;
  const bool by_attention = plan.eviction != StepEviction::none;
  evict(
      state, n_tokens, state.policy.answer_slots(n_tokens), false,
      [&](int layer, const OrderedLayer& tokens) { return priorities(state, layer, tokens); },
      [&](HeadTokens tokens) {
        if (!by_attention) {
          const auto log_gamma = static_cast<float>(geometry.log_gamma);
          for (std::size_t i = 0; i < tokens.worth.size(); ++i) {
            tokens.worth[i] =
                effective_score(tokens.worth[i], tokens.positions[i], n_tokens, log_gamma, geometry.decay_stride);
          }
        }
        // The token that leaves the window at the next query has its contest there.
        protect(tokens, geometry.n_sink, n_tokens - (by_attention ? plan.protect : geometry.window));
        return best(tokens, geometry.budget());
      },
      facts);
}

void evict_after_prompt(SequenceState& state, int prompt_len, StepFacts* facts) {
  const RetentionPlan& plan = state.policy.plan();
  if (plan.compression.pool > 0) return empty_pool(state, prompt_len, facts);
  if (plan.compression.kind != Compression::Kind::none) return compress(state, prompt_len, prompt_len, facts);
  if (plan.eviction == StepEviction::none || !plan.dense_prefill) return;
  const RetentionGeometry& geometry = state.policy.geometry();
  const bool tova = plan.eviction == StepEviction::last_attention;
  evict(
      state, prompt_len, state.policy.answer_slots(prompt_len), false,
      [&](int layer, const OrderedLayer& tokens) {
        return tova ? last_attention_scores(state, layer, tokens, prompt_len) : priorities(state, layer, tokens);
      },
      [&](HeadTokens tokens) {
        protect(tokens, geometry.n_sink, prompt_len - plan.protect);
        return best(tokens, geometry.budget());
      },
      facts);
}

bool evict_after_step(SequenceState& state, int prompt_len, int n_tokens, StepFacts* facts) {
  const Compression& compression = state.policy.plan().compression;
  if (compression.pool > 0) {
    if (!is_pool_full(state)) return false;
    empty_pool(state, n_tokens, facts);
    return true;
  }
  if (compression.interval == 0 || (n_tokens - prompt_len) % compression.interval != 0) return false;
  compress(state, prompt_len, n_tokens, facts);
  return true;
}

}  // namespace kvscope::engine
