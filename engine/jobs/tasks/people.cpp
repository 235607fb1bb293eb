#include "engine/jobs/tasks/people.h"

#include "engine/jobs/tasks/task_item.h"

namespace kvscope::engine {
namespace {

std::string capital(std::string word) {
  word[0] = static_cast<char>(word[0] - 'a' + 'A');
  return word;
}

}  // namespace

std::string draw_person(Random& random, std::set<std::string>& used) {
  std::string person;
  do {
    person = draw_of(random, kNames);
    person += " " + capital(draw_of(random, kAdjectives));
    person += "-" + capital(draw_of(random, kNouns));
  } while (!used.insert(person).second);
  return person;
}

std::string draw_house(Random& random, std::set<std::string>& used) {
  std::string house;
  do {
    house = capital(draw_of(random, kAdjectives));
    house += " " + capital(draw_of(random, kAdjectives));
    house += " " + capital(draw_of(random, kNouns));
  } while (!used.insert(house).second);
  return house;
}

}  // namespace kvscope::engine
