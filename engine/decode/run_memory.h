#pragma once
// How many runs fit into memory at once.

#include <cstdint>

#include "engine/core/record/run_request.h"
#include "engine/scorer/loaded_model.h"

namespace kvscope::engine {

/// Runs that are in flight at once at most, unless a user says otherwise: 32 on CUDA, and 8 on the CPU, whose products
/// read the weights once for 8 tokens.
int most_runs_at_once(bool is_cuda);

/// Bytes that a run of n_positions may come to need while it is in flight: keys and values of its cache at its largest,
/// and, if the oracle looks on the way, what the oracle holds.
std::int64_t run_bytes(const LoadedModel& model, const RunRequest& request, int n_positions);

/// Bytes that can still be had where the model computes.
std::int64_t free_bytes(const LoadedModel& model);

/// Whether a run of `wanted` bytes may join `n` runs that need `used` bytes together, where `free` bytes were free
/// before the first of them: always if it is the first, never beyond `most`, and else if all of them need at most half
/// of what was free. The other half is for what one of them needs for a while: its prompt, the final oracle, the output
/// error.
constexpr bool has_room(int n, int most, std::int64_t wanted, std::int64_t used, std::int64_t free) {
  return n == 0 || (n < most && used + wanted <= free / 2);
}

}  // namespace kvscope::engine
