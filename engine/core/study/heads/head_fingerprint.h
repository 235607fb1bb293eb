#pragma once
// What each head keeps between sinks and window: by the age of a token, by its place in the text, by the kind of its text.

#include <array>
#include <cstdint>
#include <vector>

#include "engine/core/record/run_record.h"
#include "engine/core/study/measure/token_kind.h"

namespace kvscope {

/// Pairs of a query q and a token t that is eligible there, n_sink <= t <= q - window, with sinks and window of the head; and
/// those of them in which the token is in the cache, q < evict_at[t].
struct KeptPairs {
  std::int64_t kept = 0, pairs = 0;
  double share() const;  // NaN without a pair
  KeptPairs& operator+=(const KeptPairs& other) {
    kept += other.kept, pairs += other.pairs;
    return *this;
  }
  bool operator==(const KeptPairs&) const = default;
};

/// Ages q - t in bins that double: 0 to 63, 64 to 127, 128 to 255, ...
int age_bin_of(std::int64_t age);
std::int64_t age_bin_begin(int bin);
inline std::int64_t age_bin_end(int bin) { return age_bin_begin(bin + 1); }
/// Of the text, in its order: [b n / 10, (b + 1) n / 10) of n tokens.
inline constexpr int kPositionBins = 10;

enum class FingerprintProfile : std::uint8_t { age, position, kind };

struct HeadFingerprint {
  int layer = 0, kv_head = 0;
  bool local_by_model = false;  // no policy decides there, and no pair is counted
  std::int64_t old_age = 0;     // the end of the youngest bin that ages outside the window have; older tokens are old
  std::vector<KeptPairs> ages;  // as many in all heads of the run
  std::array<KeptPairs, kPositionBins> positions;
  std::array<KeptPairs, kTokenKinds> young, old;  // by kind
  KeptPairs all() const;
  KeptPairs all_young() const;
  KeptPairs all_old() const;
  std::vector<KeptPairs> profile(FingerprintProfile of) const;
};

struct RunFingerprints {
  int n_layers = 0, n_kv_heads = 0;
  std::int32_t n_tokens = 0;           // of the text as far as it came
  std::vector<HeadFingerprint> heads;  // [n_layers * n_kv_heads]
  const HeadFingerprint& at(int layer, int kv_head) const {
    return heads[static_cast<std::size_t>(layer) * n_kv_heads + kv_head];
  }
};

/// Exact, O(tokens + bins) a head. Tokens whose fate is open although the run has ended are in no pair; while it goes on, and
/// of one that failed, they are kept.
RunFingerprints run_fingerprints(const RunRecord& run);

}  // namespace kvscope
