#include "engine/jobs/tasks/palindrome.h"

#include <algorithm>

#include "engine/core/support/error.h"
#include "engine/jobs/tasks/task.h"

namespace kvscope::engine {
namespace {

constexpr int kNumbers = 32;                                   // App. G
constexpr int kShortestGap = 51;                               // tokens of the instruction: "longer than 50 tokens"
constexpr std::uint64_t kPalindromeSalt = 0x70616c696e64726f;  // "palindro": no seed of a training stream
constexpr std::string_view kInstruction =
    "\nRead the list of numbers above once more and keep every one of them in mind, with its place in the list. Then write "
    "the same numbers again in the opposite order: begin with the last one, go on with the one before it, and end with the "
    "first. Leave a single blank between two numbers, leave none of them out, and close the line with a full stop.";

TaskQuestion make(const TaskMaterial& material, std::uint64_t index, int length) {
  const PalindromeSequences sequences(material.tokenizer, {.length = length}, material.seed ^ kPalindromeSalt);
  const TaskSequence sequence = sequences.make(index);
  const AnswerSpan& span = sequence.spans.front();
  const auto begin = sequence.ids.begin() + span.begin, end = sequence.ids.begin() + span.end;
  TaskQuestion question{.prompt = {sequence.ids.begin(), begin}, .max_tokens = span.end - span.begin};
  const std::string text = material.tokenizer.decode_further({begin, end});  // " 70 ... 57.\n"
  question.expected = text.substr(1, text.find('.') - 1);
  return question;
}

}  // namespace

PalindromeSequences::PalindromeSequences(const Tokenizer& tokenizer, PalindromeOptions options, std::uint64_t seed)
    : words_(TaskLexicon::make([&](std::string_view text) { return tokenizer.encode(text, false); })),
      line_end_(tokenizer.encode("\n", false)),
      options_(options),
      seed_(seed) {
  // How many tokens a number takes is the tokenizer's, and may differ from number to number: the longest counts.
  std::size_t longest = 0;
  for (const TokenIds& number : words_.two_digits) longest = std::max(longest, number.size());
  const auto n_words =
      static_cast<int>(words_.numbers_open.size() + words_.reversed_open.size() + 2 * words_.stop.size());
  const int a_number = 2 * static_cast<int>(longest), room = options.length - n_words - kShortestGap;
  if (options_.numbers == 0) options_.numbers = std::clamp(room / a_number, 1, kNumbers);
  if (room < options_.numbers * a_number) {
    throw Error({.code = ExitCode::usage,
                 .where = "a palindrome of " + std::to_string(options_.numbers) + " numbers",
                 .found = "a length of " + std::to_string(options.length) + " tokens",
                 .expected = "at least " + std::to_string(options_.numbers * a_number + n_words + kShortestGap),
                 .hint = "use a greater length or fewer numbers"});
  }
  const TokenIds once = tokenizer.encode(kInstruction, false);
  while (instruction_.size() < static_cast<std::size_t>(options.length)) append(instruction_, once);
}

TaskSequence PalindromeSequences::make(std::uint64_t index) const {
  Random random(seed_, index);
  const TaskItem item = make_reversal(random, words_, options_.numbers, options_.numbers);
  TaskSequence sequence;
  append_as(TokenRole::statement, item.statement, sequence);
  const std::size_t n_gap = static_cast<std::size_t>(options_.length) - item.n_tokens();
  append_as(TokenRole::statement, std::span(instruction_).last(n_gap), sequence);
  append_as(TokenRole::statement, item.question, sequence);
  const auto begin = static_cast<std::int32_t>(sequence.ids.size());
  append_as(TokenRole::answer, item.answer, sequence);
  sequence.spans.push_back({item.kind, begin, static_cast<std::int32_t>(sequence.ids.size())});
  append_as(TokenRole::text, std::span(line_end_).first(1), sequence);
  return sequence;
}

Task palindrome_task() {
  return {.name = "palindrome",
          .definition =
              "A list of up to 32 two-digit numbers and a long instruction; the answer is the list "
              "backwards (SP-KV App. G).",
          .mark = mark_beginning,
          .make = make};
}

}  // namespace kvscope::engine
