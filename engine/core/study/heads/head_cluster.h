#pragma once
// A name for what a head keeps, by rules on its fingerprint that a person can check.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/core/study/heads/head_fingerprint.h"

namespace kvscope {

/// In the order in which the rules are tried: the first that holds names the head.
enum class HeadCluster : std::uint8_t { sink, full, retrieval, punctuation, local, even, none };
inline constexpr int kHeadClusters = 7;

struct HeadClusterInfo {
  HeadCluster cluster;
  std::string_view name;  // "retrieval"
  std::string_view rule;  // "keeps less than 2 % of all tokens"
};
/// In the order of the enumeration.
std::span<const HeadClusterInfo> head_clusters();
inline std::string_view cluster_name(HeadCluster cluster) {
  return head_clusters()[static_cast<std::size_t>(cluster)].name;
}

HeadCluster cluster_of(const HeadFingerprint& head);
/// The numbers that the rule was held against: "digits and capitalised words 52 %, all tokens 34.1 %: at least 10 points more, ...".
std::string cluster_reason(const HeadFingerprint& head);
/// "34.1 %"; a dash for NaN.
std::string share_text(double share);

}  // namespace kvscope
