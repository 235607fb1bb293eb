#include "kernels/decode_attention.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/gemv.h"
#include "kernels/cpu/online_softmax.h"
#include "kernels/cpu/parallel_for.h"
#include "kernels/cpu/slots.h"
#include "kernels/cpu/vector.h"
#include "kernels/validate.h"

namespace kvscope::kernels::cpu {
namespace {

constexpr int kTile = 64;  // slots

/// Occupied slots that lie one after the other in the pools.
struct Run {
  std::int64_t offset;  // of the first one's elements
  int n;
};

/// The runs among slots begin ... end - 1 of a head. Free slots are left out rather than weighted 0: what lies in them
/// may be NaN, and 0 * NaN is NaN. Returns how many runs there are.
int find_runs(const SlotCacheView& cache, int kv_head, std::int32_t begin, std::int32_t end, Run* runs) {
  const std::int32_t* position = cache.slot_position + slot_row(cache, kv_head);
  int n_runs = 0;
  for (std::int32_t slot = begin; slot < end;) {
    const std::int32_t page_end = std::min(end, (slot / cache.page_size + 1) * cache.page_size);
    std::int64_t offset = slot_offset(cache, kv_head, slot);
    for (bool continues = false; slot < page_end; ++slot, offset += cache.head_dim) {
      const bool is_occupied = position[slot] >= 0;
      if (is_occupied && continues) ++runs[n_runs - 1].n;
      if (is_occupied && !continues) runs[n_runs++] = {offset, 1};
      continues = is_occupied;
    }
  }
  return n_runs;
}

/// What a thread needs for one KV head; kept between calls, which are too short to allocate in.
struct Buffers {
  std::vector<float> q, logits, o;
  std::vector<OnlineSoftmax> softmax;
};

/// The group's queries [group_size, head_dim] as the products of the cache's rows want them.
const void* queries(const DecodeAttentionArgs& args, std::int64_t first, std::int64_t n, Buffers& buffers) {
  if (args.cache.dtype == DType::bf16 && best_gemv().narrow_vectors)
    return static_cast<const BFloat16*>(args.q) + first;
  buffers.q.resize(n);
  return as_floats(args.q, first, n, args.cache.dtype, buffers.q.data());
}

void multiply_keys(const SlotCacheView& cache, const Run& run, const void* q, int group_size, float* logits) {
  if (cache.dtype == DType::f32) {
    best_gemv().f32(static_cast<const float*>(cache.k_pool) + run.offset, static_cast<const float*>(q), cache.head_dim,
                    run.n, group_size, logits, kTile);
  } else {
    best_gemv().bf16(static_cast<const BFloat16*>(cache.k_pool) + run.offset, q, cache.head_dim, run.n, group_size,
                     logits, kTile);
  }
}

void add_values(const SlotCacheView& cache, const Run& run, const float* weights, int group_size, float* o) {
  if (cache.dtype == DType::f32) {
    best_gemv().add_f32(static_cast<const float*>(cache.v_pool) + run.offset, weights, kTile, cache.head_dim, run.n,
                        group_size, o);
  } else {
    best_gemv().add_bf16(static_cast<const BFloat16*>(cache.v_pool) + run.offset, weights, kTile, cache.head_dim, run.n,
                         group_size, o);
  }
}

/// All query heads of one KV head, so that each key and value is read once.
void attend_group(const DecodeAttentionArgs& args, int kv_head) {
  const SlotCacheView& cache = args.cache;
  const int group_size = args.n_heads / cache.n_kv_heads;
  const std::int64_t n = static_cast<std::int64_t>(group_size) * cache.head_dim, first = kv_head * n;
  thread_local Buffers buffers;
  const void* q = queries(args, first, n, buffers);
  buffers.o.assign(n, 0.0f);
  buffers.logits.resize(group_size * kTile);
  buffers.softmax.assign(group_size, {});
  float* o = buffers.o.data();
  float* logits = buffers.logits.data();

  const std::int32_t n_slots = cache.n_slots[kv_head];
  for (std::int32_t begin = 0; begin < n_slots; begin += kTile) {
    Run runs[kTile];
    const int n_runs = find_runs(cache, kv_head, begin, std::min(begin + kTile, n_slots), runs);
    int n_keys = 0;
    for (int i = 0; i < n_runs; n_keys += runs[i++].n) multiply_keys(cache, runs[i], q, group_size, logits + n_keys);
    for (int g = 0; g < group_size; ++g) {
      scale(logits + g * kTile, args.scale, n_keys);
      const float correction = buffers.softmax[g].absorb(logits + g * kTile, n_keys);
      scale(o + g * cache.head_dim, correction, cache.head_dim);
    }
    n_keys = 0;
    for (int i = 0; i < n_runs; n_keys += runs[i++].n) add_values(cache, runs[i], logits + n_keys, group_size, o);
  }
  for (int g = 0; g < group_size; ++g) {
    scale(o + g * cache.head_dim, buffers.softmax[g].normaliser(), cache.head_dim);
    if (args.lse) args.lse[kv_head * group_size + g] = buffers.softmax[g].lse();
  }
  store(o, args.o, first, n, cache.dtype);
}

}  // namespace

void decode_attention(const DecodeAttentionArgs& args) {
  validate(args);
  const SlotCacheView& cache = args.cache;
  const std::int32_t n_slots = *std::max_element(cache.n_slots, cache.n_slots + cache.n_kv_heads);
  const std::int64_t cost = 4L * n_slots * cache.head_dim * (args.n_heads / cache.n_kv_heads);
  parallel_for(cache.n_kv_heads, cost, [&](std::int64_t head) { attend_group(args, static_cast<int>(head)); });
}

}  // namespace kvscope::kernels::cpu
