#include "views/figure/fingerprints.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kvscope::views {
namespace {

constexpr double kCellAspect = 2;  // width / height of a cell where the order leaves a choice

}  // namespace

const std::string_view kKeptShareDefinition =
    "Kept share: of the pairs of a query and a token between the head's sinks and window, those in which the token is in "
    "the cache.";

FingerprintGrid fingerprint_grid(const RunFingerprints& prints, FingerprintOrder order, const Box& box) {
  const auto n = static_cast<int>(prints.heads.size());
  FingerprintGrid grid{std::max(1, prints.n_kv_heads), std::max(1, prints.n_layers),
                       std::vector<int>(prints.heads.size())};
  std::iota(grid.heads.begin(), grid.heads.end(), 0);
  if (order == FingerprintOrder::layer || n == 0) return grid;
  std::ranges::stable_sort(grid.heads, {},
                           [&](int head) { return cluster_of(prints.heads[static_cast<std::size_t>(head)]); });
  const double wanted = std::sqrt(n * box.w / std::max(1.0, box.h * kCellAspect));
  grid.columns = std::clamp(static_cast<int>(std::lround(wanted)), 1, n);
  grid.rows = (n + grid.columns - 1) / grid.columns;
  grid.heads.resize(static_cast<std::size_t>(grid.columns) * static_cast<std::size_t>(grid.rows), -1);
  return grid;
}

std::string_view profile_name(FingerprintProfile profile) {
  constexpr std::string_view kNames[] = {"token age", "position", "token class"};
  return kNames[static_cast<std::size_t>(profile)];
}

TokenSpan fingerprint_bins(std::span<const RunFingerprints* const> prints, FingerprintProfile profile) {
  if (profile != FingerprintProfile::age) return {0, profile == FingerprintProfile::kind ? kTokenKinds : kPositionBins};
  constexpr int kNoBin = 64;  // there are fewer
  TokenSpan bins{kNoBin, 0};
  for (const RunFingerprints* run : prints) {
    for (const HeadFingerprint& head : run->heads) {
      for (int bin = 0; bin < static_cast<int>(head.ages.size()); ++bin)
        if (head.ages[static_cast<std::size_t>(bin)].pairs > 0)
          bins = {std::min(bins.begin, bin), std::max(bins.end, bin + 1)};
    }
  }
  return bins.empty() ? TokenSpan{0, 1} : bins;
}

std::string bin_name(FingerprintProfile profile, int bin) {
  if (profile == FingerprintProfile::kind) return std::string(kTokenKindNames[static_cast<std::size_t>(bin)]);
  if (profile == FingerprintProfile::age)
    return std::to_string(age_bin_begin(bin)) + "-" + std::to_string(age_bin_end(bin) - 1);
  constexpr int kPercent = 100 / kPositionBins;
  return std::to_string(bin * kPercent) + "-" + std::to_string((bin + 1) * kPercent) + " %";
}

std::vector<int> heads_of_clusters(const RunFingerprints& prints) {
  std::vector<int> counts(kHeadClusters, 0);
  for (const HeadFingerprint& head : prints.heads) ++counts[static_cast<std::size_t>(cluster_of(head))];
  return counts;
}

Colour cluster_colour(HeadCluster cluster, bool dark) {
  switch (cluster) {
    case HeadCluster::sink:
      return dark ? Colour{150, 152, 158, 255} : Colour{120, 120, 120, 255};
    case HeadCluster::full:
      return {86, 180, 233, 255};  // sky blue
    case HeadCluster::retrieval:
      return dark ? Colour{240, 128, 50, 255} : Colour{213, 94, 0, 255};  // vermilion
    case HeadCluster::punctuation:
      return {204, 121, 167, 255};  // reddish purple
    case HeadCluster::local:
      return dark ? Colour{70, 140, 210, 255} : Colour{0, 114, 178, 255};  // blue
    case HeadCluster::even:
      return dark ? Colour{60, 200, 155, 255} : Colour{0, 158, 115, 255};  // green
    case HeadCluster::none:
      break;
  }
  return dark ? Colour{66, 68, 74, 255} : Colour{222, 222, 220, 255};
}

}  // namespace kvscope::views
