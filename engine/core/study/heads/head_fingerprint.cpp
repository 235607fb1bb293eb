#include "engine/core/study/heads/head_fingerprint.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <span>

namespace kvscope {
namespace {

constexpr std::int64_t kFirstAges = 64;  // of the youngest bin

/// Ages [first, first + n) of many tokens, n of each: only the bin in which they end is not counted in full.
class AgeCounts {
 public:
  AgeCounts(std::int64_t first, int n_bins)
      : first_(first), ends_(static_cast<std::size_t>(n_bins), 0), partial_(ends_.size(), 0) {}

  void add(std::int64_t n) {
    if (n <= 0) return;
    const std::int64_t last = first_ + n - 1;
    const auto bin = static_cast<std::size_t>(age_bin_of(last));
    ++ends_[bin];
    partial_[bin] += last - begin(bin) + 1;
  }
  std::vector<std::int64_t> by_bin() const {
    std::vector<std::int64_t> counts = partial_;
    std::int64_t older = 0;  // tokens that end in an older bin
    for (std::size_t bin = counts.size(); bin-- > 0; older += ends_[bin])
      counts[bin] += older * std::max<std::int64_t>(0, age_bin_end(static_cast<int>(bin)) - begin(bin));
    return counts;
  }

 private:
  std::int64_t begin(std::size_t bin) const { return std::max(first_, age_bin_begin(static_cast<int>(bin))); }

  std::int64_t first_;
  std::vector<std::int64_t> ends_, partial_;
};

/// What all heads of a run share.
struct PrintedText {
  const RunRecord& run;
  std::int64_t queries;
  std::int32_t n_tokens;
  int n_age_bins;
  bool open;  // what has no lifetime is alive
  std::vector<TokenKind> kinds;

  explicit PrintedText(const RunRecord& run)
      : run(run),
        queries(run.queries()),
        n_tokens(run.n_tokens()),
        n_age_bins(age_bin_of(std::max<std::int64_t>(0, queries - 1)) + 1),
        open(run.status == RunStatus::running || run.status == RunStatus::failed),
        kinds(token_kinds(run)) {}
};

/// A token's pairs are its ages from the window's to that of the last query; kept ones are the first of these, as it leaves once.
void count_head(const PrintedText& text, HeadFingerprint& head) {
  const RetentionGeometry geometry = text.run.geometry(head.layer, head.kv_head);
  const std::vector<std::int32_t>& evict_at = text.run.evict_at.row(head.layer, head.kv_head);
  const std::int64_t window = geometry.window;
  head.old_age = age_bin_end(age_bin_of(window));
  const std::int64_t n_young = head.old_age - window;
  AgeCounts kept(window, text.n_age_bins), eligible(window, text.n_age_bins);
  const std::int64_t end =
      std::min<std::int64_t>({static_cast<std::int64_t>(evict_at.size()), text.n_tokens, text.queries - window});
  for (std::int64_t t = std::max(0, geometry.n_sink); t < end; ++t) {
    const auto i = static_cast<std::size_t>(t);
    if (!text.open && evict_at[i] == kUndecided) continue;
    const std::int64_t n = text.queries - window - t;
    const std::int64_t n_kept = std::clamp<std::int64_t>(evict_at[i] - window - t, 0, n);
    eligible.add(n), kept.add(n_kept);
    head.positions[static_cast<std::size_t>(((t + 1) * kPositionBins - 1) / text.n_tokens)] += {n_kept, n};
    const auto kind = static_cast<std::size_t>(text.kinds[i]);
    const KeptPairs young{std::min(n_kept, n_young), std::min(n, n_young)};
    head.young[kind] += young;
    head.old[kind] += {n_kept - young.kept, n - young.pairs};
  }
  const std::vector<std::int64_t> kept_by_age = kept.by_bin(), pairs_by_age = eligible.by_bin();
  for (std::size_t bin = 0; bin < head.ages.size(); ++bin) head.ages[bin] = {kept_by_age[bin], pairs_by_age[bin]};
}

KeptPairs total_of(std::span<const KeptPairs> parts) {
  KeptPairs sum;
  for (const KeptPairs& part : parts) sum += part;
  return sum;
}

}  // namespace

double KeptPairs::share() const {
  return pairs > 0 ? static_cast<double>(kept) / static_cast<double>(pairs) : std::numeric_limits<double>::quiet_NaN();
}

int age_bin_of(std::int64_t age) {
  return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(0, age) / kFirstAges)));
}

std::int64_t age_bin_begin(int bin) { return bin == 0 ? 0 : kFirstAges << (bin - 1); }

KeptPairs HeadFingerprint::all() const { return total_of(positions); }
KeptPairs HeadFingerprint::all_young() const { return total_of(young); }
KeptPairs HeadFingerprint::all_old() const { return total_of(old); }

std::vector<KeptPairs> HeadFingerprint::profile(FingerprintProfile of) const {
  if (of == FingerprintProfile::age) return ages;
  if (of == FingerprintProfile::position) return {positions.begin(), positions.end()};
  std::vector<KeptPairs> kinds(young.begin(), young.end());
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) kinds[kind] += old[kind];
  return kinds;
}

RunFingerprints run_fingerprints(const RunRecord& run) {
  const PrintedText text(run);
  RunFingerprints prints{
      .n_layers = run.evict_at.n_layers(), .n_kv_heads = run.evict_at.n_kv_heads(), .n_tokens = text.n_tokens};
  for (int layer = 0; layer < prints.n_layers; ++layer) {
    for (int kv_head = 0; kv_head < prints.n_kv_heads; ++kv_head) {
      HeadFingerprint& head = prints.heads.emplace_back();
      head.layer = layer, head.kv_head = kv_head;
      head.ages.resize(static_cast<std::size_t>(text.n_age_bins));
      head.local_by_model = run.is_local_by_model(layer, kv_head);
      if (!head.local_by_model) count_head(text, head);
    }
  }
  return prints;
}

}  // namespace kvscope
