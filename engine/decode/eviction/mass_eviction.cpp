#include "engine/decode/eviction/mass_eviction.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/policy/allocation.h"

namespace kvscope::engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::int32_t kAfterAll = std::numeric_limits<std::int32_t>::max();  // position of an empty place
constexpr std::int64_t kMostKeys = 1 << 27;                                   // numbers in the keys of layers at once
constexpr std::int64_t kBlockOfGpu = 1 << 25, kBlockOfCpu = 1 << 18;          // floats

/// Whether one set of operations does for both layers.
bool are_alike(const LoadedModel& model, int a, int b) {
  const AttentionScores of_a = attention_scores(model.config(), model.weights(), a),
                        of_b = attention_scores(model.config(), model.weights(), b);
  const LayerWeights &in_a = model.weights().layers[static_cast<std::size_t>(a)],
                     &in_b = model.weights().layers[static_cast<std::size_t>(b)];
  return of_a.scale == of_b.scale && of_a.soft_cap == of_b.soft_cap && of_a.sink.defined() == of_b.sink.defined() &&
         in_a.inv_freq.is_same(in_b.inv_freq) && in_a.attention_scaling == in_b.attention_scaling;
}

/// The layers in which a policy decides, as many at once as are alike and have keys for `most` tokens a head.
std::vector<std::vector<int>> batches(const SequenceState& state, std::int64_t most) {
  const ModelConfig& config = state.model.config();
  const auto n_at_once =
      static_cast<std::size_t>(std::max<std::int64_t>(1, kMostKeys / (most * config.n_kv_heads * config.head_dim)));
  std::vector<std::vector<int>> out;
  for (int layer = 0; layer < config.n_layers; ++layer) {
    if (state.policy.is_local_layer(layer)) continue;
    if (out.empty() || out.back().size() == n_at_once || !are_alike(state.model, out.back().front(), layer))
      out.emplace_back();
    out.back().push_back(layer);
  }
  return out;
}

/// The tokens of these layers, copied to the device in one piece.
OrderedTokens tokens_of(const SequenceState& state, std::vector<int> layers, const std::vector<SlotOrder::Head>& heads,
                        Reads reads) {
  const std::int64_t n_heads = state.model.config().n_kv_heads, n = static_cast<std::int64_t>(layers.size());
  std::int64_t most = 1;
  const auto head_of = [&](int layer, std::int64_t head) -> const SlotOrder::Head& {
    return heads[static_cast<std::size_t>(layer * n_heads + head)];
  };
  for (const int layer : layers)
    for (std::int64_t head = 0; head < n_heads; ++head)
      most = std::max(most, static_cast<std::int64_t>(head_of(layer, head).slots.size()));
  const at::Tensor all = state.cache.slot_positions();
  const std::int64_t cells = n * n_heads * most;
  const at::Tensor host = at::empty({2 * cells + n}, at::TensorOptions().dtype(at::kInt).pinned_memory(all.is_cuda()));
  std::int32_t* slot = host.data_ptr<std::int32_t>();
  std::int32_t* position = slot + cells;
  std::copy(layers.begin(), layers.end(), slot + 2 * cells);
  for (const int layer : layers) {
    for (std::int64_t head = 0; head < n_heads; ++head, slot += most, position += most) {
      const auto& [slots, positions] = head_of(layer, head);
      std::fill(std::ranges::copy(slots, slot).out, slot + most, 0);
      std::fill(std::ranges::copy(positions, position).out, position + most, kAfterAll);
    }
  }
  const at::Tensor there = host.to(all.device(), /*non_blocking=*/true);
  const auto part = [&](std::int64_t first) { return there.narrow(0, first, cells).view({n, n_heads, most}); };
  OrderedTokens out{.layers = std::move(layers),
                    .layer = there.narrow(0, 2 * cells, n).to(at::kLong),
                    .slot = part(0).to(at::kLong),
                    .position = part(cells)};
  if (reads == Reads::nothing) return out;
  SlotCache::Rows rows = state.cache.rows_in(out.layer, out.slot, reads == Reads::keys_and_values);
  out.k = std::move(rows.k), out.v = std::move(rows.v);
  return out;
}

