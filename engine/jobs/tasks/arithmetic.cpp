// A sum with written-out steps: three numbers are remembered, and the answer is several sentences of the model's own.
#include <cctype>

#include "engine/jobs/tasks/task.h"

namespace kvscope::engine {
namespace {

struct Sum {
  std::int64_t a, b, c;
  std::string paid() const {
    return std::to_string(a) + ", then " + std::to_string(b) + ", then " + std::to_string(c) + ".";
  }
  std::string steps() const {
    const std::string two = std::to_string(a + b), all = std::to_string(a + b + c);
    return " Steps: " + std::to_string(a) + " + " + std::to_string(b) + " = " + two + ", " + two + " + " +
           std::to_string(c) + " = " + all + ". The total is " + all + ".";
  }
};

Sum draw_sum(Random& random) { return {random.between(2, 9), random.between(2, 9), random.between(2, 9)}; }

/// Two examples with their steps stand before the question, so that the form of the answer is known.
TaskText write(Random& random, int) {
  const std::vector<std::string> things = draw_things(random, 3);
  const Sum asked = draw_sum(random), first = draw_sum(random), second = draw_sum(random);
  const std::string examples = "The " + things[1] + " paid " + first.paid() + first.steps() + "\nThe " + things[2] +
                               " paid " + second.paid() + second.steps() + "\n";
  return {.statements = {"The " + things[0] + " paid " + asked.paid()},
          .question = "What did the " + things[0] + " pay in all? Write the steps as in these examples.\n" + examples,
          .lead = examples + "The " + things[0] + " paid",
          .answer = asked.paid() + asked.steps()};
}

/// The number behind the first "The total is", empty if there is none.
std::string total_of(std::string_view text) {
  constexpr std::string_view kTotal = "The total is ";
  std::size_t at = text.find(kTotal);
  if (at == std::string_view::npos) return {};
  std::string number;
  for (at += kTotal.size(); at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])); ++at)
    number += text[at];
  return number;
}

/// The total is right, however the steps were written.
bool mark(std::string_view expected, std::string_view answer) {
  const std::string total = total_of(answer);
  return !total.empty() && total == total_of(expected);
}

}  // namespace

Task arithmetic_task() {
  return {.name = "arithmetic",
          .definition = "Three numbers, stated once, are recalled and added in written-out steps; the total is marked.",
          .write = write,
          .mark = mark};
}

}  // namespace kvscope::engine
