#include "engine/core/lifetime/lifetime_map.h"

namespace kvscope {

TokenState token_state(std::int32_t q, std::int32_t t, std::int32_t evict_at, int n_sink, int window) {
  if (t > q) return TokenState::future;
  if (!visible(q, t, evict_at)) return TokenState::evicted;
  if (t < n_sink) return TokenState::sink;  // also while it is inside the window: its place is never contested
  return t > q - window ? TokenState::window : TokenState::kept;
}

}  // namespace kvscope
