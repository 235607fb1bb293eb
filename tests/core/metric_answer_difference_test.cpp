// How two answers differ, against a plain table of longest common subsequences.

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "engine/core/study/measure/answer_difference.h"
#include "engine/core/support/random.h"

using namespace kvscope;

namespace {

using Tokens = std::vector<std::int32_t>;

/// Prompt 900, 901, 902, then the answer; the piece of an id is its number.
RunRecord run_of(const Tokens& answer, const std::string& prefix = "") {
  RunRecord run;
  run.model.vocab_size = 1000;
  run.ids = {900, 901, 902};
  run.prompt_len = 3;
  run.ids.insert(run.ids.end(), answer.begin(), answer.end());
  for (const std::int32_t id : run.ids) run.pieces.push_back(prefix + std::to_string(id));
  return run;
}

int longest(const Tokens& a, const Tokens& b) {
  std::vector<std::vector<int>> table(a.size() + 1, std::vector<int>(b.size() + 1, 0));
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j)
      table[i][j] = a[i - 1] == b[j - 1] ? table[i - 1][j - 1] + 1 : std::max(table[i - 1][j], table[i][j - 1]);
  }
  return table[a.size()][b.size()];
}

/// What lies between the differences is the same in both; differences are in order, not empty, and apart. -> how many are the same.
int count_same(const RunRecord& a, const RunRecord& b, const AnswerDifference& found) {
  int same = 0;
  std::int32_t at_a = found.begin_a, at_b = found.begin_b;
  const auto go_to = [&](std::int32_t to_a, std::int32_t to_b) {
    REQUIRE(to_a - at_a == to_b - at_b);
    for (; at_a < to_a; ++at_a, ++at_b, ++same)
      REQUIRE(a.ids[static_cast<std::size_t>(at_a)] == b.ids[static_cast<std::size_t>(at_b)]);
  };
  for (std::size_t i = 0; i < found.differences.size(); ++i) {
    const AnswerPart& part = found.differences[i];
    REQUIRE(part.n_a + part.n_b > 0);
    REQUIRE((part.n_a >= 0 && part.n_b >= 0));
    if (i > 0) REQUIRE(part.a > at_a);
    go_to(part.a, part.b);
    at_a += part.n_a, at_b += part.n_b;
  }
  go_to(found.end_a, found.end_b);
  return same;
}

}  // namespace

TEST_CASE("The tokens that two answers share are a longest common subsequence, and the rest is in the differences") {
  Random random(11);
  const auto below = [&](int n) { return static_cast<int>(random.below(static_cast<std::uint64_t>(n))); };
  for (int round = 0; round < 400; ++round) {
    const int letters = 1 + below(6);
    Tokens a, b;
    for (int i = below(24); i > 0; --i) a.push_back(below(letters));
    for (int i = below(24); i > 0; --i) b.push_back(below(letters));
    const RunRecord run_a = run_of(a), run_b = run_of(b);
    const AnswerDifference found = answer_difference(run_a, run_b);
    CHECK(count_same(run_a, run_b, found) == longest(a, b));
    CHECK(found.n_same == longest(a, b));
    CHECK_FALSE(found.by_text);
    CHECK(found.differences == answer_difference(run_a, run_b).differences);
    CHECK(found.differences.empty() == (a == b));
    if (!found.differences.empty()) {  // the first one begins where the plain comparison ends
      const auto common = std::ranges::mismatch(a, b).in1 - a.begin();
      CHECK(found.differences[0].a == 3 + common);
      CHECK(found.differences[0].b == 3 + common);
    }
  }
}

