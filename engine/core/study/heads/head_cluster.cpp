#include "engine/core/study/heads/head_cluster.h"

#include <cmath>
#include <initializer_list>

#include "engine/core/support/text.h"

namespace kvscope {
namespace {

constexpr double kAlmostNothing = 0.02, kAlmostAll = 0.95;  // of all tokens
constexpr double kMore = 0.1;                               // than all tokens
constexpr double kSteep = 0.5;                              // of what it keeps of young tokens

constexpr HeadClusterInfo kHeadClusterInfos[kHeadClusters] = {
    {HeadCluster::sink, "sink", "keeps less than 2 % of the tokens"},
    {HeadCluster::full, "full", "keeps at least 95 % of the tokens"},
    {HeadCluster::retrieval, "retrieval",
     "keeps digits and capitalised words at least 10 points above the mean, and above or at the mean among young and "
     "among old tokens"},
    {HeadCluster::punctuation, "punctuation", "keeps punctuation at least 10 points above the mean"},
    {HeadCluster::local, "local", "keeps old tokens less than half as often as young ones"},
    {HeadCluster::even, "even", "no other rule holds"},
    {HeadCluster::none, "none", "no token was between sinks and window, or no policy decides in this layer"}};

KeptPairs pairs_of_kinds(const std::array<KeptPairs, kTokenKinds>& of, std::initializer_list<TokenKind> kinds) {
  KeptPairs pairs;
  for (const TokenKind kind : kinds) pairs += of[static_cast<std::size_t>(kind)];
  return pairs;
}

/// One group of tokens of a head, and those of it at each age.
struct GroupShares {
  KeptPairs young, old;
  GroupShares(const HeadFingerprint& head, std::initializer_list<TokenKind> kinds)
      : young(pairs_of_kinds(head.young, kinds)), old(pairs_of_kinds(head.old, kinds)) {}
  double share() const {
    KeptPairs both = young;
    return (both += old).share();
  }
};

GroupShares fact_shares(const HeadFingerprint& head) { return {head, {TokenKind::digits, TokenKind::capitalised}}; }
GroupShares sign_shares(const HeadFingerprint& head) { return {head, {TokenKind::punctuation}}; }

// Of a group without a pair the share is NaN, which is not below and not above anything.
bool is_retrieval(const HeadFingerprint& head) {
  const GroupShares facts = fact_shares(head);
  return facts.share() >= head.all().share() + kMore && !(facts.young.share() < head.all_young().share()) &&
         !(facts.old.share() < head.all_old().share());
}

}  // namespace

std::span<const HeadClusterInfo> head_clusters() { return kHeadClusterInfos; }

HeadCluster cluster_of(const HeadFingerprint& head) {
  const double all = head.all().share();
  if (std::isnan(all)) return HeadCluster::none;
  if (all < kAlmostNothing) return HeadCluster::sink;
  if (all >= kAlmostAll) return HeadCluster::full;
  if (is_retrieval(head)) return HeadCluster::retrieval;
  if (sign_shares(head).share() >= all + kMore) return HeadCluster::punctuation;
  if (head.all_old().share() < kSteep * head.all_young().share()) return HeadCluster::local;
  return HeadCluster::even;
}

std::string cluster_reason(const HeadFingerprint& head) {
  const std::string all = share_text(head.all().share());
  const std::string old = std::to_string(head.old_age);
  switch (cluster_of(head)) {
    case HeadCluster::sink:
      return "keeps " + all + " of the tokens: less than 2 %";
    case HeadCluster::full:
      return "keeps " + all + " of the tokens: at least 95 %";
    case HeadCluster::retrieval: {
      const GroupShares facts = fact_shares(head);
      return "keeps " + share_text(facts.share()) + " of digits and capitalised words, " + all +
             " of all tokens: at least 10 points more. Below age " + old + ": " + share_text(facts.young.share()) +
             " and " + share_text(head.all_young().share()) + "; older: " + share_text(facts.old.share()) + " and " +
             share_text(head.all_old().share());
    }
    case HeadCluster::punctuation:
      return "keeps " + share_text(sign_shares(head).share()) + " of punctuation, " + all +
             " of all tokens: at least 10 points more";
    case HeadCluster::local:
      return "keeps " + share_text(head.all_young().share()) + " of the tokens below age " + old + ", " +
             share_text(head.all_old().share()) + " of older ones: less than half as many";
    case HeadCluster::even:
      return "keeps " + all + " of the tokens, and no other rule holds";
    case HeadCluster::none:
      break;
  }
  return head.local_by_model ? "the model makes this layer local: no policy decides"
                             : "no token was between sinks and window";
}

std::string share_text(double share) { return std::isnan(share) ? "–" : number_text(100 * share, 3) + " %"; }

}  // namespace kvscope
