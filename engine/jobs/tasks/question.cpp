#include "engine/jobs/tasks/question.h"

#include <map>

#include "engine/core/support/error.h"

namespace kvscope::engine {
namespace {

constexpr int kMostSequencesPerQuestion = 20;

}  // namespace

QuestionSet make_questions(const Tokenizer& tokenizer, const std::string& text, int length, int after, int n_per_task,
                           std::uint64_t seed) {
  const std::vector<std::int32_t> tokens = tokenizer.encode(text, false);
  const auto words = TaskLexicon::make([&](std::string_view phrase) { return tokenizer.encode(phrase, false); });
  const SequenceGenerator generator(tokens, words, SequenceOptions{.length = length}, seed);

  QuestionSet set;
  std::map<TaskKind, int> missing;
  for (const TaskKind kind : kTaskKinds) missing[kind] = n_per_task;
  const auto complete = [&] {
    for (const auto& [kind, n] : missing) {
      if (n > 0) return false;
    }
    return true;
  };
  for (std::uint64_t index = 0; !complete(); ++index) {
    if (index > static_cast<std::uint64_t>(n_per_task) * kMostSequencesPerQuestion) {
      throw Error({.where = "questions",
                   .found = "too few answers after position " + std::to_string(after),
                   .expected = "sequences of " + std::to_string(length) + " positions that hold them",
                   .hint = "a smaller budget"});
    }
    TaskSequence sequence = generator.make(index);
    bool used = false;
    for (const AnswerSpan& span : sequence.spans) {
      // The last token of a sequence has no position in the model's context.
      if (span.begin <= after || span.end > length || missing[span.kind] <= 0) continue;
      set.questions.push_back({set.sequences.size(), span});
      --missing[span.kind];
      used = true;
    }
    if (used) set.sequences.push_back(std::move(sequence));
  }
  return set;
}

std::filesystem::path heldout_file(const std::string& given, const std::filesystem::path& model) {
  if (!given.empty()) return given;
  const auto path = std::filesystem::weakly_canonical(model).parent_path().parent_path() / "prompts" / "heldout.txt";
  if (std::filesystem::exists(path)) return path;
  throw Error({.file = path.string(),
               .found = "no such file",
               .expected = "English text that the model was not trained on",
               .hint = "name one with --text FILE"});
}

}  // namespace kvscope::engine
