// A value that is passed on through a chain of names (RULER's variable tracking): every name that has it is asked for.
#include "engine/jobs/tasks/needles.h"
#include "engine/jobs/tasks/word_lists.h"

namespace kvscope::engine {
namespace {

constexpr std::size_t kVariables = 5;  // four steps, as in RULER

TaskText write(Random& random, int) {
  std::vector<std::string_view> names(kNouns.begin(), kNouns.end());
  shuffle(random, names);
  names.resize(kVariables);
  const std::string value = draw_code(random);
  TaskText text{.statements = {"The variable " + std::string(names[0]) + " has the value " + value + "."},
                .question = "Which five variables are those with the value " + value + "?",
                .lead = "The number " + value + " is the value of the five variables named",
                .answer = joined(names)};
  for (std::size_t i = 1; i < names.size(); ++i)
    text.statements.push_back("The variable " + std::string(names[i]) + " has the same value as the variable " +
                              std::string(names[i - 1]) + ".");
  text.haystack = noise();
  return text;
}

}  // namespace

Task variable_chain_task() {
  return {.name = "variable-chain",
          .definition = "A number passed on through five names, in noise; the answer is all five names, in any order.",
          .write = write,
          .mark = mark_list};
}

}  // namespace kvscope::engine
