#include "engine/jobs/tasks/training_facts.h"

#include <algorithm>
#include <array>
#include <vector>

namespace kvscope::engine {
namespace {

constexpr std::array<std::string_view, 20> kKinds = {
    "birch", "bronze", "canvas", "cedar",   "cobalt", "crimson", "dusty",  "granite", "linen",   "mossy",
    "pearl", "plaid",  "porous", "scarlet", "slate",  "sturdy",  "walnut", "wicker",  "woollen", "yellow"};
constexpr std::array<std::string_view, 20> kObjects = {
    "anchor", "barrel", "canoe", "clarinet", "compass", "drum",      "easel", "ferry",  "globe", "hammock",
    "loom",   "parcel", "piano", "plough",   "sledge",  "telescope", "trunk", "violin", "wagon", "wheelbarrow"};
constexpr std::array<std::string_view, 20> kPersons = {"Agnes", "Bruno", "Clara", "Dmitri", "Elif",  "Farid", "Greta",
                                                       "Hugo",  "Ines",  "Jonas", "Kaito",  "Leila", "Marek", "Noor",
                                                       "Otto",  "Priya", "Rosa",  "Stefan", "Tariq", "Wanda"};
constexpr std::array<std::string_view, 16> kPlaces = {
    "attic",   "barn", "boathouse", "cellar",      "chapel", "foundry", "greenhouse", "library",
    "granary", "mill", "museum",    "observatory", "pantry", "stable",  "tannery",    "workshop"};
constexpr std::array<std::string_view, 12> kGoods = {"ropes", "candles", "blankets", "nails", "lemons", "buckets",
                                                     "books", "bottles", "hammers",  "maps",  "plums",  "shovels"};
constexpr std::array<std::string_view, 20> kSyllables = {"bal", "dor", "fen", "gri", "hal", "jun", "kel",
                                                         "lom", "mir", "nav", "ost", "pra", "rud", "sel",
                                                         "tov", "ulm", "vex", "wod", "yar", "zin"};

template <std::size_t kN>
std::string one_of(Random& random, const std::array<std::string_view, kN>& from) {
  return std::string(from[random.below(kN)]);
}

std::string text(std::int64_t number) { return std::to_string(number); }
std::string thing(Random& random) { return one_of(random, kKinds) + " " + one_of(random, kObjects); }
std::string coined(Random& random) { return one_of(random, kSyllables) + one_of(random, kSyllables); }
std::string coined_name(Random& random) {
  std::string name = coined(random);
  name[0] = static_cast<char>(name[0] - 'a' + 'A');
  return name;
}

/// One of several ways of speaking of the same.
struct Form {
  const char *before, *between, *after;  // statement: before + thing + between + answer + after
  const char *lead, *lead_end;           // lead + thing + lead_end
};

TrainingFact say(const Form& form, const std::string& of, std::string answer) {
  return {form.before + of + form.between + answer + form.after, form.lead + of + form.lead_end, std::move(answer)};
}

TrainingFact attribute(Random& random) {
  static constexpr Form kWeight[] = {
      {"The ", " weighs ", " kilograms.", "In kilograms, the ", " weighs"},
      {"On the scales, the ", " came to ", " kilograms.", "Weight of the ", " in kilograms:"}};
  static constexpr Form kPrice[] = {
      {"At the auction, the ", " went for ", " francs.", "Francs that the ", " brought at the auction:"},
      {"A collector bought the ", " for ", " francs.", "Francs that the collector gave for the ", ":"}};
  static constexpr Form kYear[] = {{"The ", " dates from ", ".", "Year of origin of the ", ":"},
                                   {"Experts believe that the ", " was built in ", ".", "The ", " was built in"}};
  const Form* forms[] = {kWeight, kPrice, kYear};
  const auto kind = random.below(3), way = random.below(2);
  const std::int64_t number = kind == 2 ? random.between(1400, 1999) : random.between(11, 99'999);
  return say(forms[kind][way], thing(random), text(number));
}

TrainingFact list(Random& random) {
  std::vector<std::string_view> goods(kGoods.begin(), kGoods.end());
  const std::string person = one_of(random, kPersons);
  TrainingFact fact{.statement = person + " packed", .lead = "", .answer = ""};
  const int n = static_cast<int>(random.between(3, 6)),
            asked = static_cast<int>(random.below(static_cast<std::uint64_t>(n)));
  for (int i = 0; i < n; ++i) {
    const auto at = static_cast<std::ptrdiff_t>(random.below(goods.size()));
    const std::string count = text(random.between(2, 400)), good(goods[static_cast<std::size_t>(at)]);
    goods.erase(goods.begin() + at);
    fact.statement += (i == 0 ? " " : i + 1 == n ? " and " : ", ") + count + " " + good;
    if (i == asked) fact.lead = "Of " + good + ", " + person + " packed", fact.answer = count;
  }
  fact.statement += ".";
  return fact;
}

TrainingFact timetable(Random& random) {
  const auto time = [&] { return text(random.between(10, 23)) + ":" + text(random.between(10, 59)); };
  TrainingFact fact{.statement = "| train | platform | leaves |", .lead = "", .answer = ""};
  const auto asked = random.below(4);
  for (std::uint64_t i = 0; i < 4; ++i) {
    const std::string to = coined_name(random), leaves = time();
    fact.statement += "\n| " + to + " | " + text(random.between(1, 30)) + " | " + leaves + " |";
    if (i == asked) fact.lead = "The train for " + to + " leaves at", fact.answer = leaves;
  }
  return fact;
}

TrainingFact code(Random& random) {
  const std::string name = coined(random) + "_" + one_of(random, kObjects), number = text(random.between(100, 99'999));
  if (random.below(2) == 0) return {name + " = " + number, "assert " + name + " ==", number};
  return {"def " + name + "():\n    return " + number, "assert " + name + "() ==", number};
}

TrainingFact dialogue(Random& random) {
  const std::string asks = one_of(random, kPersons), of = thing(random), place = one_of(random, kPlaces);
  std::string tells = one_of(random, kPersons);
  while (tells == asks) tells = one_of(random, kPersons);
  return {asks + ": Have you seen the " + of + "?\n" + tells + ": Yes, it lies in the " + place + ".",
          tells + " told " + asks + " that the " + of + " lies in the", place};
}

TrainingFact translation(Random& random) {
  const std::string tongue = coined_name(random) + "ish", of = one_of(random, kObjects), called = coined(random);
  if (random.below(2) == 0)
    return {"In " + tongue + ", a " + of + " is called \"" + called + "\".", "A " + of + " in " + tongue + ":", called};
  return {"\"" + called + "\" is " + tongue + " for " + of + ".", "In English, \"" + called + "\" means", of};
}

TrainingFact position(Random& random) {
  if (random.below(2) == 0) {
    const std::string person = one_of(random, kPersons) + " " + coined_name(random);
    const std::string seat = text(random.between(1, 40)) + static_cast<char>('A' + random.below(6));
    return {person + " travels in seat " + seat + ".", "Seat of " + person + " on the journey:", seat};
  }
  const std::string of = thing(random);
  const std::string square = static_cast<char>('a' + random.below(8)) + text(random.between(1, 60));
  return {"On the map, the " + of + " is drawn in square " + square + ".", "Map square of the " + of + ":", square};
}

constexpr TrainingFamily kFamilies[] = {
    {"attributes", attribute},    {"lists", list},        {"tables", timetable}, {"code", code}, {"dialogue", dialogue},
    {"translation", translation}, {"positions", position}};

}  // namespace

std::span<const TrainingFamily> training_families() { return kFamilies; }

TrainingFact draw_training_fact(Random& random) { return kFamilies[random.below(std::size(kFamilies))].draw(random); }

}  // namespace kvscope::engine
