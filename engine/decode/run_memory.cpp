#include "engine/decode/run_memory.h"

#include <c10/core/CachingDeviceAllocator.h>

#include <exception>

#include "engine/core/support/available_memory.h"
#include "engine/decode/eviction/active_policy.h"
#include "engine/decode/generation_batch.h"
#include "engine/model/device.h"
#include "engine/model/weights.h"

namespace kvscope::engine {
namespace {

/// Slots that a head comes to use at most.
int slots_of(const LoadedModel& model, const RunRequest& request, int n_positions) {
  try {
    return ActivePolicy(request.policy, n_positions, model, request.chunk).prompt_slots();
  } catch (
      const std::exception&) {  // a policy that needs a first pass over the prompt, or one that its run will refuse
    return n_positions;
  }
}

}  // namespace

int most_runs_at_once(bool is_cuda) { return is_cuda ? GenerationBatch::kMaxBatch : 8; }

std::int64_t run_bytes(const LoadedModel& model, const RunRequest& request, int n_positions) {
  const ModelConfig& config = model.config();
  const auto element = static_cast<std::int64_t>(c10::elementSize(model.weights().dtype));
  const std::int64_t slot = 2LL * config.n_layers * config.n_kv_heads * config.head_dim * element;
  std::int64_t bytes = slot * slots_of(model, request, n_positions);
  const std::int64_t sums = 4LL * config.n_layers * config.n_heads * sizeof(float);  // DenseTeacher's, of a position
  if (request.oracle && request.oracle_looks) bytes += (slot + sums) * n_positions;
  return bytes;
}

std::int64_t free_bytes(const LoadedModel& model) {
  const c10::Device device = model.weights().device;
  if (!device.is_cuda()) return available_memory();
  const auto stats = c10::getDeviceAllocator(c10::kCUDA)->getDeviceStats(device.index());
  constexpr std::size_t kAll = 0;  // of all pools together
  const std::int64_t kept_for_later = stats.reserved_bytes[kAll].current - stats.allocated_bytes[kAll].current;
  return cuda_device(device.index()).free_bytes + kept_for_later;
}

}  // namespace kvscope::engine
