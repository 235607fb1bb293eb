#pragma once
// Pins: tokens of a head that a person keeps in sight, with a letter and a note. They belong to a text, not to a run: every
// run that begins with the same prompt has them, as far as its tokens are the same.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/record/run_record.h"

namespace kvscope {

class JsonObject;

inline constexpr int kMaxPins = 8;                // of one text: a to h
inline constexpr std::size_t kMaxNote = 1 << 14;  // bytes of a note

struct Pin {
  int letter = 0;  // 0 is a
  int layer = 0, kv_head = 0;
  std::int32_t token = 0;
  std::uint64_t tokens = 0;  // hash of the text's tokens up to and with this one
  std::string note;
  bool operator==(const Pin&) const = default;
};

/// A text that has pins, known by its first tokens.
struct PinnedText {
  std::int32_t n = 0;        // how many of them: a prompt
  std::uint64_t tokens = 0;  // their hash
  std::vector<Pin> pins;     // by letter, each letter once
  bool operator==(const PinnedText&) const = default;
};
using PinnedTexts = std::vector<PinnedText>;

/// "a" to "h".
std::string pin_letter(int letter);
/// Nothing for a text that is no letter of a pin.
std::optional<int> parse_pin_letter(const std::string& text);

/// Which text the run has: of those that it begins with, the longest. -1: none.
int text_of(const PinnedTexts& texts, const RunRecord& run);
/// The pins of the run's text; empty if it has none.
std::vector<Pin> pins_of(const PinnedTexts& texts, const RunRecord& run);

/// What becomes of a pin in a run of its text.
enum class PinPlace : std::uint8_t {
  here,
  other_tokens,  // the run has written something else by then
  behind_end,    // it has no such token, yet or at all
  no_such_head,  // its model has fewer layers or heads
};
/// "", "other tokens here", "behind this run's end", "this run has no such head".
std::string_view pin_place_text(PinPlace place);

struct PlacedPin {
  Pin pin;
  PinPlace place = PinPlace::here;
};
/// The pins of the run's text, by letter, and which of them the run shows.
std::vector<PlacedPin> placed_pins(const PinnedTexts& texts, const RunRecord& run);

/// The pin at that place of the run; none: -1. Otherwise its letter.
int find_pin(const PinnedTexts& texts, const RunRecord& run, int layer, int kv_head, std::int32_t token);
/// Pins a token with the first free letter, which it returns. Throws Error (usage) for the ninth of a text.
int add_pin(PinnedTexts& texts, const RunRecord& run, int layer, int kv_head, std::int32_t token);
/// Takes a pin away, with its note. A text without pins goes.
void remove_pin(PinnedTexts& texts, const RunRecord& run, int letter);
/// The note of a pin of the run's text. Throws Error (usage) if there is no such pin, or the note is too long.
void set_pin_note(PinnedTexts& texts, const RunRecord& run, int letter, const std::string& note);
/// Puts pins of this run that came with a file among those of its text: with their letters where these are free, else with
/// others. Of the same place the file's note counts. Returns how many there was no room for.
int merge_pins(PinnedTexts& texts, const RunRecord& run, const std::vector<Pin>& pins);

/// {"letter", "layer", "kv_head", "token", "note"}: without the hash, which is the run's to know.
nlohmann::json pin_json(const Pin& pin);
/// Throws Error for what is no pin.
Pin pin_from_json(const JsonObject& object);

}  // namespace kvscope
