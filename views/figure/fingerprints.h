#pragma once
// What is drawn of heads' fingerprints: one profile of each head of a run, in an order, and one head's in several runs.

#include <span>
#include <string>
#include <vector>

#include "engine/core/study/heads/head_cluster.h"
#include "views/figure/figure.h"
#include "views/figure/token_span.h"

namespace kvscope::views {

enum class FingerprintOrder : std::uint8_t { layer, cluster };

/// How the view looks at them. Part of the selection: plain data.
struct FingerprintLook {
  FingerprintProfile profile = FingerprintProfile::age;
  FingerprintOrder order = FingerprintOrder::layer;
  bool operator==(const FingerprintLook&) const = default;
};

struct FingerprintOptions {
  FingerprintProfile profile = FingerprintProfile::age;
  FingerprintOrder order = FingerprintOrder::layer;
  int layer = 0, kv_head = 0;      // the head that is drawn of every run
  std::vector<std::string> names;  // of the runs; one without is "A", "B" ...
  std::vector<int> previews;       // which of the runs are previews
  bool operator==(const FingerprintOptions&) const = default;
};
inline constexpr std::size_t kMostFingerprintRuns = 8;

/// Heads as cells, from the upper left row by row.
struct FingerprintGrid {
  int columns = 1, rows = 1;
  std::vector<int> heads;  // [rows * columns] indices into RunFingerprints::heads; -1: nothing there
};
/// A row for each layer; by cluster as many columns as make cells twice as wide as they are high.
FingerprintGrid fingerprint_grid(const RunFingerprints& prints, FingerprintOrder order, const Box& box);

/// "token age", "position", "token class".
std::string_view profile_name(FingerprintProfile profile);
/// The bins that are drawn, the same in every cell: of ages those from the first to the last in which a head has a pair.
TokenSpan fingerprint_bins(std::span<const RunFingerprints* const> prints, FingerprintProfile profile);
/// "64-127", "10-20 %", "digits".
std::string bin_name(FingerprintProfile profile, int bin);
/// What a share is of: the definition, in a sentence.
extern const std::string_view kKeptShareDefinition;

/// How many heads each cluster has, in the order of HeadCluster.
std::vector<int> heads_of_clusters(const RunFingerprints& prints);
Colour cluster_colour(HeadCluster cluster, bool dark);

}  // namespace kvscope::views
