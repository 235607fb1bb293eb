#include "app/page/packed_run.h"

#include <zlib.h>

#include <algorithm>
#include <new>
#include <stdexcept>

#include "engine/core/study/measure/oracle.h"

namespace kvscope::app {
namespace {

constexpr int kMostTokens = 16384;       // a page with more spans of text scrolls badly
constexpr int kMostLifetimes = 1 << 22;  // counted again at every step of the scrubber: 10 ms
constexpr int kGreatest16 = 65533;       // below the two that mean something else

void append16(std::string& bytes, int value) {
  bytes += static_cast<char>(value & 0xFF);
  bytes += static_cast<char>(value >> 8 & 0xFF);
}

int packed_lifetime(std::int32_t evict_at) {
  if (evict_at == kNever) return kPackedNever;
  if (evict_at == kUndecided) return kPackedUndecided;
  return std::clamp(evict_at, 0, kGreatest16);  // beyond every query of a page: the same to all of them
}

PackedArray lifetimes(const RunRecord& run) {
  PackedArray packed{"evict_at", "Uint16", run.n_tokens(), {}};
  for (int layer = 0; layer < run.evict_at.n_layers(); ++layer) {
    for (int head = 0; head < run.evict_at.n_kv_heads(); ++head) {
      for (const std::int32_t evict_at : run.evict_at.row(layer, head))
        append16(packed.bytes, packed_lifetime(evict_at));
    }
  }
  return packed;
}

PackedArray verdicts(const RunRecord& run) {
  PackedArray packed{"verdict", "Uint8", run.n_tokens(), {}};
  for (const auto& head : eviction_verdicts(run)) {
    for (const VerdictOfEviction& found : head) packed.bytes += static_cast<char>(verdict_code(found));
  }
  return packed;
}

}  // namespace

int most_page_tokens(int n_heads) { return std::min(kMostTokens, kMostLifetimes / std::max(1, n_heads)); }

std::vector<PackedArray> packed_arrays(const RunRecord& run) {
  if (run.n_tokens() > most_page_tokens(run.evict_at.n_layers() * run.evict_at.n_kv_heads()))
    throw std::logic_error("a run too long for a page");
  std::vector<PackedArray> arrays;
  arrays.push_back(lifetimes(run));
  const Oracle oracle(run);
  if (!oracle.is_known()) return arrays;
  arrays.push_back(verdicts(run));
  PackedArray hits{"hits", "Uint16", oracle.n_queries(), {}}, capacity{"capacity", "Uint16", oracle.n_queries(), {}};
  for (const auto& curve : oracle.curves()) {
    for (const OracleCounts& counts : curve) {
      append16(hits.bytes, counts.chosen ? counts.hits : 0);
      append16(capacity.bytes, counts.chosen ? counts.capacity : 0);
    }
  }
  arrays.push_back(std::move(hits));
  arrays.push_back(std::move(capacity));
  return arrays;
}

std::string deflated(const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string packed(size, '\0');
  const int result = compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                               reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(), Z_BEST_COMPRESSION);
  if (result == Z_MEM_ERROR) throw std::bad_alloc();
  if (result != Z_OK) throw std::logic_error("zlib has refused to pack a page's array");
  packed.resize(size);
  return packed;
}

}  // namespace kvscope::app
