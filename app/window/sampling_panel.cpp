// How the next token is drawn, and where an answer ends.

#include <imgui.h>

#include <algorithm>
#include <cmath>

#include "app/session/stop_lines.h"
#include "app/window/panel.h"
#include "app/window/prompt_editors.h"
#include "views/widgets/chrome.h"

namespace kvscope::app {
namespace {

constexpr float kStopHeight = 44;

/// A slider that writes hundredths.
bool hundredths(const char* id, double& value, float most, const char* format) {
  auto shown = static_cast<float>(value);
  const bool changed = ImGui::SliderFloat(id, &shown, 0, most, format, ImGuiSliderFlags_AlwaysClamp);
  if (changed) value = std::round(shown * 100) / 100;
  return changed;
}

// A text a line, so that one can hold commas and quotes. What is not a list as yet is said, and not taken.
void draw_stop(Panel& panel) {
  setting(panel, "Stop texts");
  PromptEditors& editors = *panel.prompt_editors;
  const std::vector<std::string>& stop = panel.session.parameters().stop;
  if (!editors.stop_focused && stop_texts(editors.stop.text()) != stop) editors.stop.set_text(stop_lines(stop));
  const bool changed = editors.stop.draw(
      {.item = "sampling.stop", .size = {-1, panel.px(kStopHeight)}, .hint = "One a line; \\n is a line end"});
  editors.stop_focused = editors.stop.focused();
  if (changed) panel.run("stop.set", {{"texts", stop_texts(editors.stop.text())}});
}

}  // namespace

void draw_sampling(Panel& panel) {
  ImGui::PushStyleColor(ImGuiCol_Header, views::to_imgui(panel.theme().palette.panel));
  const bool open = ImGui::CollapsingHeader("Sampling");
  ImGui::PopStyleColor();
  panel.item("sampling");
  if (!open || !panel.prompt_editors) return;
  SamplingSpec sampling = panel.session.parameters().sampling;
  const auto row = [&](const char* name, const char* item, auto draw) {
    setting(panel, name);
    const bool changed = draw();
    panel.item(item);
    if (changed) panel.session.next_run().set_sampling(sampling);
  };
  const bool greedy = sampling.temperature == 0;
  row("Temperature", "sampling.temperature",
      [&] { return hundredths("##temperature", sampling.temperature, 2, greedy ? "greedy" : "%.2f"); });
  // Of these a greedy run reads none but the penalty.
  ImGui::BeginDisabled(greedy);
  row("Top k", "sampling.top_k", [&] {
    const bool changed = ImGui::SliderInt("##top_k", &sampling.top_k, 0, 200, sampling.top_k == 0 ? "all" : "%d");
    sampling.top_k = std::max(0, sampling.top_k);
    return changed;
  });
  row("Top p", "sampling.top_p", [&] { return hundredths("##top_p", sampling.top_p, 1, "%.2f"); });
  row("Min p", "sampling.min_p", [&] { return hundredths("##min_p", sampling.min_p, 1, "%.2f"); });
  ImGui::EndDisabled();
  row("Repetition", "sampling.repetition_penalty", [&] {
    const bool changed = hundredths("##repetition", sampling.repetition_penalty, 2,
                                    sampling.repetition_penalty == 1 ? "no penalty" : "%.2f");
    sampling.repetition_penalty = std::max(0.01, sampling.repetition_penalty);
    return changed;
  });
  ImGui::BeginDisabled(greedy);
  row("Seed", "sampling.seed", [&] {
    int seed = static_cast<int>(std::min<std::uint64_t>(sampling.seed, INT32_MAX));
    const bool changed = ImGui::InputInt("##seed", &seed, 1) && seed >= 0;
    if (changed) sampling.seed = static_cast<std::uint64_t>(seed);
    return changed;
  });
  ImGui::EndDisabled();
  draw_stop(panel);
}

}  // namespace kvscope::app