/// What all tokens are worth, [n_layers * n_kv_heads] rows on the host in the order of `heads`; none of a local layer.
struct Worth {
  std::vector<at::Tensor> batches;
  std::vector<float*> rows;
};
Worth worth_of_all(const SequenceState& state, const std::vector<SlotOrder::Head>& heads, const Score& score) {
  const auto n_heads = static_cast<std::size_t>(state.model.config().n_kv_heads);
  std::size_t most = 1;
  for (const SlotOrder::Head& head : heads) most = std::max(most, head.slots.size());
  const std::vector<std::vector<int>> all = batches(state, static_cast<std::int64_t>(most));
  Worth out{.batches = {}, .rows = std::vector<float*>(heads.size())};
  for (const std::vector<int>& layers : all)
    out.batches.push_back(score.of(tokens_of(state, layers, heads, score.reads)));
  for (std::size_t i = 0; i < all.size(); ++i) {  // the first waits for all
    out.batches[i] = out.batches[i].cpu().contiguous();
    float* row = out.batches[i].data_ptr<float>();
    for (const int layer : all[i])
      for (std::size_t head = 0; head < n_heads; ++head, row += out.batches[i].size(2))
        out.rows[static_cast<std::size_t>(layer) * n_heads + head] = row;
  }
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

std::vector<float> HeadTokens::free_worth() const {
  std::vector<float> out;
  std::ranges::copy_if(worth, std::back_inserter(out), [](float one) { return one != kInfinity; });
  return out;
}

std::vector<std::int32_t> HeadTokens::all_but_best(std::int64_t n) const {
  std::vector<std::int32_t> out;
  const auto size = static_cast<std::int64_t>(worth.size());
  if (n >= size) return out;
  if (n + 1 == size) {  // text that passes token by token
    std::size_t least = 0;
    for (std::size_t i = 1; i < worth.size(); ++i)
      if (worth[i] <= worth[least]) least = i;
    if (worth[least] != kInfinity) out.push_back(static_cast<std::int32_t>(least));
    return out;
  }
  // Of those that are worth as much as the n-th, as many stay as there is room for.
  float bound = kInfinity;
  if (n > 0) {
    std::vector<float> order(worth.begin(), worth.end());
    std::nth_element(order.begin(), order.begin() + (n - 1), order.end(), std::greater<>());
    bound = order[static_cast<std::size_t>(n - 1)];
  }
  std::int64_t room = n - std::ranges::count_if(worth, [&](float one) { return one > bound; });
  for (std::int64_t i = 0; i < size; ++i) {
    const float one = worth[static_cast<std::size_t>(i)];
    if (one > bound || one == kInfinity || (one == bound && room-- > 0)) continue;
    out.push_back(static_cast<std::int32_t>(i));
  }
  return out;
}

at::Tensor by_blocks(std::int64_t n_rows, std::int64_t floats_a_row, const at::Device& device,
                     const std::function<at::Tensor(std::int64_t first, std::int64_t n)>& of) {
  const std::int64_t most = device.is_cuda() ? kBlockOfGpu : kBlockOfCpu;
  const std::int64_t block = std::clamp<std::int64_t>(most / std::max<std::int64_t>(1, floats_a_row), 1, n_rows);
  if (block == n_rows) return of(0, n_rows);
  std::vector<at::Tensor> parts;
  for (std::int64_t first = 0; first < n_rows; first += block)
    parts.push_back(of(first, std::min(block, n_rows - first)));
  return at::cat(parts);
}

void evict(SequenceState& state, int n_tokens, const std::function<int()>& max_slots, const Score& score,
           const Choose& choose, StepFacts* facts) {
  const auto n_heads = static_cast<std::size_t>(state.model.config().n_kv_heads);
  const std::vector<SlotOrder::Head>& all = state.order.read(state.cache, n_tokens);
  const Worth worth = worth_of_all(state, all, score);
  std::vector<std::vector<std::int32_t>> leave(all.size());
  for (int layer = 0; layer < state.model.config().n_layers; ++layer) {
    if (state.policy.is_local_layer(layer)) continue;  // its window is the model's
    const std::size_t first = static_cast<std::size_t>(layer) * n_heads;
    std::vector<HeadTokens> heads;
    for (std::size_t i = first; i < first + n_heads; ++i)
      heads.push_back({all[i].positions, {worth.rows[i], all[i].positions.size()}});
    std::ranges::move(choose(layer, std::move(heads)), leave.begin() + static_cast<std::ptrdiff_t>(first));
    for (std::size_t i = first; facts != nullptr && i < first + n_heads; ++i)
      for (const std::int32_t place : leave[i])
        facts->lifetimes.push_back(
            {layer, static_cast<int>(i - first), all[i].positions[static_cast<std::size_t>(place)], n_tokens});
  }
  state.take_out(n_tokens, leave, max_slots());
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
      state, keep.n_tokens, max_slots, score,
      [&](int layer, std::vector<HeadTokens> heads) {
        for (HeadTokens& tokens : heads) tokens.protect(n_sink, keep.fixed_from);
        if (divides) divide(state, layer, heads);
        std::vector<std::vector<std::int32_t>> leave;
        for (const HeadTokens& tokens : heads) {
          const int head = layer * static_cast<int>(heads.size()) + static_cast<int>(leave.size());
          leave.push_back(tokens.all_but_best(state.policy.budget(head)));
        }
        return leave;
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

Score by_priority(const SequenceState& state) {
  return {.reads = Reads::nothing, .of = [&state](const OrderedTokens& tokens) {
            return state.cache.slot_priorities().index_select(0, tokens.layer).gather(2, tokens.slot);
          }};
}

void evict_to_budget(SequenceState& state, int n_tokens, StepFacts* facts) {
  const RetentionPlan& plan = state.policy.plan();
  const RetentionGeometry& geometry = state.policy.geometry();
  if (!plan.has_fixed_budget()) return;
  const bool decays = plan.admission != Admission::least;
  const Score raw = by_priority(state);
  const auto decayed = [&](const OrderedTokens& tokens) {
    at::Tensor worth = raw.of(tokens).cpu();
    const at::Tensor position = tokens.position.cpu();
    float* score = worth.data_ptr<float>();
    const std::int32_t* t = position.data_ptr<std::int32_t>();
    const int n_heads = state.model.config().n_kv_heads;
    for (const int layer : tokens.layers) {
      for (int head = layer * n_heads; head < (layer + 1) * n_heads; ++head) {
        const auto log_gamma = static_cast<float>(plan.of_head(geometry, head).log_gamma);
        for (std::int64_t i = 0; i < tokens.most(); ++i, ++score, ++t)
          if (*t < n_tokens) *score = effective_score(*score, *t, n_tokens, log_gamma, geometry.decay_stride);
      }
    }
    return worth;
  };
  // The token that leaves the window at the next query has its contest there.
  keep_best(
      state,
      {.n_tokens = n_tokens, .fixed_from = n_tokens - (decays ? geometry.window : plan.protect), .divides = false},
      decays ? Score{.reads = Reads::nothing, .of = decayed} : raw, facts);
}

}  // namespace kvscope::engine
