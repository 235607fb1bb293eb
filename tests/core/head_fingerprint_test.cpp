// What heads keep, against its definition: every pair of a query and a token looked at alone.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <utility>

#include "engine/core/study/heads/head_cluster.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using test::random_run;

namespace {

constexpr const char* kRandomPolicies[] = {"kvpop:budget=64,sinks=4,window=16,decay=0.9999",
                                           "streaming:window=30",
                                           "threshold:threshold=0.2,sinks=2,window=8",
                                           "kvpop:budget=100,sinks=0,window=80",
                                           "kvpop:budget=40,window=16,capacity=pooled,interval=16",
                                           "full"};

/// From 0, 64, 128, 256, ... on.
int bin_of_age(int age) {
  int bin = 0;
  for (int begin = 64; age >= begin; begin *= 2) ++bin;
  return bin;
}

struct BruteForce {
  std::map<int, KeptPairs> ages, positions, kinds, young, old;
  KeptPairs all;
};

BruteForce count_pairs(const RunRecord& run, int layer, int head) {
  BruteForce counted;
  const RetentionGeometry geometry = run.geometry(layer, head);
  const bool open = run.status == RunStatus::running || run.status == RunStatus::failed;
  const auto& evict_at = run.evict_at.row(layer, head);
  for (int q = 0; q < run.queries(); ++q) {
    for (int t = geometry.n_sink; t <= q - geometry.window && t < static_cast<int>(evict_at.size()); ++t) {
      const std::int32_t at = evict_at[static_cast<std::size_t>(t)];
      if (at == kUndecided && !open) continue;
      const KeptPairs pair{visible(q, t, at) ? 1 : 0, 1};
      int tenth = 0;
      while (t >= (tenth + 1) * run.n_tokens() / kPositionBins) ++tenth;
      const int kind = static_cast<int>(kind_of(run.pieces[static_cast<std::size_t>(t)]));
      counted.all += pair, counted.ages[bin_of_age(q - t)] += pair, counted.positions[tenth] += pair;
      counted.kinds[kind] += pair;
      (bin_of_age(q - t) == bin_of_age(geometry.window) ? counted.young : counted.old)[kind] += pair;
    }
  }
  return counted;
}

template <typename Bins>
void check_bins(const Bins& bins, std::map<int, KeptPairs>& expected) {
  for (std::size_t bin = 0; bin < bins.size(); ++bin) {
    CAPTURE(bin);
    const KeptPairs& pairs = expected[static_cast<int>(bin)];
    CHECK(bins[bin].kept == pairs.kept);
    CHECK(bins[bin].pairs == pairs.pairs);
  }
  CHECK(expected.size() == bins.size());  // no pair is elsewhere
}

void check_run(const RunRecord& run) {
  const RunFingerprints prints = run_fingerprints(run);
  REQUIRE((prints.n_layers == run.model.n_layers && prints.n_kv_heads == run.model.n_kv_heads));
  CHECK(prints.n_tokens == run.n_tokens());
  for (const HeadFingerprint& head : prints.heads) {
    CAPTURE(head.layer, head.kv_head);
    CHECK(&prints.at(head.layer, head.kv_head) == &head);
    BruteForce expected = count_pairs(run, head.layer, head.kv_head);
    CHECK(head.all() == expected.all);
    check_bins(head.profile(FingerprintProfile::age), expected.ages);
    check_bins(head.profile(FingerprintProfile::position), expected.positions);
    check_bins(head.profile(FingerprintProfile::kind), expected.kinds);
    check_bins(head.young, expected.young);
    check_bins(head.old, expected.old);
  }
}

/// 100 pairs, so many of them kept, of each kind and age.
HeadFingerprint made_up(std::int64_t kept) {
  HeadFingerprint head;
  head.old_age = 64;
  for (auto* half : {&head.young, &head.old}) half->fill({kept, 100});
  head.positions[0] = {2 * kTokenKinds * kept, 2 * kTokenKinds * 100};
  return head;
}

void set_kept(HeadFingerprint& head, TokenKind kind, std::int64_t young, std::int64_t old) {
  const auto k = static_cast<std::size_t>(kind);
  head.young[k].kept = young, head.old[k].kept = old;
  head.positions[0] = head.all_young();
  head.positions[0] += head.all_old();
}

}  // namespace

TEST_CASE("Kept shares are what a look at every pair of a query and an eligible token counts") {
  for (const char* policy : kRandomPolicies) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      CAPTURE(policy, seed);
      check_run(random_run(seed, {.policy = policy, .last_token_fed = seed != 2}));
    }
  }
  check_run(random_run(4, {.n_layers = 1, .n_kv_heads = 2, .prompt_len = 700, .n_new = 9}));
  for (const int prompt_len : {1, 5, 20, 63, 64, 65})
    check_run(random_run(5, {.policy = "kvpop:budget=24,sinks=2,window=8", .prompt_len = prompt_len, .n_new = 0}));
}

TEST_CASE("Kept shares of a run that goes on are of the queries that were made and the rows that are there") {
  RunRecord run = random_run(6);
  run.status = RunStatus::running, run.n_queries = 130;
  for (int head = 0; head < 6; ++head) {
    auto& row = run.evict_at.row(head / 3, head % 3);
    for (std::int32_t& at : row) at = at >= run.n_queries ? kUndecided : at;
    if (head % 2 == 0) row.resize(100);
  }
  check_run(run);
  run.status = RunStatus::failed;
  check_run(run);
  CHECK(run_fingerprints(RunRecord{}).heads.empty());
}

