#pragma once
// The one way in which the CPU kernels use several cores.

#include <cstdint>
#include <functional>

namespace kvscope::kernels {

/// Calls body(i) once for every i in [0, n), on up to thread_count() threads, and returns when all are done.
///
/// `cost` is a guess at the floating-point operations of one call: work too small to pay for handing it to a thread
/// that is looking for work (about 2 us; threads look on for 50 us after each job, then sleep), or for waking one
/// (about 20 us), runs on the caller alone. Which thread takes which i is not fixed, so body(i) must write only what
/// belongs to i; then results do not depend on the number of threads. body must not throw. Any thread may call this:
/// calls from several threads take turns, a call from inside a body runs on that thread.
///
/// An own pool rather than OpenMP: LibTorch brings an OpenMP runtime with its own threads (two pools would fight for
/// the cores), and ThreadSanitizer does not understand the barriers of gcc's.
void parallel_for(std::int64_t n, std::int64_t cost, const std::function<void(std::int64_t)>& body);

/// From here on the calling thread runs parallel_for's items by itself: other threads work beside it, and would wait.
void compute_alone();

/// Threads that look for work may fetch this memory into their caches meanwhile: what the next call will read. Attention of
/// few heads, a norm and the last piece of a product leave cores without work; SmolLM2's step is 3 to 4 % shorter so.
void fetch_when_idle(const void* begin, std::int64_t bytes);

/// Threads among which parallel_for may share out its items, the caller included: a thread a core, or fewer where
/// OMP_NUM_THREADS says so, which limits LibTorch's. KVSCOPE_THREADS limits these alone, and goes before it.
int thread_count();

/// What `wanted` ("4"; a list "4,2" as OpenMP has it counts by its first) leaves of `cores`; null and what is no number
/// above zero leave all.
int thread_limit(const char* wanted, int cores);

}  // namespace kvscope::kernels
