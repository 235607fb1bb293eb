// The two tasks of the training recipe, in its own words: a question is the last of its kind in a sequence as the trainer makes
// them, with more text before it, so that every prompt has the same length.

#include <algorithm>

#include "engine/core/support/error.h"
#include "engine/jobs/tasks/sequence.h"
#include "engine/jobs/tasks/task.h"

namespace kvscope::engine {
namespace {

constexpr std::uint64_t kEvalSalt = 0x6576616c75617465;  // "evaluate": no seed of a training stream
constexpr std::uint64_t kNextTry = std::uint64_t{1} << 32;
constexpr std::uint64_t kMostTries = 100;

TaskQuestion make(TaskKind kind, const TaskMaterial& material, std::uint64_t index, int length) {
  const auto words = TaskLexicon::make([&](std::string_view text) { return material.tokenizer.encode(text, false); });
  const SequenceGenerator generator(material.filler, words, SequenceOptions{.length = length},
                                    material.seed ^ kEvalSalt);
  for (std::uint64_t i = 0; i < kMostTries; ++i) {
    const TaskSequence sequence = generator.make(index + i * kNextTry);
    // The last token of a sequence has no position in the context.
    const auto last = std::find_if(sequence.spans.rbegin(), sequence.spans.rend(),
                                   [&](const AnswerSpan& span) { return span.kind == kind && span.end <= length; });
    if (last == sequence.spans.rend()) continue;
    const auto begin = sequence.ids.begin() + last->begin, end = sequence.ids.begin() + last->end;
    TaskQuestion question{.max_tokens = last->end - last->begin};
    question.expected = material.tokenizer.decode_further({begin, end});
    Random random(material.seed ^ ~kEvalSalt, index);
    const std::size_t from = random.below(material.filler.size());
    const auto n_more = static_cast<std::size_t>(length - last->end);
    for (std::size_t j = 0; j < n_more; ++j) {
      question.prompt.push_back(material.filler[(from + j) % material.filler.size()]);
    }
    question.prompt.insert(question.prompt.end(), sequence.ids.begin(), begin);
    return question;
  }
  throw Error({.code = ExitCode::usage,
               .file = "task " + std::string(to_string(kind)),
               .found = "no question within " + std::to_string(length) + " tokens",
               .expected = "a greater --length"});
}

template <TaskKind kind>
TaskQuestion make_of(const TaskMaterial& material, std::uint64_t index, int length) {
  return make(kind, material, index, length);
}

/// The whole text, line end included.
bool mark_all(std::string_view expected, std::string_view answer) { return answer == expected; }

}  // namespace

Task reversal_task() {
  return {.name = to_string(TaskKind::reversal),
          .definition = "A list of 8 to 16 two-digit numbers and, much later, the same list backwards (SP-KV App. G).",
          .for_tiny = true,
          .mark = mark_all,
          .make = make_of<TaskKind::reversal>};
}

Task fact_recall_task() {
  return {.name = to_string(TaskKind::fact_recall),
          .definition = "Codes of four to eight things; the answer is one of the codes.",
          .for_tiny = true,
          .mark = mark_all,
          .make = make_of<TaskKind::fact_recall>};
}

}  // namespace kvscope::engine