TEST_CASE("A word that is replaced, one that is left out and one that is added are three differences") {
  const RunRecord a = run_of({1, 2, 3, 4, 5, 6, 7}), b = run_of({1, 9, 3, 4, 6, 7, 8});
  const AnswerDifference found = answer_difference(a, b);
  CHECK(found.differences == std::vector<AnswerPart>{{4, 1, 4, 1}, {7, 1, 7, 0}, {10, 0, 9, 1}});
  CHECK(found.n_same == 5);
  CHECK(difference_at(found, 0) == 0);
  CHECK(difference_at(found, 3) == 0);
  CHECK(difference_at(found, 6) == 1);
  CHECK(difference_at(found, 100) == 2);
  CHECK(difference_from(found, 2, 1) == 0);
  CHECK(difference_from(found, 3, 1) == 1);
  CHECK(difference_from(found, 9, 1) == 0);  // around the end
  CHECK(difference_from(found, 6, -1) == 0);
  CHECK(difference_from(found, 3, -1) == 2);
  CHECK(difference_from(answer_difference(a, a), 3, 1) == -1);
  CHECK(difference_at(answer_difference(a, a), 3) == -1);
}

TEST_CASE("Answers diverge at the first token that both have and that differs, by the same query of the same text") {
  const RunRecord a = run_of({1, 2, 3}), b = run_of({1, 9, 3});
  const auto found = parting(a, b, answer_difference(a, b));
  REQUIRE(found);
  CHECK((found->a == 4 && found->b == 4 && found->q == 3));
  CHECK_FALSE(parting(a, a, answer_difference(a, a)));
  const RunRecord longer = run_of({1, 2, 3, 4});
  CHECK_FALSE(parting(a, longer, answer_difference(a, longer)));
  RunRecord other = b;
  other.ids[0] = 899;  // another prompt
  CHECK(parting(a, other, answer_difference(a, other))->q == -1);
  const RunRecord inserted = run_of({1, 9, 2, 3});  // nothing of A is left out, but its query chose 2
  const auto at = parting(a, inserted, answer_difference(a, inserted));
  REQUIRE(at);
  CHECK((at->a == 4 && at->b == 4 && at->q == 3));
}

TEST_CASE("Runs of different tokenizers are compared by the bytes of their tokens") {
  const RunRecord a = run_of({1, 2, 3});
  RunRecord b = run_of({});
  b.model.vocab_size = 2000;
  b.ids = {900, 901, 902, 51, 52, 53};
  for (const char* piece : {"1", "7", "3"}) b.pieces.push_back(piece);
  const AnswerDifference found = answer_difference(a, b);
  CHECK(found.by_text);
  CHECK(found.n_same == 2);
  CHECK(found.differences == std::vector<AnswerPart>{{4, 1, 4, 1}});
  CHECK(parting(a, b, found)->q == -1);
  // One size of vocabulary, but an id has other bytes.
  RunRecord c = run_of({1, 2, 3}, "x");
  CHECK(answer_difference(a, c).by_text);
  CHECK(answer_difference(a, c).n_same == 0);
  c.model.weights_hash = a.model.weights_hash;  // both unknown
  CHECK(answer_difference(a, c).by_text);
}

TEST_CASE("Of very long answers the part after the first difference is aligned, and equal ends always are") {
  Tokens a(7000), b(9000);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<std::int32_t>(i % 97);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<std::int32_t>(i % 89);
  for (std::size_t i = 1; i <= 50; ++i) a[a.size() - i] = b[b.size() - i] = 500;
  const RunRecord run_a = run_of(a), run_b = run_of(b);
  const AnswerDifference found = answer_difference(run_a, run_b);
  CHECK(count_same(run_a, run_b, found) == found.n_same);
  CHECK(found.unaligned_a == 7000 - 50 - 89 - 2048);
  CHECK(found.unaligned_b == 9000 - 50 - 89 - 2048);
  CHECK(found.n_same > 50 + 89);
  const RunRecord few = run_of({1, 2, 3});  // a short one is aligned with all of a long one
  CHECK(answer_difference(few, run_b).unaligned_b == 0);
  CHECK(answer_difference(few, run_b).n_same == 3);
}

TEST_CASE("A run without an answer differs from another one in all that that one has") {
  const RunRecord none = run_of({}), a = run_of({1, 2});
  CHECK(answer_difference(none, none).differences.empty());
  CHECK(answer_difference(none, a).differences == std::vector<AnswerPart>{{3, 0, 3, 2}});
  CHECK(answer_difference(RunRecord{}, RunRecord{}).differences.empty());
}
