#pragma once
// The token ids of everything that tasks say, encoded once.

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace kvscope::engine {

using TokenIds = std::vector<std::int32_t>;

inline constexpr std::array<std::string_view, 20> kAdjectives = {
    "amber",  "brisk",  "copper", "distant", "eager",  "frozen", "gentle", "hollow", "ivory",  "jolly",
    "kindly", "little", "marble", "narrow",  "orange", "polite", "quiet",  "rustic", "silver", "velvet"};
inline constexpr std::array<std::string_view, 20> kNouns = {
    "falcon", "garden", "harbor", "island", "jacket", "kettle", "ladder",  "mirror", "needle", "orchard",
    "pepper", "quarry", "ribbon", "saddle", "temple", "urchin", "village", "window", "yacht",  "zephyr"};

/// The phrases of one statement, or of a question and its answer, joined in their order equal the encoding of the
/// joined text: every phrase begins and ends where the tokenizer's split (words with one leading blank, single digits,
/// marks with their line end) cuts anyway. A test holds this against the tokenizer. At seams between text and tasks a
/// tokenizer might cut otherwise (".\n" and "\nWhat" share a line end); sequences are made of ids, not of text, so that
/// does not matter.
struct TaskLexicon {
  TokenIds numbers_open;                     // "\nNumbers:"
  std::array<TokenIds, 100> two_digits;      // " 07"
  TokenIds reversed_open;                    // "\nReversed:"
  TokenIds code_open;                        // "\nThe code of the"
  TokenIds code_is;                          // " is"
  TokenIds question_open;                    // "\nWhat is the code of the"
  TokenIds question_close;                   // "?"
  TokenIds stop;                             // ".\n"
  TokenIds blank;                            // " "
  std::array<TokenIds, 10> digit;            // "7"
  std::array<TokenIds, 20> adjective, noun;  // " amber", " falcon"

  /// encode: raw text to ids, no special tokens added.
  static TaskLexicon make(const std::function<TokenIds(std::string_view)>& encode);
};

/// Appends `tail` to `ids`.
void append(TokenIds& ids, const TokenIds& tail);

}  // namespace kvscope::engine
