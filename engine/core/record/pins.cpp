#include "engine/core/record/pins.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/core/record/run_fields.h"
#include "engine/core/support/error.h"
#include "engine/core/support/hash.h"
#include "engine/core/support/json_file.h"

namespace kvscope {
namespace {

constexpr std::int32_t kTextWithoutPrompt = 64;  // tokens by which a run is known that has no prompt
constexpr std::size_t kMaxTexts = 256;           // beyond, the oldest goes
constexpr int kMaxIndex = 1 << 16;

/// The hashes of the first n tokens, asked for with n ascending: one pass over the tokens for all.
class PrefixHashes {
 public:
  explicit PrefixHashes(const RunRecord& run) : run_(run) {}
  /// Nothing if the run has fewer tokens.
  std::optional<std::uint64_t> of(std::int32_t n) {
    if (n > run_.n_tokens()) return std::nullopt;
    for (; at_ < n; ++at_) hash_.add_word(static_cast<std::uint32_t>(run_.ids[static_cast<std::size_t>(at_)]));
    return hash_.value();
  }

 private:
  const RunRecord& run_;
  std::int32_t at_ = 0;
  Fnv1a hash_;
};

std::uint64_t hash_up_to(const RunRecord& run, std::int32_t n) { return PrefixHashes(run).of(n).value_or(0); }

PinnedText& text_for(PinnedTexts& texts, const RunRecord& run) {
  if (const int at = text_of(texts, run); at >= 0) return texts[static_cast<std::size_t>(at)];
  const std::int32_t n = std::min(run.prompt_len > 0 ? run.prompt_len : kTextWithoutPrompt, run.n_tokens());
  if (texts.size() >= kMaxTexts) texts.erase(texts.begin());
  return texts.emplace_back(PinnedText{n, hash_up_to(run, n), {}});
}

Pin* pin_of(PinnedTexts& texts, const RunRecord& run, int letter) {
  const int at = text_of(texts, run);
  if (at < 0) return nullptr;
  std::vector<Pin>& pins = texts[static_cast<std::size_t>(at)].pins;
  const auto it = std::ranges::find(pins, letter, &Pin::letter);
  return it == pins.end() ? nullptr : &*it;
}

/// -1: all are taken.
int free_letter(const std::vector<Pin>& pins) {
  for (int letter = 0; letter < kMaxPins; ++letter) {
    if (std::ranges::count(pins, letter, &Pin::letter) == 0) return letter;
  }
  return -1;
}

void insert(std::vector<Pin>& pins, Pin pin) {
  const auto at = std::ranges::upper_bound(pins, pin.letter, {}, &Pin::letter);
  pins.insert(at, std::move(pin));
}

bool same_place(const Pin& a, const Pin& b) {
  return a.layer == b.layer && a.kv_head == b.kv_head && a.token == b.token && a.tokens == b.tokens;
}

}  // namespace

std::string pin_letter(int letter) { return std::string(1, static_cast<char>('a' + letter)); }

std::optional<int> parse_pin_letter(const std::string& text) {
  if (text.size() != 1 || text[0] < 'a' || text[0] >= 'a' + kMaxPins) return std::nullopt;
  return text[0] - 'a';
}

std::string_view pin_place_text(PinPlace place) {
  switch (place) {
    case PinPlace::here:
      return "";
    case PinPlace::other_tokens:
      return "this run has different tokens there";
    case PinPlace::behind_end:
      return "after this run's end";
    case PinPlace::no_such_head:
      break;
  }
  return "this run has no such head";
}

int text_of(const PinnedTexts& texts, const RunRecord& run) {
  std::vector<std::size_t> order(texts.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return texts[i].n; });
  PrefixHashes hashes(run);
  int longest = -1;
  for (const std::size_t i : order) {
    const auto hash = hashes.of(texts[i].n);
    if (!hash) break;
    if (*hash == texts[i].tokens) longest = static_cast<int>(i);
  }
  return longest;
}

std::vector<Pin> pins_of(const PinnedTexts& texts, const RunRecord& run) {
  const int at = text_of(texts, run);
  return at < 0 ? std::vector<Pin>() : texts[static_cast<std::size_t>(at)].pins;
}

