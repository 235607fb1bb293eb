#include "kernels/argument_check.h"

#include <cmath>
#include <stdexcept>
#include <string>

namespace kvscope::kernels {

void refuse(const char* op, const char* name, long long value, const char* expected) {
  throw std::invalid_argument(std::string(op) + ": " + name + " is " + std::to_string(value) + "; expected " +
                              expected);
}

void ArgumentCheck::range(const char* name, std::int64_t value, std::int64_t low, std::int64_t high) const {
  if (value >= low && value <= high) return;
  refuse(op_, name, value, (std::to_string(low) + " ... " + std::to_string(high)).c_str());
}

void ArgumentCheck::pointer(const char* name, const void* value) const {
  if (!value) throw std::invalid_argument(std::string(op_) + ": " + name + " is null");
}

void ArgumentCheck::heads(int n_heads, int n_kv_heads) const {
  range("n_kv_heads", n_kv_heads, 1, 4096);
  range("n_heads", n_heads, n_kv_heads, 65535);
  multiple("n_heads", n_heads, n_kv_heads, "a multiple of n_kv_heads");
}

void ArgumentCheck::soft_cap(float value) const {
  if (value >= 0 && std::isfinite(value)) return;
  throw std::invalid_argument(std::string(op_) + ": soft_cap is " + std::to_string(value) +
                              "; expected 0 or a finite positive number");
}

void ArgumentCheck::geometry(const SlotCacheView& cache) const {
  range("cache.n_kv_heads", cache.n_kv_heads, 1, 4096);
  range("cache.page_size", cache.page_size, 1, 4096);
  range("cache.max_pages", cache.max_pages, 1, kMaxTokens / cache.page_size);
  pointer("cache.slot_position", cache.slot_position);
}

void ArgumentCheck::keys(const SlotCacheView& cache) const {
  geometry(cache);
  range("cache.head_dim", cache.head_dim, 1, 256);
  dtype(cache.dtype);
  pointers({{"cache.k_pool", cache.k_pool}, {"cache.page_table", cache.page_table}});
}

void ArgumentCheck::pools(const SlotCacheView& cache) const {
  keys(cache);
  pointer("cache.v_pool", cache.v_pool);
}

void ArgumentCheck::retention(const RetainPolicy& policy, const SlotCacheView& cache,
                              const RetainDecision* decision) const {
  pointer("cache.n_slots", cache.n_slots);
  range("rule", static_cast<int>(policy.rule), 0, static_cast<int>(RetainRule::least));
  range("n_sink", policy.n_sink, 0, kMaxTokens);
  // A window of 0 would let token q leave before it was written.
  range("window", policy.window, 1, kMaxTokens);
  range("top_k", policy.top_k, 0, kMaxTokens);
  range("decay_stride", policy.decay_stride, 1, kMaxTokens);
  // Of n_sink + window + top_k + 1 tokens one must be neither sink nor protected. top_k is the least of head_top_k.
  const bool is_least = policy.rule == RetainRule::least;
  const std::int64_t free_to_leave = std::int64_t{policy.window} + policy.top_k;
  range("protect", policy.protect, 0, is_least ? free_to_leave : kMaxTokens);
  pointer("decision", decision);
  if (is_scored(policy.rule) || is_least) pointer("cache.slot_priority", cache.slot_priority);
}

}  // namespace kvscope::kernels
