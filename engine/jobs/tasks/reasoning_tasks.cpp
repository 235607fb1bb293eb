// Problems that a model must reason about, as questions: it reads the statement and writes the whole solution.

#include "engine/core/support/error.h"
#include "engine/core/support/hash.h"
#include "engine/jobs/tasks/reasoning.h"
#include "engine/jobs/tasks/task.h"

namespace kvscope::engine {
namespace {

constexpr std::uint64_t kEvalSalt = 0x726561736f6e696e;  // "reasonin": no seed of a training stream
constexpr double kSpare = 1.1;                           // tokens that an answer may have, of those that it should

/// The largest problem whose statement and solution fit `length` tokens.
TaskQuestion make(const ReasoningKind& kind, const TaskMaterial& material, std::uint64_t index, int length) {
  const auto question_of = [&](int size) {
    Random random(material.seed ^ kEvalSalt ^ fnv1a64(kind.name), index);
    const ReasoningProblem problem = kind.draw(random, size);
    TaskQuestion question{.prompt = material.tokenizer.encode("\n" + problem.statement, false),
                          .expected = problem.answer};
    const auto n = material.tokenizer.encode(problem.solution, false).size();
    question.max_tokens = static_cast<int>(static_cast<double>(n) * kSpare) + 1;
    return question;
  };
  const auto fits = [&](const TaskQuestion& question) {
    return static_cast<int>(question.prompt.size()) + question.max_tokens <= length;
  };
  int least = kLeastReasoningSize, most = kMostReasoningSize;
  if (!fits(question_of(least))) {
    throw Error({.code = ExitCode::usage,
                 .file = "task reason-" + std::string(kind.name),
                 .found = "no problem within " + std::to_string(length) + " tokens",
                 .expected = "a greater --length"});
  }
  while (least < most) {
    const int middle = (least + most + 1) / 2;
    fits(question_of(middle)) ? least = middle : most = middle - 1;
  }
  return question_of(least);
}

/// The last line is "answer X".
bool mark(std::string_view expected, std::string_view answer) {
  const std::size_t at = answer.rfind("answer ");
  if (at == std::string_view::npos) return false;
  answer.remove_prefix(at + 7);
  return answer.substr(0, answer.find('\n')) == expected;
}

template <std::size_t kKind>
TaskQuestion make_of(const TaskMaterial& material, std::uint64_t index, int length) {
  return make(reasoning_kinds()[kKind], material, index, length);
}

template <std::size_t kKind>
Task task_of(std::string_view name) {
  return {.name = name,
          .definition = reasoning_kinds()[kKind].definition,
          .mark = mark,
          .make = make_of<kKind>,
          .reads_filler = false};
}

}  // namespace

std::vector<Task> reasoning_tasks() {
  return {task_of<0>("reason-machine"), task_of<1>("reason-walk"), task_of<2>("reason-search"),
          task_of<3>("reason-sort"), task_of<4>("reason-sum")};
}

}  // namespace kvscope::engine