std::vector<PlacedPin> placed_pins(const PinnedTexts& texts, const RunRecord& run) {
  std::vector<Pin> pins = pins_of(texts, run);
  std::ranges::stable_sort(pins, {}, &Pin::token);
  PrefixHashes hashes(run);
  std::vector<PlacedPin> placed;
  for (Pin& pin : pins) {
    const auto hash = hashes.of(pin.token + 1);
    const bool head = pin.layer < run.evict_at.n_layers() && pin.kv_head < run.evict_at.n_kv_heads();
    const PinPlace place = !hash                 ? PinPlace::behind_end
                           : *hash != pin.tokens ? PinPlace::other_tokens
                           : !head               ? PinPlace::no_such_head
                                                 : PinPlace::here;
    placed.push_back({std::move(pin), place});
  }
  std::ranges::sort(placed, {}, [](const PlacedPin& one) { return one.pin.letter; });
  return placed;
}

int find_pin(const PinnedTexts& texts, const RunRecord& run, int layer, int kv_head, std::int32_t token) {
  const std::vector<Pin> pins = pins_of(texts, run);
  if (pins.empty() || token < 0 || token >= run.n_tokens()) return -1;
  const Pin wanted{0, layer, kv_head, token, hash_up_to(run, token + 1), ""};
  const auto it = std::ranges::find_if(pins, [&](const Pin& pin) { return same_place(pin, wanted); });
  return it == pins.end() ? -1 : it->letter;
}

int add_pin(PinnedTexts& texts, const RunRecord& run, int layer, int kv_head, std::int32_t token) {
  const int letter = free_letter(pins_of(texts, run));
  if (letter < 0)
    throw Error({.code = ExitCode::usage,
                 .file = "pin",
                 .found = "this text already has eight pins, a to h",
                 .hint = "remove one first: press P on its token, or use the list of pins (Shift+P)"});
  insert(text_for(texts, run).pins, {letter, layer, kv_head, token, hash_up_to(run, token + 1), ""});
  return letter;
}

void remove_pin(PinnedTexts& texts, const RunRecord& run, int letter) {
  const int at = text_of(texts, run);
  if (at < 0) return;
  PinnedText& text = texts[static_cast<std::size_t>(at)];
  std::erase_if(text.pins, [letter](const Pin& pin) { return pin.letter == letter; });
  if (text.pins.empty()) texts.erase(texts.begin() + at);
}

void set_pin_note(PinnedTexts& texts, const RunRecord& run, int letter, const std::string& note) {
  Pin* pin = pin_of(texts, run, letter);
  if (pin == nullptr) throw Error({.code = ExitCode::usage, .file = "pin", .found = "no pin " + pin_letter(letter)});
  if (note.size() > kMaxNote)
    throw Error({.code = ExitCode::usage,
                 .file = "note",
                 .found = std::to_string(note.size()) + " bytes",
                 .expected = "at most " + std::to_string(kMaxNote)});
  pin->note = note;
}

int merge_pins(PinnedTexts& texts, const RunRecord& run, const std::vector<Pin>& pins) {
  int dropped = 0;
  for (Pin pin : pins) {
    if (pin.token >= run.n_tokens()) continue;
    pin.tokens = hash_up_to(run, pin.token + 1);
    std::vector<Pin>& there = text_for(texts, run).pins;
    const auto same = std::ranges::find_if(there, [&](const Pin& other) { return same_place(other, pin); });
    if (same != there.end()) {
      same->note = pin.note;
      continue;
    }
    if (std::ranges::count(there, pin.letter, &Pin::letter) > 0) pin.letter = free_letter(there);
    if (pin.letter < 0) {
      ++dropped;
    } else {
      insert(there, std::move(pin));
    }
  }
  return dropped;
}

nlohmann::json pin_json(const Pin& pin) {
  return {{"letter", pin_letter(pin.letter)},
          {"layer", pin.layer},
          {"kv_head", pin.kv_head},
          {"token", pin.token},
          {"note", pin.note}};
}

Pin pin_from_json(const JsonObject& object) {
  const auto letter = parse_pin_letter(object.text("letter"));
  if (!letter)
    throw Error(
        {.file = object.file(), .where = "letter", .found = in_quotes(object.text("letter")), .expected = "a to h"});
  Pin pin{.letter = *letter,
          .layer = static_cast<int>(object.integer("layer", 0, kMaxIndex)),
          .kv_head = static_cast<int>(object.integer("kv_head", 0, kMaxIndex)),
          .token = static_cast<std::int32_t>(object.integer("token", 0, kMaxPositions)),
          .note = object.text_or("note", "")};
  if (pin.note.size() > kMaxNote)
    throw Error({.file = object.file(),
                 .where = "note",
                 .found = std::to_string(pin.note.size()) + " bytes",
                 .expected = "at most " + std::to_string(kMaxNote)});
  return pin;
}

}  // namespace kvscope
