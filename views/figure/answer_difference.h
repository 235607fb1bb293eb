#pragma once
// Two answers as one text, and what the runs recorded of where they diverge.

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/core/study/measure/answer_difference.h"
#include "engine/core/study/measure/lost_between.h"

namespace kvscope::views {

struct AnswerDifferenceOptions {
  int q = -1;      // the last difference that begins by this query of A is in sight; -1: the first difference
  int first = -1;  // the token of the joint text whose line is the first one shown; -1: as the difference needs it
  std::vector<std::string> names;  // of the runs; one without is "A" or "B"
  bool operator==(const AnswerDifferenceOptions&) const = default;
};
std::string answer_name(const AnswerDifferenceOptions& options, std::size_t run);

/// A token of the joint text: its position in each run, -1 in a run that does not have it.
struct JointToken {
  std::int32_t a = -1, b = -1;
  bool is_same() const { return a >= 0 && b >= 0; }
};

struct ComparedAnswers {
  AnswerDifference difference;
  std::vector<JointToken> text;  // in order; of each difference A's tokens, then B's
  std::vector<int> begins;       // the first token of each difference in `text`
  std::optional<Parting> parting;
  std::string why_no_lost;  // why the caches are not compared where the answers diverge; empty if they are
};
/// Why there is nothing to compare, a sentence; empty if there is.
std::string why_no_answers(const RunRecord& a, const RunRecord& b);
ComparedAnswers compare_answers(const RunRecord& a, const RunRecord& b);

/// By A where B still has it, and by B where A still has it.
using LostOfBoth = std::array<LostBetween, 2>;
inline constexpr int kMostLost = 24;  // of each
LostOfBoth lost_of_both(const RunRecord& a, const RunRecord& b, std::int32_t q);

/// The probability that a run gave a token where the answers diverge. A run records that of the token it chose alone; the other
/// token's is at most the rest.
struct TokenChance {
  double recorded = 0, at_most = 0;  // NaN: not known
};
/// [token: A's, B's][run: A, B]
std::array<std::array<TokenChance, 2>, 2> chances_at(const RunRecord& a, const RunRecord& b,
                                                     const ComparedAnswers& answers);
/// "0.62"; "not recorded, at most 0.38"; "not recorded".
std::string chance_text(const TokenChance& chance);

/// "3 differences: 52 tokens are the same, 8 are only in A, 9 only in B."
std::string count_sentence(const ComparedAnswers& answers, const AnswerDifferenceOptions& options);
/// Where they diverge, what each run chose there, and what each had lost. lost: null while it is being counted.
std::string parting_sentence(const RunRecord& a, const RunRecord& b, const ComparedAnswers& answers,
                             const LostOfBoth* lost, const AnswerDifferenceOptions& options);

}  // namespace kvscope::views
