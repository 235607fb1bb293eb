#include "views/widgets/measure_button.h"

#include <imgui.h>

#include "views/widgets/chrome.h"
#include "views/widgets/imgui_compat.h"

namespace kvscope::views {

bool is_unmeasured(const RunRecord& run, Metric metric) {
  if (!run.output_error.empty()) return false;
  if (metric == Metric::output_error) return true;
  return (metric == Metric::read_mass || metric == Metric::best_read_mass) && !run.reads.empty();
}

void draw_measure_button(const ViewServices& services, const ViewContext& context, Metric metric, bool compared) {
  const auto lacks = [&](const ShownRun* shown) {
    return drawable(shown) && !shown->preview && is_unmeasured(*shown->run, metric);
  };
  const bool a = lacks(context.a), b = compared && lacks(context.b);
  if (!a && !b) return;
  const FontScope small(services.theme->fonts.small);
  const std::string where = !compared ? "in this run" : a && b ? "in A or B" : a ? "in A" : "in B";
  const std::string text = "Not measured " + where + ".";
  const char* label = "Measure in the next run";
  const float button = ImGui::CalcTextSize(label).x + 2 * ImGui::GetStyle().FramePadding.x;
  ImGui::AlignTextToFramePadding();
  wrapped_text_in(services.theme->palette.warn, text);
  services.items->add_text("measure.why", last_item(), text);
  const float right = right_edge_on_screen();
  if (ImGui::GetItemRectMax().x + ImGui::GetStyle().ItemSpacing.x + button <= right) ImGui::SameLine();
  if (ImGui::Button(label) && context.command) context.command("run.measure_output_error");
  services.items->add_text("measure.next", last_item(), label);
  hint_of(services, "The next run measures the output error after its last token, with one more pass over all tokens.");
}

}  // namespace kvscope::views
