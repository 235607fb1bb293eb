// The forms that the gates of real models are trained on (training_facts.h), with another seed: how much better they do there
// than on the other tasks is what they owe to their training.
#include "engine/jobs/tasks/task.h"
#include "engine/jobs/tasks/training_facts.h"

namespace kvscope::engine {
namespace {

TaskText write(Random& random, int) {
  TrainingFact fact = draw_training_fact(random);
  return {.statements = {std::move(fact.statement)},
          .question = "Continue this line from what is written above: " + fact.lead,
          .lead = fact.lead,
          .answer = std::move(fact.answer)};
}

}  // namespace

Task trained_forms_task() {
  return {.name = "trained-forms",
          .definition = "A fact in one of the seven families that text gates are trained on; the answer is its value.",
          .write = write,
          .mark = mark_beginning};
}

}  // namespace kvscope::engine
