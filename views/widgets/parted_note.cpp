#include "views/widgets/parted_note.h"

#include <algorithm>
#include <array>
#include <vector>

#include "views/figure/token_facts.h"
#include "views/widgets/chrome.h"
#include "views/widgets/table_cells.h"

namespace kvscope::views {
namespace {

struct Note {
  const char* item;
  std::string text;
  bool warns;
};

bool is_pair(const ViewContext& context) {
  return context.set == nullptr && drawable(context.b) && context.selection->map.compare != MapCompare::none &&
         same_shape(*context.a->run, *context.b->run);
}

/// From the first token that differs on.
Note note_of_parted(const ViewContext& context, int common, std::int32_t q) {
  std::string text = "Different tokens from " + std::to_string(common) + " on: ";
  if (context.selection->map.compare == MapCompare::difference)
    return {"map.refusal", text + "only distributions compare.", true};
  text += "each map is of its run's own text.";
  const int shorter = std::min(context.a->run->n_tokens(), context.b->run->n_tokens());
  if (q >= shorter) text += " The shorter is at its last query, " + std::to_string(shorter - 1) + ".";
  return {"map.parted", text, true};
}

/// What is said at query q of A.
std::vector<Note> notes_at(const ViewContext& context, const PairNotes& about, std::int32_t q) {
  const RunRecord &a = *context.a->run, &b = *context.b->run;
  const int common = common_prefix(a, b);
  const bool part = tokens_part(a, b);
  if (part && q >= common) return {note_of_parted(context, common, q)};
  std::vector<Note> notes;
  if (!part && q >= common)
    notes.push_back(
        {"map.both_at", "Both at query " + std::to_string(common - 1) + ": one of them has no more tokens.", true});
  if (!about.needs_oracle) return notes;
  if (part) notes.push_back({"map.own_oracles", "Each by the oracle of its own run: later their texts part.", false});
  if (!about.common_oracle.empty()) notes.push_back({"map.common_oracle", std::string(about.common_oracle), false});
  return notes;
}

float height_of(const std::vector<Note>& notes) {
  float height = 0;
  for (const Note& note : notes) height += wrapped_height(note.text) + ImGui::GetStyle().ItemSpacing.y;
  return height;
}

Colour colour_of(const ViewServices& services, const Note& note) {
  return note.warns ? services.theme->palette.warn : services.theme->palette.muted;
}

void draw_in_one_line(const ViewServices& services, const std::vector<Note>& notes) {
  if (notes.empty()) return ImGui::Dummy({0, ImGui::GetTextLineHeight()});
  std::string text;
  for (const Note& note : notes) text += (text.empty() ? "" : " ") + note.text;
  cut_text_in(services, colour_of(services, notes[0]), text);
  for (const Note& note : notes) services.items->add_text(note.item, last_item(), note.text);
}

/// As much room as the longest that is said at any query.
void draw_in_lines(const ViewServices& services, const std::vector<Note>& notes, float height) {
  const float top = ImGui::GetCursorPosY();
  for (const Note& note : notes) {
    wrapped_text_in(colour_of(services, note), note.text);
    services.items->add_text(note.item, last_item(), note.text);
  }
  ImGui::SetCursorPosY(std::max(top + height, ImGui::GetCursorPosY()));
}

/// The longest labels that stand in one row; where there are none the shortest in little room, else two rows.
void draw_ways_together(const ViewServices& services, ViewContext& context, int common, bool little_room) {
  const std::string whole = "Replay A's tokens under B's policy", query = std::to_string(common - 1);
  const std::array<std::array<std::string, 2>, 3> labels = {
      {{whole, "Go to query " + query}, {"Replay as B", "Go to query " + query}, {"Replay", "Go to " + query}}};
  const ImGuiStyle& style = ImGui::GetStyle();
  const float room = ImGui::GetContentRegionAvail().x;
  const auto width_of = [&](const std::string& label) {
    return ImGui::CalcTextSize(label.c_str()).x + 2 * style.FramePadding.x;
  };
  const auto in_a_row = [&](const std::array<std::string, 2>& row) {
    return width_of(row[0]) + (common > 0 ? style.ItemSpacing.x + width_of(row[1]) : 0) <= room;
  };
  const auto* chosen = std::ranges::find_if(labels, in_a_row);
  const bool fits = chosen != labels.end();
  const auto& [replay, go_to] = fits ? *chosen : labels.back();
  if (ImGui::Button((replay + "##replay").c_str()) && context.command) context.command("run.replay_as_b");
  services.items->add_text("map.replay", last_item(), whole);
  if (replay != whole) hint_of(services, whole);
  if (common == 0) return;
  if (fits || little_room) ImGui::SameLine();
  if (ImGui::Button((go_to + "##go_to").c_str())) scrub_to(*context.selection, common - 1, *context.a->run);
  services.items->add("map.go_to_common", last_item());
  hint_of(services, "The last query at which A and B have the same tokens");
}

}  // namespace

std::optional<int> parted_at(const ViewContext& context) {
  if (!is_pair(context)) return {};
  const RunRecord &a = *context.a->run, &b = *context.b->run;
  const int common = common_prefix(a, b);
  return tokens_part(a, b) && context.q() >= common ? std::optional(common) : std::nullopt;
}

bool refuses_difference(const ViewContext& context) {
  return context.selection->map.compare == MapCompare::difference && parted_at(context);
}

void draw_pair_notes(const ViewServices& services, ViewContext& context, const PairNotes& about) {
  if (!is_pair(context)) return;
  const RunRecord &a = *context.a->run, &b = *context.b->run;
  const FontScope small(services.theme->fonts.small);
  const std::vector<Note> now = notes_at(context, about, context.q());
  // The longest are those of the first query and of the last.
  const std::vector<Note> first = notes_at(context, about, 0), last = notes_at(context, about, a.n_tokens() - 1);
  if (!about.little_room) {
    draw_in_lines(services, now, std::max(height_of(first), height_of(last)));
  } else if (!first.empty() || !last.empty()) {
    draw_in_one_line(services, now);
  }
  if (tokens_part(a, b)) draw_ways_together(services, context, common_prefix(a, b), about.little_room);
}

}  // namespace kvscope::views
