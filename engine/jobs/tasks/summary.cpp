// A report in parts, to be summed up (HELMET's summarization).
#include <algorithm>
#include <cctype>
#include <map>

#include "engine/core/support/shuffle.h"
#include "engine/jobs/tasks/people.h"
#include "engine/jobs/tasks/task.h"

namespace kvscope::engine {
namespace {

constexpr double kRoom = 1.5;  // for a summary in other words
constexpr char kKey = '*';     // before and after the words of a key fact in the expected text

/// What a report says beside its key facts.
constexpr std::array<std::string_view, 12> kDetails = {
    "The walls are white.",  "The stairs creak.",      "Breakfast is early.",    "The beds are soft.",
    "The lift is slow.",     "A clock ticks all day.", "The carpets are thick.", "The lamps are dim.",
    "The towels are clean.", "The coffee is strong.",  "The doors close well.",  "A fan hums at night."};

TaskText write(Random& random, int) {
  std::set<std::string> none;
  const std::string house = draw_house(random, none) + " Hotel", owner = draw_person(random, none);
  const std::string city = draw_of(random, kCities), rooms = std::to_string(random.between(20, 400)),
                    trade = draw_of(random, kTrades), pet = draw_of(random, kPets), game = draw_of(random, kGames);
  std::vector<std::string> facts = {"The hotel is in the city of " + city + ".",
                                    "It has " + rooms + " rooms.",
                                    "Its owner is " + owner + ".",
                                    "The owner was once a " + trade + ".",
                                    "The owner keeps a " + pet + ".",
                                    "The guests like to play " + game + "."};
  shuffle(random, facts);
  const auto details = shuffled(random, kDetails);
  const auto key = [](const std::string& words) { return kKey + words + kKey; };
  TaskText text{.statements = {},
                .question = "Sum up the report on the " + house +
                            " in one paragraph: the city, the number of rooms, the owner, the owner's trade and pet, "
                            "and the game of the guests.",
                .lead = "Summary of the report on the " + house +
                        ": city, rooms, owner, trade and pet of the owner, game of the guests.",
                .answer = "The hotel is in the city of " + key(city) + " and has " + key(rooms) +
                          " rooms. Its owner is " + key(owner) + ", who was once a " + key(trade) + " and keeps a " +
                          key(pet) + ". The guests like to play " + key(game) + ".",
                .room = kRoom};
  for (std::size_t i = 0; i < facts.size(); ++i) {
    text.statements.push_back("Report on the " + house + ", part " + std::to_string(i + 1) + ": " +
                              std::string(details[2 * i]) + " " + facts[i] + " " + std::string(details[2 * i + 1]));
  }
  return text;
}

/// How often each word occurs, in lower case.
std::map<std::string, int> counts_of(std::string_view text) {
  std::map<std::string, int> counts;
  for (std::string& word : alphanumeric_words(text)) {
    for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    ++counts[std::move(word)];
  }
  return counts;
}

/// From its first word to an empty line.
std::string_view first_paragraph(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\n"), text.size()));
  return text.substr(0, text.find("\n\n"));
}

/// The share of the key facts of which every word occurs.
double recall(std::string_view expected, const std::map<std::string, int>& answer) {
  double stated = 0, all = 0;
  for (std::size_t begin = expected.find(kKey); begin != std::string_view::npos; begin = expected.find(kKey, begin)) {
    const std::size_t end = expected.find(kKey, begin + 1);
    const auto words = counts_of(expected.substr(begin, end - begin));
    stated += std::ranges::all_of(words, [&](const auto& word) { return answer.contains(word.first); }) ? 1 : 0;
    ++all;
    begin = end + 1;
  }
  return stated / all;
}

/// The share of the answer's words that the expected text has, each at most as often as there (ROUGE-1's precision).
double precision(std::string_view expected, const std::map<std::string, int>& answer) {
  const auto known = counts_of(expected);
  double common = 0, all = 0;
  for (const auto& [word, n] : answer) {
    const auto there = known.find(word);
    if (there != known.end()) common += std::min(n, there->second);
    all += n;
  }
  return all > 0 ? common / all : 0;
}

/// F1 = 2 P R / (P + R): what leaves facts out loses recall, what repeats the text or lists every city loses precision.
double share(std::string_view expected, std::string_view answer) {
  const auto words = counts_of(first_paragraph(answer));
  const double r = recall(expected, words), p = precision(expected, words);
  return r > 0 ? 2 * p * r / (p + r) : 0;
}

}  // namespace

Task summary_task() {
  return {.name = "summary",
          .definition = "A report of six parts with a key fact each; the answer is a summary with all of them.",
          .write = write,
          .share = share};
}

}  // namespace kvscope::engine
