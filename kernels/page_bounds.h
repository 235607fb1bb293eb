#pragma once
#include "kernels/operation.h"
#include "kernels/retain_policy.h"
#include "kernels/slot_cache.h"

namespace kvscope::kernels {

/// The box around the keys of a page, channel by channel (Quest, Tang et al. 2024):
///
///     bounds[kv][page][0][c] = min of k_s[c],   bounds[kv][page][1][c] = max of k_s[c]
///                                               over the occupied slots s of the page
///
/// Exact, since a bound is one of the keys' numbers; so one page made anew and all of them made anew agree bit for bit.
/// A NaN among the numbers is the bound. A page that holds no token keeps what stood there.
struct PageBoundsArgs {
  SlotCacheView cache;  // v_pool is not read and may be null
  /// [n_kv_heads] of the step that has just written its token, after which only the page of decision[kv].slot differs:
  /// a token that leaves does so from the slot that the new one takes. Null: all pages, as after a prefill.
  const RetainDecision* decision;
  void* bounds;  // [n_kv_heads, max_pages, 2, head_dim] cache.dtype
};

/// Reads n_slots and the decision on the device: no host synchronisation, no allocation, launch shape fixed by
/// max_pages. Throws std::invalid_argument for a head_dim other than 64, 80, 96, 128, 192, 256, CudaError if the launch
/// fails.
KVSCOPE_OPERATION(page_bounds, PageBoundsArgs);

}  // namespace kvscope::kernels
