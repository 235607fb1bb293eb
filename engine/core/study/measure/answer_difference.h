#pragma once
// How the answers of two runs differ, token by token.

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/core/record/run_record.h"

namespace kvscope {

/// What A has in place of what B has: n_a tokens of A from position a on, n_b of B from b on. One of the two may be 0.
struct AnswerPart {
  std::int32_t a = 0, n_a = 0, b = 0, n_b = 0;
  bool operator==(const AnswerPart&) const = default;
};

/// The answers' tokens, aligned by a longest common subsequence. Between two differences, before the first and after the last
/// one, the tokens are the same.
struct AnswerDifference {
  std::int32_t begin_a = 0, end_a = 0, begin_b = 0, end_b = 0;  // of the answers
  std::vector<AnswerPart> differences;                          // in their order; a same token at least is between two
  bool by_text = false;  // tokens are compared by their bytes, because the runs have different tokenizers
  std::int32_t n_same = 0;
  /// Tokens that were too many to be aligned: they are in a difference, whether or not the other answer has them.
  std::int32_t unaligned_a = 0, unaligned_b = 0;
};

/// Products of tokens of A and B that are aligned: some 10 ms. Of longer answers that is the part after the first difference.
inline constexpr std::int64_t kMostAligned = std::int64_t{1} << 22;

AnswerDifference answer_difference(const RunRecord& a, const RunRecord& b);

/// The first token at which the answers diverge: its position in each. q: the query that chose it, if both runs read the same
/// text before it; -1: they did not.
struct Parting {
  std::int32_t a = 0, b = 0, q = -1;
};
/// Nothing where the answers are the same, or one ends where the other goes on.
std::optional<Parting> parting(const RunRecord& a, const RunRecord& b, const AnswerDifference& difference);

/// The query of A from which a difference begins: that before its first token.
inline std::int32_t query_of(const AnswerPart& part) { return part.a > 0 ? part.a - 1 : 0; }
/// The last difference that begins by query q of A, the first one if none does; -1 if there is none.
int difference_at(const AnswerDifference& difference, std::int32_t q);
/// The next difference after query q of A, or the one before it (direction -1), around the end; -1 if there is none.
int difference_from(const AnswerDifference& difference, std::int32_t q, int direction);

}  // namespace kvscope
