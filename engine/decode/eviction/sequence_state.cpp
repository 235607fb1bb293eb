#include "engine/decode/eviction/sequence_state.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/model/weights.h"

namespace kvscope::engine {
namespace {

// Tokens leave a cache where it is if they are at most one in so many, and if at most one slot in so many is not needed any more.
constexpr std::size_t kFewLeave = 4;
constexpr int kLittleSpare = 8;

}  // namespace

SequenceState::SequenceState(const LoadedModel& model_, const PolicySpec& spec, int n_positions_, int forced_chunk,
                             FirstPass first)
    : model(model_),
      n_positions(n_positions_),
      policy(spec, n_positions, model, forced_chunk, std::move(first)),
      cache(model.config().n_layers, model.config().n_kv_heads, model.config().head_dim, policy.prompt_slots(),
            model.weights().dtype, model.weights().device) {
  const ModelConfig& config = model.config();
  const auto floats = at::TensorOptions().device(model.weights().device).dtype(at::kFloat);
  const TokenScorer* scorer = policy.scorer();
  const int window = policy.geometry().window;
  if (scorer != nullptr) {
    memory = scorer->new_memory();
    if (scorer->delay() < window) {
      score_ring =
          at::full({config.n_layers, config.n_kv_heads, window + 1}, std::numeric_limits<float>::quiet_NaN(), floats);
    }
  }
  const kernels::RetainRule rule = policy.rule();
  if (rule == kernels::RetainRule::window || rule == kernels::RetainRule::threshold)
    recent_slot = at::full({config.n_layers, config.n_kv_heads, window}, -1, floats.dtype(at::kInt));
  // All pages at once: memory stays as it is, and every head's pages follow each other, so that rows() copies nothing.
  if (policy.has_fixed_budget() || (policy.prefills_densely() && !policy.has_local_layers()))
    cache.reserve(policy.prompt_slots());
  for (int layer = 0; policy.prefills_densely() && policy.has_local_layers() && layer < config.n_layers; ++layer)
    if (!policy.is_local_layer(layer)) cache.reserve(layer, policy.prompt_slots());
  methods = make_methods(*this);
}

void SequenceState::change_policy(const PolicySpec& next) {
  policy.change(next, [&](const PolicySpec& spec) {
    return std::all_of(methods.begin(), methods.end(), [&](const auto& method) { return method->accepts(spec); });
  });
}

void SequenceState::keep_only(const std::vector<std::vector<std::int32_t>>& keep, int max_slots) {
  std::size_t most = 0;
  for (const auto& slots : keep) most = std::max(most, slots.size());
  cache = cache.only(keep, std::max(max_slots, static_cast<int>(most)), policy.has_fixed_budget());
  order.forget();
  tell_change();
}

void SequenceState::take_out(int n_tokens, const std::vector<std::vector<std::int32_t>>& leave, int max_slots) {
  const std::vector<SlotOrder::Head>& heads = order.read(cache, n_tokens);
  std::size_t held = 0, n = 0;
  for (std::size_t head = 0; head < heads.size(); ++head) held += heads[head].slots.size(), n += leave[head].size();
  const int spare = cache.max_slots() - max_slots;
  // What a peak has left in the pool is the device's again only with a new cache.
  const bool is_used = policy.has_fixed_budget() || cache.pool_bytes() <= 2 * cache.bytes();
  const bool in_place = is_used && n * kFewLeave <= held && spare >= 0 && spare * kLittleSpare <= cache.max_slots();
  std::vector<std::vector<std::int32_t>> slots(heads.size());
  for (std::size_t head = 0; head < heads.size(); ++head) {
    const std::vector<std::int32_t>& of_head = heads[head].slots;
    if (in_place) {
      for (const std::int32_t place : leave[head]) slots[head].push_back(of_head[static_cast<std::size_t>(place)]);
      continue;
    }
    auto gone = leave[head].begin();
    for (std::size_t place = 0; place < of_head.size(); ++place) {
      if (gone != leave[head].end() && *gone == static_cast<std::int32_t>(place)) {
        ++gone;
      } else {
        slots[head].push_back(of_head[place]);
      }
    }
  }
  if (!in_place) return keep_only(slots, max_slots);
  if (n == 0) return;
  order.remove(leave, cache.remove(std::move(slots)));
  tell_change();
}

void SequenceState::tell_change() {
  knows_recent_slots_ = false;
  for (const auto& method : methods) method->cache_changed();
}

void SequenceState::find_recent_slots(int n_tokens) {
  if (!recent_slot.defined() || std::exchange(knows_recent_slots_, true)) return;
  const std::int64_t window = recent_slot.size(2);
  const at::Tensor slots = at::arange(cache.slot_positions().size(2), recent_slot.options());
  for (int layer = 0; layer < model.config().n_layers; ++layer) {
    const at::Tensor position = cache.slot_position(layer);
    // One more cell takes the slots of all other tokens.
    const at::Tensor cell =
        position.remainder(window).masked_fill_(position < std::max<std::int64_t>(0, n_tokens - window), window);
    at::Tensor found = at::full({position.size(0), window + 1}, -1, recent_slot.options());
    found.scatter_(1, cell.to(at::kLong), slots.expand_as(position));
    recent_slot[layer].copy_(found.narrow(1, 0, window));
  }
}

}  // namespace kvscope::engine
