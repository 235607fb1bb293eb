#include "views/figure/answer_difference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "views/figure/figure_builder.h"
#include "views/figure/token_facts.h"
#include "views/figure/token_text.h"

namespace kvscope::views {
namespace {

constexpr double kNotRecorded = std::numeric_limits<double>::quiet_NaN();

std::string tokens_text(std::int64_t n) { return std::to_string(n) + (n == 1 ? " token" : " tokens"); }

void append_run(std::vector<JointToken>& text, std::int32_t a, std::int32_t b, std::int32_t n) {
  for (std::int32_t i = 0; i < n; ++i) text.push_back({a < 0 ? -1 : a + i, b < 0 ? -1 : b + i});
}

std::string why_no_lost_of(const RunRecord& a, const RunRecord& b, const ComparedAnswers& answers) {
  if (!answers.parting) return "The answers do not diverge, so there is no query to compare.";
  if (answers.difference.by_text) return "The runs have different tokenizers, so their caches are not compared.";
  if (answers.parting->q < 0) return "The runs read different prompts, so their caches are not compared.";
  if (!same_shape(a, b)) return "The models have different layers or KV heads, so their caches are not compared.";
  return "";
}

/// Natural log-probability of a token as the run recorded it; NaN if it did not.
double logprob_of(const RunRecord& run, std::int32_t t) {
  const auto i = static_cast<std::size_t>(t);
  return i < run.logprobs.size() ? static_cast<double>(run.logprobs[i]) : kNotRecorded;
}

std::string quoted_token(const RunRecord& run, std::int32_t t) {
  const auto i = static_cast<std::size_t>(t);
  return "\"" + (i < run.pieces.size() ? token_label(run.pieces[i], 24) : std::to_string(run.ids[i])) + "\"";
}

/// " (probability 0.62)", empty if it is not recorded.
std::string in_brackets(const TokenChance& chance, const char* what) {
  return std::isnan(chance.recorded) ? "" : " (" + std::string(what) + format_number(chance.recorded) + ")";
}

std::string lost_words(const LostOfBoth& lost, const std::string& a, const std::string& b) {
  const auto of = [](const LostBetween& one) {
    return one.n_tokens == 0 ? std::string("no token") : tokens_text(one.n_tokens);
  };
  return b + " had lost " + of(lost[1]) + " there that " + a + " still had, " + a + " " + of(lost[0]) + " that " + b +
         " still had.";
}

}  // namespace

std::string answer_name(const AnswerDifferenceOptions& options, std::size_t run) {
  if (run < options.names.size() && !options.names[run].empty()) return options.names[run];
  return run == 0 ? "A" : "B";
}

std::string why_no_answers(const RunRecord& a, const RunRecord& b) {
  const bool none_a = a.n_tokens() <= a.prompt_len, none_b = b.n_tokens() <= b.prompt_len;
  if (!none_a && !none_b) return "";
  const std::string which = none_a && none_b ? "Neither run" : none_a ? "Run A" : "Run B";
  return which + (none_a && none_b ? " has an answer yet." : " has no answer yet.");
}

ComparedAnswers compare_answers(const RunRecord& a, const RunRecord& b) {
  ComparedAnswers answers;
  answers.difference = answer_difference(a, b);
  const AnswerDifference& found = answers.difference;
  std::int32_t at_a = found.begin_a, at_b = found.begin_b;
  for (const AnswerPart& part : found.differences) {
    append_run(answers.text, at_a, at_b, part.a - at_a);
    answers.begins.push_back(static_cast<int>(answers.text.size()));
    append_run(answers.text, part.a, -1, part.n_a);
    append_run(answers.text, -1, part.b, part.n_b);
    at_a = part.a + part.n_a, at_b = part.b + part.n_b;
  }
  append_run(answers.text, at_a, at_b, found.end_a - at_a);
  answers.parting = parting(a, b, found);
  answers.why_no_lost = why_no_lost_of(a, b, answers);
  return answers;
}

LostOfBoth lost_of_both(const RunRecord& a, const RunRecord& b, std::int32_t q) {
  return {lost_between(a, b, q, kMostLost), lost_between(b, a, q, kMostLost)};
}

std::array<std::array<TokenChance, 2>, 2> chances_at(const RunRecord& a, const RunRecord& b,
                                                     const ComparedAnswers& answers) {
  std::array<std::array<TokenChance, 2>, 2> chances;
  for (auto& token : chances) token.fill({kNotRecorded, kNotRecorded});
  if (!answers.parting) return chances;
  const double of_a = std::exp(logprob_of(a, answers.parting->a)), of_b = std::exp(logprob_of(b, answers.parting->b));
  chances[0][0] = {of_a, of_a}, chances[1][1] = {of_b, of_b};
  // Of another tokenizer's token nothing is known: it may be a part of the chosen one.
  if (!answers.difference.by_text) chances[1][0].at_most = 1 - of_a, chances[0][1].at_most = 1 - of_b;
  return chances;
}

std::string chance_text(const TokenChance& chance) {
  if (!std::isnan(chance.recorded)) return format_number(chance.recorded);
  return "not recorded" + (std::isnan(chance.at_most) ? std::string() : ", at most " + format_number(chance.at_most));
}

std::string count_sentence(const ComparedAnswers& answers, const AnswerDifferenceOptions& options) {
  const AnswerDifference& found = answers.difference;
  const auto n = found.differences.size();
  if (n == 0) return "The answers are the same: " + tokens_text(found.n_same) + ".";
  const std::int32_t only_a = found.end_a - found.begin_a - found.n_same,
                     only_b = found.end_b - found.begin_b - found.n_same;
  std::string text = std::to_string(n) + (n == 1 ? " difference: " : " differences: ") + tokens_text(found.n_same) +
                     (found.n_same == 1 ? " is the same, " : " are the same, ") + std::to_string(only_a) +
                     (only_a == 1 ? " is only in " : " are only in ") + answer_name(options, 0) + ", " +
                     std::to_string(only_b) + " only in " + answer_name(options, 1) + ".";
  if (found.by_text) text += " The runs have different tokenizers, so tokens are compared by their text.";
  if (found.unaligned_a + found.unaligned_b > 0)
    text += " The last " + std::to_string(found.unaligned_a) + " of these in " + answer_name(options, 0) + " and " +
            std::to_string(found.unaligned_b) + " in " + answer_name(options, 1) +
            " are too many to align and count as different.";
  return text;
}

std::string parting_sentence(const RunRecord& a, const RunRecord& b, const ComparedAnswers& answers,
                             const LostOfBoth* lost, const AnswerDifferenceOptions& options) {
  const AnswerDifference& found = answers.difference;
  const std::string name_a = answer_name(options, 0), name_b = answer_name(options, 1);
  if (found.differences.empty()) return "";
  if (!answers.parting) {
    const bool ends = found.differences.front().a >= found.end_a;
    return (ends ? name_a : name_b) + " ends where " + (ends ? name_b : name_a) + " goes on.";
  }
  const auto chances = chances_at(a, b, answers);
  std::string text = "The answers diverge at token " + std::to_string(answers.parting->a) + ": " + name_a + " chose " +
                     quoted_token(a, answers.parting->a) + in_brackets(chances[0][0], "probability ") + ", " + name_b +
                     " chose " + quoted_token(b, answers.parting->b) + in_brackets(chances[1][1], "") + ".";
  if (!answers.why_no_lost.empty()) {
    text += " " + answers.why_no_lost;
  } else if (lost != nullptr) {
    text += " " + lost_words(*lost, name_a, name_b);
  }
  if (a.sampling.temperature > 0 || b.sampling.temperature > 0)
    text += " Tokens were sampled, so the answers can diverge by chance.";
  return text;
}

}  // namespace kvscope::views
