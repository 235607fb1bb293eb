#pragma once
// The one datum: when each (layer, KV head, token) left the cache.

#include <cstdint>
#include <span>
#include <vector>

namespace kvscope {

/// Not evicted by the end of the run, and decided: the token left the window and was kept.
inline constexpr std::int32_t kNever = INT32_MAX;
/// Still inside the window when the run ended: no decision yet. Drawn as window, counted in no ratio.
inline constexpr std::int32_t kUndecided = INT32_MAX - 1;

/// One growing row of T per (layer, KV head). Rows may differ in length while a run is in progress.
template <typename T>
class HeadSeries {
 public:
  HeadSeries() = default;
  HeadSeries(int n_layers, int n_kv_heads)
      : n_layers_(n_layers), n_kv_heads_(n_kv_heads), rows_(static_cast<std::size_t>(n_layers) * n_kv_heads) {}
  int n_layers() const { return n_layers_; }
  int n_kv_heads() const { return n_kv_heads_; }
  bool empty() const { return rows_.empty(); }
  std::vector<T>& row(int layer, int kv_head) { return rows_[index(layer, kv_head)]; }
  const std::vector<T>& row(int layer, int kv_head) const { return rows_[index(layer, kv_head)]; }
  /// Makes every row `n_tokens` long, new cells set to `value`.
  void resize(std::size_t n_tokens, T value) {
    for (auto& row : rows_) row.resize(n_tokens, value);
  }
  bool operator==(const HeadSeries&) const = default;

 private:
  std::size_t index(int layer, int kv_head) const { return static_cast<std::size_t>(layer) * n_kv_heads_ + kv_head; }
  int n_layers_ = 0;
  int n_kv_heads_ = 0;
  std::vector<std::vector<T>> rows_;  // [n_layers * n_kv_heads][n_tokens]
};

/// evict_at[layer][kv_head][token]: the first query position that can no longer see the token.
using LifetimeMap = HeadSeries<std::int32_t>;

/// visible(q, t)  <=>  t <= q < evict_at[t]
constexpr bool visible(std::int32_t q, std::int32_t t, std::int32_t evict_at) { return t <= q && q < evict_at; }

/// What a token is to a head at query position q. In the window means q - window < t <= q.
enum class TokenState : std::uint8_t {
  future,
  sink,
  window,
  kept,
  evicted,
  undecided,  // it is there, but the query has not been made yet: of a run that goes on
  unread,     // in the cache, but not in the pages that the query reads
};
/// Of a query that was made and reads all that is kept: one of the first five.
TokenState token_state(std::int32_t q, std::int32_t t, std::int32_t evict_at, int n_sink, int window);

}  // namespace kvscope
