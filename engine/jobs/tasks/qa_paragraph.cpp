// A question about one paragraph among others of its kind (after the first of RULER's question tasks).
#include <algorithm>

#include "engine/jobs/tasks/people.h"
#include "engine/jobs/tasks/task.h"

namespace kvscope::engine {
namespace {

constexpr int kTokensPerParagraph = 30;  // at least, of any tokenizer

struct Person {
  std::string name, city, trade, pet, game;

  std::string paragraph() const {
    return name + " was born in the city of " + city + " and became a " + trade + ". As a pet, " + name + " keeps a " +
           pet + ". With friends, " + name + " likes to play " + game + ".";
  }
};

Person draw_whole_person(Random& random, std::set<std::string>& used) {
  Person person;
  person.name = draw_person(random, used);
  person.city = draw_of(random, kCities);
  person.trade = draw_of(random, kTrades);
  person.pet = draw_of(random, kPets);
  person.game = draw_of(random, kGames);
  return person;
}

TaskText write(Random& random, int length) {
  std::set<std::string> used;
  const Person person = draw_whole_person(random, used);
  const TaskText forms[] = {
      {{}, "In which city was " + person.name + " born?", person.name + " was born in the city of", person.city, {}},
      {{}, "What is the trade of " + person.name + "?", "By trade, " + person.name + " is a", person.trade, {}},
      {{}, "Which pet does " + person.name + " keep?", "As a pet, " + person.name + " keeps a", person.pet, {}},
      {{}, "Which game does " + person.name + " like?", person.name + " likes to play", person.game, {}}};
  TaskText text = forms[random.below(std::size(forms))];
  text.statements = {person.paragraph()};
  for (int i = std::clamp(length / kTokensPerParagraph, 1, kMostPeople); i > 0; --i)
    text.haystack.push_back(draw_whole_person(random, used).paragraph());
  return text;
}

}  // namespace

Task qa_paragraph_task() {
  return {.name = "qa-paragraph",
          .definition = "Paragraphs of four facts about a person each; the answer is one fact of one person.",
          .write = write,
          .mark = mark_beginning};
}

}  // namespace kvscope::engine
