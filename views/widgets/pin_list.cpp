#include "views/widgets/pin_list.h"

#include "views/figure/token_text.h"
#include "views/widgets/chrome.h"
#include "views/widgets/pin_marks.h"

namespace kvscope::views {

std::string pin_line(const RunRecord& run, const PlacedPin& placed) {
  const Pin& pin = placed.pin;
  std::string line =
      "L" + std::to_string(pin.layer) + " H" + std::to_string(pin.kv_head) + ", token " + std::to_string(pin.token);
  if (placed.place != PinPlace::here) return line + ": " + std::string(pin_place_text(placed.place));
  return line + " “" + token_label(run.pieces[static_cast<std::size_t>(pin.token)], 24) + "”";
}

void draw_pin_list(const ViewServices& services, ViewContext& context) {
  if (context.pins == nullptr) return;
  const Palette& palette = services.theme->palette;
  draw_text(services.theme->fonts.bold, palette.text, "Pins");
  for (const PlacedPin& placed : *context.pins) {
    ImGui::PushID(placed.pin.letter);
    pin_badge(services, placed.pin.letter);
    ImGui::SameLine(0, services.theme->px(6));
    const std::string line = pin_line(*context.a->run, placed);
    const bool here = placed.place == PinPlace::here;
    ImGui::PushStyleColor(ImGuiCol_Text, to_imgui(here ? palette.text : palette.muted));
    if (ImGui::Selectable(line.c_str(), false, here ? 0 : ImGuiSelectableFlags_Disabled))
      go_to_pin(*context.selection, placed, *context.a->run);
    ImGui::PopStyleColor();
    services.items->add_text("pins." + pin_letter(placed.pin.letter), last_item(), line);
    if (!placed.pin.note.empty()) {
      const FontScope small(services.theme->fonts.small);
      wrapped_text_in(palette.muted, placed.pin.note);
      services.items->add_text("pins." + pin_letter(placed.pin.letter) + ".note", last_item(), placed.pin.note);
    }
    ImGui::PopID();
  }
  ImGui::Dummy({0, services.theme->px(6)});
}

}  // namespace kvscope::views