TEST_CASE("Each head has its own sinks and window, and a layer that is local by the model has no pairs") {
  RunRecord run = random_run(7);
  test::own_rules(run);
  test::set_heads(run, &HeadRule::window, std::vector<std::int32_t>{16, 16, 40, 64, 100, 16});
  check_run(run);
  run.heads[1].locality = Locality::model;
  const RunFingerprints prints = run_fingerprints(run);
  CHECK(prints.at(0, 1).local_by_model);
  CHECK(prints.at(0, 1).all().pairs == 0);
  CHECK(cluster_of(prints.at(0, 1)) == HeadCluster::none);
  CHECK_THAT(cluster_reason(prints.at(0, 1)), Catch::Contains("the model makes this layer local"));
  CHECK(prints.at(0, 0).ages.size() == prints.at(0, 1).ages.size());
}

TEST_CASE("Ages are in bins that double from 64 on") {
  for (int age = 0; age < 5000; ++age) {
    const int bin = age_bin_of(age);
    REQUIRE(bin == bin_of_age(age));
    REQUIRE((age >= age_bin_begin(bin) && age < age_bin_end(bin)));
  }
  CHECK(age_bin_of(131071) == 11);
}

TEST_CASE("Each token is of the one kind that its text says") {
  const std::pair<const char*, TokenKind> kTexts[] = {{"", TokenKind::special},
                                                      {"<s>", TokenKind::special},
                                                      {"<|im_end|>", TokenKind::special},
                                                      {"<>", TokenKind::punctuation},
                                                      {"< 3>", TokenKind::digits},
                                                      {" ", TokenKind::space},
                                                      {"\n\n", TokenKind::space},
                                                      {"\t ", TokenKind::space},
                                                      {" 42", TokenKind::digits},
                                                      {"3.", TokenKind::digits},
                                                      {"x2", TokenKind::digits},
                                                      {"B12", TokenKind::digits},
                                                      {" Paris", TokenKind::capitalised},
                                                      {"(The", TokenKind::capitalised},
                                                      {"\xC3\x89t", TokenKind::capitalised},
                                                      {"\xCE\xA9", TokenKind::capitalised},
                                                      {"\xD0\x9C", TokenKind::capitalised},
                                                      {" the", TokenKind::word},
                                                      {"iPhone", TokenKind::word},
                                                      {"'s", TokenKind::word},
                                                      {"\xE2\x82", TokenKind::word},
                                                      {" \xE4\xB8\xAD", TokenKind::word},
                                                      {",", TokenKind::punctuation},
                                                      {".\n", TokenKind::punctuation},
                                                      {" \"", TokenKind::punctuation},
                                                      {"+=", TokenKind::punctuation},
                                                      {"\x1B[", TokenKind::punctuation}};
  for (const auto& [text, kind] : kTexts) {
    CAPTURE(text);
    CHECK(kTokenKindNames[static_cast<int>(kind_of(text))] == kTokenKindNames[static_cast<int>(kind)]);
  }
}

TEST_CASE("The first rule that holds names a head") {
  const auto name = [](const HeadFingerprint& head) { return std::string(cluster_name(cluster_of(head))); };
  CHECK(name(HeadFingerprint{}) == "none");
  CHECK(name(made_up(1)) == "sink");
  CHECK(name(made_up(2)) == "even");
  CHECK(name(made_up(94)) == "even");
  CHECK(name(made_up(95)) == "full");
  HeadFingerprint head = made_up(30);
  CHECK(name(head) == "even");
  set_kept(head, TokenKind::digits, 60, 60), set_kept(head, TokenKind::capitalised, 60, 60);
  CHECK(name(head) == "retrieval");  // 60 of 100, and 40 of all
  CHECK_THAT(cluster_reason(head), Catch::Contains("60 % of digits") && Catch::Contains("40 % of all tokens") &&
                                       Catch::Contains("Below age 64: 60 % and 40 %"));
  set_kept(head, TokenKind::digits, 90, 20), set_kept(head, TokenKind::capitalised, 90, 20);
  CHECK(name(head) == "even");  // old ones are kept less often than others: 20 of 100, and 26.7 of all
  head = made_up(30);
  set_kept(head, TokenKind::punctuation, 43, 45);
  CHECK(name(head) == "punctuation");  // 44 of 100, and 32.3 of all
  set_kept(head, TokenKind::punctuation, 41, 42);
  CHECK(name(head) == "even");
  for (const TokenKind kind : {TokenKind::digits, TokenKind::capitalised, TokenKind::word, TokenKind::punctuation,
                               TokenKind::space, TokenKind::special})
    set_kept(head, kind, 60, 29);
  CHECK(name(head) == "local");
  CHECK_THAT(cluster_reason(head), Catch::Contains("60 % of the tokens below age 64, 29 % of older"));
  for (const HeadClusterInfo& info : head_clusters()) CHECK(&info == &head_clusters()[static_cast<int>(info.cluster)]);
}
