#pragma once
// What the tasks about people share.

#include <array>
#include <set>
#include <string>
#include <string_view>

#include "engine/core/support/random.h"

namespace kvscope::engine {

inline constexpr std::array<std::string_view, 12> kNames = {"Anna",  "Peter", "Maria", "James", "Laura", "Simon",
                                                            "Helen", "David", "Julia", "Oscar", "Alice", "Martin"};
inline constexpr std::array<std::string_view, 16> kCities = {
    "Oslo",    "Lisbon", "Vienna",  "Madrid", "Dublin", "Athens", "Prague", "Warsaw",
    "Toronto", "Boston", "Chicago", "Sydney", "Tokyo",  "Cairo",  "Moscow", "Berlin"};
inline constexpr std::array<std::string_view, 16> kTrades = {
    "baker",   "farmer", "dentist", "painter", "lawyer",  "doctor", "tailor", "sailor",
    "teacher", "singer", "barber",  "plumber", "butcher", "judge",  "pilot",  "nurse"};
inline constexpr std::array<std::string_view, 16> kPets = {"dog",     "cat",      "parrot", "rabbit", "goat", "pony",
                                                           "hamster", "canary",   "pigeon", "snake",  "duck", "goose",
                                                           "mouse",   "tortoise", "lizard", "donkey"};
inline constexpr std::array<std::string_view, 12> kGames = {"chess",   "tennis", "football", "poker",
                                                            "golf",    "hockey", "darts",    "rugby",
                                                            "cricket", "squash", "checkers", "dominoes"};

inline constexpr int kMostPeople = 2000;  // in one text; a longer text repeats them

/// "Anna Amber-Falcon": 4,800 of them. Draws until one is not in `used`, and adds it there.
std::string draw_person(Random& random, std::set<std::string>& used);
/// "Quiet Amber Falcon": 8,000 of them, likewise.
std::string draw_house(Random& random, std::set<std::string>& used);

template <std::size_t kN>
std::string draw_of(Random& random, const std::array<std::string_view, kN>& from) {
  return std::string(from[random.below(kN)]);
}

}  // namespace kvscope::engine
