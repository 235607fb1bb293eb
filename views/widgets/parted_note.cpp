#include "views/widgets/parted_note.h"

#include <algorithm>
#include <string>

#include "views/figure/token_facts.h"
#include "views/widgets/chrome.h"

namespace kvscope::views {
namespace {

void draw_ways_together(const ViewServices& services, ViewContext& context, int common) {
  const ImGuiStyle& style = ImGui::GetStyle();
  const auto width_of = [&](const char* label) { return ImGui::CalcTextSize(label).x + 2 * style.FramePadding.x; };
  const char *whole = "Replay A's tokens under B's policy", *brief = "Replay as B";
  const bool fits = width_of(whole) <= ImGui::GetContentRegionAvail().x;
  if (ImGui::Button(fits ? whole : brief) && context.command) context.command("run.replay_as_b");
  services.items->add_text("map.replay", last_item(), whole);
  if (!fits) hint_of(services, whole);
  if (common == 0) return;
  const std::string go_to = "Go to query " + std::to_string(common - 1);
  const float width = width_of(go_to.c_str());
  const float right = ImGui::GetWindowPos().x + ImGui::GetWindowContentRegionMax().x;
  if (ImGui::GetItemRectMax().x + style.ItemSpacing.x + width < right) ImGui::SameLine();
  if (ImGui::Button(go_to.c_str())) scrub_to(*context.selection, common - 1, *context.a->run);
  services.items->add("map.go_to_common", last_item());
}

}  // namespace

std::optional<int> parted_at(const ViewContext& context) {
  if (context.set != nullptr || !drawable(context.b) || context.selection->map.compare == MapCompare::none) return {};
  const RunRecord &a = *context.a->run, &b = *context.b->run;
  const int common = common_prefix(a, b);
  return same_shape(a, b) && tokens_part(a, b) && context.q() >= common ? std::optional(common) : std::nullopt;
}

bool refuses_difference(const ViewContext& context) {
  return context.selection->map.compare == MapCompare::difference && parted_at(context);
}

void draw_parted_note(const ViewServices& services, ViewContext& context) {
  const auto common = parted_at(context);
  if (!common) return;
  std::string text = "Different tokens from " + std::to_string(*common) + " on: ";
  const int shorter = std::min(context.a->run->n_tokens(), context.b->run->n_tokens());
  if (refuses_difference(context)) {
    text += "only distributions compare.";
  } else {
    text += "each map is of its run's own text.";
    if (context.q() >= shorter) text += " The shorter is at its last query, " + std::to_string(shorter - 1) + ".";
  }
  wrapped_text_in(services.theme->palette.warn, text);
  services.items->add_text(refuses_difference(context) ? "map.refusal" : "map.parted", last_item(), text);
  draw_ways_together(services, context, *common);
}

}  // namespace kvscope::views
