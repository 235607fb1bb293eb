#include "views/widgets/parted_note.h"

#include <algorithm>
#include <array>
#include <vector>

#include "views/figure/token_facts.h"
#include "views/widgets/chrome.h"
#include "views/widgets/table_cells.h"

namespace kvscope::views {
namespace {

constexpr float kLeastNote = 60;  // design pixels, in which its first words can be read

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
  std::string text = "Texts diverge at token " + std::to_string(common) + ": ";
  if (context.selection->map.compare == MapCompare::difference)
    return {"map.refusal", text + "B − A has no value here.", true};
  text += "each map uses its own run's text.";
  const int shorter = std::min(context.a->run->n_tokens(), context.b->run->n_tokens());
  if (q >= shorter) text += " The shorter run is at its last query, " + std::to_string(shorter - 1) + ".";
  return {"map.parted", text, true};
}

/// The notes at query q of A.
std::vector<Note> notes_at(const ViewContext& context, const PairNotes& about, std::int32_t q) {
  const RunRecord &a = *context.a->run, &b = *context.b->run;
  const int common = common_prefix(a, b);
  const bool part = tokens_part(a, b);
  if (part && q >= common) return {note_of_parted(context, common, q)};
  std::vector<Note> notes;
  if (!part && q >= common)
    notes.push_back(
        {"map.both_at", "Compared at query " + std::to_string(common - 1) + ", where the shorter run ends.", true});
  if (!about.needs_oracle) return notes;
  if (part)
    notes.push_back({"map.own_oracles", "Their texts diverge later, so each is judged by its own oracle.", false});
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

/// Cut at `width`.
void draw_in_one_line(const ViewServices& services, const std::vector<Note>& notes, float width) {
  if (notes.empty()) return ImGui::Dummy({0, ImGui::GetTextLineHeight()});
  std::string text;
  for (const Note& note : notes) text += (text.empty() ? "" : " ") + note.text;
  const std::string fits = cut_to(text, width);
  text_in(colour_of(services, notes[0]), fits);
  for (const Note& note : notes) services.items->add_text(note.item, last_item(), note.text);
  if (fits != text) hint_of(services, text);
}

/// As much room as the longest note at any query.
void draw_in_lines(const ViewServices& services, const std::vector<Note>& notes, float height) {
  const float top = ImGui::GetCursorPosY();
  for (const Note& note : notes) {
    wrapped_text_in(colour_of(services, note), note.text);
    services.items->add_text(note.item, last_item(), note.text);
  }
  ImGui::SetCursorPosY(std::max(top + height, ImGui::GetCursorPosY()));
}

/// The labels of the two ways, and whether they are in one row.
struct Ways {
  std::string whole, replay, go_to;
  bool in_a_row;
};

float width_of(const Ways& ways) {
  const ImGuiStyle& style = ImGui::GetStyle();
  const auto button = [&](const std::string& label) {
    return ImGui::CalcTextSize(label.c_str()).x + 2 * style.FramePadding.x;
  };
  return button(ways.replay) + (ways.go_to.empty() ? 0 : style.ItemSpacing.x + button(ways.go_to));
}

/// The longest labels that fit in one row; where there are none the shortest in little room, else two rows.
Ways ways_together(int common, float room, bool little_room) {
  const std::string whole = "Replay A's tokens under B's policy", query = std::to_string(common - 1);
  const std::array<std::array<std::string, 2>, 3> labels = {
      {{whole, "Go to query " + query}, {"Replay as B", "Go to query " + query}, {"Replay", "Go to " + query}}};
  Ways ways;
  for (const auto& [replay, go_to] : labels) {
    ways = {whole, replay, common > 0 ? go_to : "", true};
    if (width_of(ways) <= room) return ways;
  }
  ways.in_a_row = little_room;
  return ways;
}

void draw_ways(const ViewServices& services, ViewContext& context, int common, const Ways& ways) {
  if (ImGui::Button((ways.replay + "##replay").c_str()) && context.command) context.command("run.replay_as_b");
  services.items->add_text("map.replay", last_item(), ways.whole);
  if (ways.replay != ways.whole) hint_of(services, ways.whole);
  if (ways.go_to.empty()) return;
  if (ways.in_a_row) ImGui::SameLine();
  if (ImGui::Button((ways.go_to + "##go_to").c_str())) scrub_to(*context.selection, common - 1, *context.a->run);
  services.items->add("map.go_to_common", last_item());
  hint_of(services, "Go to the last query where A and B have the same tokens");
}

/// The note, then the ways, whose place does not depend on the note; in two lines where one is too short.
void draw_briefly(const ViewServices& services, ViewContext& context, const std::vector<Note>& now, bool ever,
                  float least) {
  const RunRecord &a = *context.a->run, &b = *context.b->run;
  const float room = ImGui::GetContentRegionAvail().x, left = ImGui::GetCursorPosX();
  const float gap = ImGui::GetStyle().ItemSpacing.x;
  if (!tokens_part(a, b)) {
    const float line = ImGui::GetTextLineHeightWithSpacing();
    if (ever && ImGui::GetContentRegionAvail().y - line >= least) draw_in_one_line(services, now, room);
    return;
  }
  const int common = common_prefix(a, b);
  const Ways shortest = ways_together(common, 0, true);
  const float rest = room - width_of(shortest) - gap;
  const bool beside = rest >= services.theme->px(kLeastNote);
  if (beside) ImGui::AlignTextToFramePadding();
  draw_in_one_line(services, now, beside ? rest : room);
  if (beside) ImGui::SameLine(left + rest + gap);
  draw_ways(services, context, common, beside ? shortest : ways_together(common, room, true));
}

}  // namespace

std::optional<int> parted_at(const ViewContext& context) {
  if (!is_pair(context)) return {};
  const RunRecord &a = *context.a->run, &b = *context.b->run;
  const int common = common_prefix(a, b);
  return tokens_part(a, b) && context.q() >= common ? std::optional(common) : std::nullopt;
}

void draw_refusal(const ViewServices& services) {
  const std::string text =
      "B − A needs the same tokens in both runs. Replay decodes A's tokens under B's policy; A | B shows both maps.";
  wrapped_text_in(services.theme->palette.muted, text);
  services.items->add_text("map.refused", last_item(), text);
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
  if (about.little_room) return draw_briefly(services, context, now, !first.empty() || !last.empty(), about.least);
  draw_in_lines(services, now, std::max(height_of(first), height_of(last)));
  if (!tokens_part(a, b)) return;
  const int common = common_prefix(a, b);
  draw_ways(services, context, common, ways_together(common, ImGui::GetContentRegionAvail().x, false));
}

}  // namespace kvscope::views
