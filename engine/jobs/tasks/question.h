#pragma once
// What an evaluation asks: the questions of held-out sequences, each with the text before it.

#include <filesystem>
#include <vector>

#include "engine/core/files/tokenizer/tokenizer.h"
#include "engine/jobs/tasks/sequence.h"

namespace kvscope::engine {

/// One question: the model reads ids[0, begin) of its sequence and must write ids[begin, end) exactly.
struct Question {
  std::size_t sequence;  // of QuestionSet::sequences
  AnswerSpan answer;
};

struct QuestionSet {
  std::vector<TaskSequence> sequences;
  std::vector<Question> questions;  // at most `n_per_task` of each task
};

/// Sequences of `length` positions until every task has n_per_task questions whose answers begin at a position greater
/// than `after` (a cache of that budget is then full). `text` is English that no training saw. Throws Error if
/// sequences of that length cannot hold such questions.
QuestionSet make_questions(const Tokenizer& tokenizer, const std::string& text, int length, int after, int n_per_task,
                           std::uint64_t seed);

/// Where the held-out text of the project lies: `given` if not empty, else prompts/heldout.txt two folders above the
/// model (samples/models/NAME -> samples/prompts). Throws Error that names the option if there is none.
std::filesystem::path heldout_file(const std::string& given, const std::filesystem::path& model);

}  // namespace kvscope::engine
