// pin.*, notes.show, run.note: tokens that a person keeps in sight, and what is noted of them.

#include <algorithm>

#include "app/command/app_commands.h"
#include "app/command/command_arguments.h"

namespace kvscope::app {
namespace {

std::vector<PlacedPin> pins_on_show(const Session& session) {
  if (!session.runs().shown_a()) return {};
  return placed_pins(session.selection().pins, run_of(session));
}

int letter_argument(const nlohmann::json& arguments) {
  const auto letter = parse_pin_letter(text_argument(arguments, "letter"));
  if (!letter) bad_argument("letter", "a to h");
  return *letter;
}

PlacedPin pin_argument(const Session& session, const nlohmann::json& arguments) {
  const int letter = letter_argument(arguments);
  for (PlacedPin& placed : pins_on_show(session)) {
    if (placed.pin.letter == letter) return std::move(placed);
  }
  usage_error("letter", "no pin " + pin_letter(letter));
}

/// The cursor, or the place that is asked for. -1: no token.
views::Cursor place_argument(const Session& session, const nlohmann::json& arguments) {
  const RunRecord& run = run_of(session);
  views::Cursor at = views::cursor(session.selection(), run);
  const auto index = [&](const char* key, int n, int now) {
    const int value = integer_argument(arguments, key, now);
    if (has_argument(arguments, key) && (value < 0 || value >= n))
      usage_error(key, std::to_string(value), "0 to " + std::to_string(n - 1));
    return value;
  };
  at.layer = index("layer", run.evict_at.n_layers(), at.layer);
  at.kv_head = index("kv_head", run.evict_at.n_kv_heads(), at.kv_head);
  at.token = index("token", run.n_tokens(), at.token);
  return at;
}

nlohmann::json toggle(Session& session, const nlohmann::json& arguments) {
  const views::Cursor at = place_argument(session, arguments);
  if (at.token < 0) usage_error("pin", "no token is selected", "", "click a token first");
  PinnedTexts& pins = session.selection().pins;
  if (const int letter = find_pin(pins, run_of(session), at.layer, at.kv_head, at.token); letter >= 0) {
    remove_pin(pins, run_of(session), letter);
    session.messages().notify("pin " + pin_letter(letter) + " removed (Ctrl+Z to undo)");
    return nullptr;
  }
  const std::string letter = pin_letter(add_pin(pins, run_of(session), at.layer, at.kv_head, at.token));
  session.messages().notify("pin " + letter + ": L" + std::to_string(at.layer) + " H" + std::to_string(at.kv_head) +
                            ", token " + std::to_string(at.token));
  return letter;
}

void go_to(Session& session, const PlacedPin& placed) {
  if (placed.place != PinPlace::here)
    usage_error("pin " + pin_letter(placed.pin.letter), std::string(pin_place_text(placed.place)));
  views::go_to_pin(session.selection(), placed, run_of(session));
}

/// From the cursor's pin on, by letter, round the end; those that the run does not show are passed over.
void go_on(Session& session) {
  std::vector<PlacedPin> pins = pins_on_show(session);
  std::erase_if(pins, [](const PlacedPin& placed) { return placed.place != PinPlace::here; });
  if (pins.empty()) usage_error("pin", "this run has no pins", "", "P pins the selected token");
  const views::Selection& now = session.selection();
  const int at = find_pin(now.pins, run_of(session), now.layer, now.kv_head, now.token);
  const auto next = std::ranges::find_if(pins, [at](const PlacedPin& placed) { return placed.pin.letter > at; });
  go_to(session, next == pins.end() ? pins.front() : *next);
}

void clear(Session& session, const nlohmann::json& arguments) {
  if (has_argument(arguments, "letter"))
    return remove_pin(session.selection().pins, run_of(session), pin_argument(session, arguments).pin.letter);
  for (const PlacedPin& placed : pins_on_show(session))
    remove_pin(session.selection().pins, run_of(session), placed.pin.letter);
}

void note_run(Session& session, const nlohmann::json& arguments) {
  const int id = integer_argument(arguments, "id", session.runs().a_id());
  if (!session.runs().find(id)) usage_error("id", "no run " + std::to_string(id));
  const std::string text = text_argument(arguments, "text");
  if (text.size() > kMaxNote)
    usage_error("text", std::to_string(text.size()) + " bytes", "at most " + std::to_string(kMaxNote));
  auto& notes = session.selection().run_notes;
  if (text.empty()) {
    notes.erase(id);
  } else {
    notes[id] = text;
  }
}

}  // namespace

void add_pin_commands(CommandRegistry& registry, Session& session, UiState& ui) {
  const auto shown = [&session] { return session.runs().shown_a() != nullptr; };
  const auto any = [&session] { return !pins_on_show(session).empty(); };
  registry.add({"pin.toggle", "Pin or unpin the selected token", "Pins", "P",
                takes(arg::number("layer", "the cursor"), arg::number("kv_head", "the cursor"),
                      arg::number("token", "the cursor")),
                shown, [&session](const nlohmann::json& arguments) { return toggle(session, arguments); }});
  registry.add({"notes.show", "Pins and notes", "Pins", "Shift+P", takes(), shown, [&ui] { ui.notes = !ui.notes; }});
  registry.add({"pin.next", "Next pin", "Pins", "", takes(), any, [&session] { go_on(session); }});
  registry.add({"pin.go", "Go to a pin", "Pins", "", takes(arg::text("letter", "the next", "a to h")), any,
                [&session](const nlohmann::json& arguments) {
                  if (!has_argument(arguments, "letter")) return go_on(session);
                  go_to(session, pin_argument(session, arguments));
                }});
  for (int letter = 0; letter < kMaxPins; ++letter) {
    const auto find = [&session, letter] {
      const std::vector<PlacedPin> pins = pins_on_show(session);
      const auto it = std::ranges::find_if(pins, [letter](const PlacedPin& one) { return one.pin.letter == letter; });
      return it == pins.end() ? std::optional<PlacedPin>() : *it;
    };
    const std::string name = pin_letter(letter);
    registry.add({"pin.go_" + name, "Go to pin " + name, "Pins", "", takes(),
                  [find] {
                    const auto pin = find();
                    return pin && pin->place == PinPlace::here;
                  },
                  [&session, find] { go_to(session, *find()); },
                  [find] {
                    const auto pin = find();
                    return pin ? std::string(pin_place_text(pin->place)) : "There is no such pin.";
                  }});
  }
  registry.add({"pin.note", "Add a note to a pin", "Pins", "",
                takes(arg::text("letter", "", "a to h"), arg::text("text", "asks")), any,
                [&session, &ui](const nlohmann::json& arguments) {
                  if (!has_argument(arguments, "text")) return void(ui.notes = true);
                  set_pin_note(session.selection().pins, run_of(session), letter_argument(arguments),
                               text_argument(arguments, "text"));
                }});
  registry.add({"run.note", "Add a note to a run", "Pins", "",
                takes(arg::number("id", "A", "run id"), arg::text("text", "asks")), shown,
                [&session, &ui](const nlohmann::json& arguments) {
                  if (!has_argument(arguments, "text")) return void(ui.notes = true);
                  note_run(session, arguments);
                }});
  registry.add({"pin.clear", "Remove pins", "Pins", "", takes(arg::text("letter", "all of this text", "a to h")), any,
                [&session](const nlohmann::json& arguments) { clear(session, arguments); }});
}

}  // namespace kvscope::app
