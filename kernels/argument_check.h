#pragma once
// The checks that operations make before memory is touched: sizes, and pointers that may not be null.
//
// Each throws std::invalid_argument with operation, argument, value found and value expected. Which head_dim a kernel
// was compiled for is not asked here: cuda/dispatch.cuh and the CPU files refuse what they lack.

#include <initializer_list>
#include <limits>
#include <utility>

#include "kernels/retain_policy.h"
#include "kernels/slot_cache.h"

namespace kvscope::kernels {

/// Positions are int32 everywhere, and a position plus a window must not overflow.
inline constexpr std::int64_t kMaxTokens = std::numeric_limits<std::int32_t>::max() / 2;

/// Throws "<op>: <name> is <value>; expected <expected>".
[[noreturn]] void refuse(const char* op, const char* name, long long value, const char* expected);

/// Names the operation once for all checks of one call.
class ArgumentCheck {
 public:
  explicit ArgumentCheck(const char* op) : op_(op) {}

  void range(const char* name, std::int64_t value, std::int64_t low, std::int64_t high) const;
  void multiple(const char* name, std::int64_t value, std::int64_t of, const char* expected) const {
    if (value % of != 0) refuse(op_, name, value, expected);
  }
  void even(const char* name, std::int64_t value) const { multiple(name, value, 2, "an even number"); }
  void pointer(const char* name, const void* value) const;
  void pointers(std::initializer_list<std::pair<const char*, const void*>> named) const {
    for (const auto& [name, value] : named) pointer(name, value);
  }
  void dtype(DType value) const { range("dtype", static_cast<int>(value), 0, static_cast<int>(DType::bf16)); }
  void heads(int n_heads, int n_kv_heads) const;
  void soft_cap(float value) const;

  /// Of a cache: its geometry; what is needed to read keys; keys and values.
  void geometry(const SlotCacheView& cache) const;
  void keys(const SlotCacheView& cache) const;
  void pools(const SlotCacheView& cache) const;

  /// A policy, and what it reads and writes.
  void retention(const RetainPolicy& policy, const SlotCacheView& cache, const RetainDecision* decision) const;

 private:
  const char* op_;
};

}  // namespace kvscope::kernels
