// How the next token is drawn, and where an answer ends.

#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "app/session/stop_lines.h"
#include "app/window/panel.h"
#include "app/window/prompt_editors.h"
#include "app/window/value_slider.h"

namespace kvscope::app {
namespace {

constexpr float kStopHeight = 44;
constexpr char kGreedy[] = "No effect at temperature 0, which always takes the most probable token.";

/// What the slider was moved to, or what was typed, within its limits. True if that is something else than it was.
bool moved(Panel& panel, const ValueSlider& slider, double& value) {
  const std::optional<double> to = value_slider(panel, slider);
  if (to) value = std::clamp(*to, slider.min, slider.max);
  return to.has_value();
}

// A text a line, so that one can hold commas and quotes. What is not a list as yet is said, and not taken.
void draw_stop(Panel& panel) {
  setting(panel, "Stop texts");
  PromptEditors& editors = *panel.prompt_editors;
  const std::vector<std::string>& stop = panel.session.parameters().stop;
  if (!editors.stop_focused && stop_texts(editors.stop.text()) != stop) editors.stop.set_text(stop_lines(stop));
  const bool changed = editors.stop.draw(
      {.item = "sampling.stop", .size = {-1, panel.px(kStopHeight)}, .hint = "One per line; \\n is a line break"});
  editors.stop_focused = editors.stop.focused();
  if (changed) panel.run("stop.set", {{"texts", stop_texts(editors.stop.text())}});
}

}  // namespace

void draw_sampling(Panel& panel) {
  if (!fold(panel, "Sampling", "sampling", false) || !panel.prompt_editors) return;
  SamplingSpec sampling = panel.session.parameters().sampling;
  const auto take = [&](bool changed) {
    if (changed) panel.session.next_run().set_sampling(sampling);
  };
  const auto hundredths = [&](const char* name, const char* item, double& value, double least, double most,
                              const char* word = "", const char* why_not = "") {
    setting(panel, name);
    take(moved(panel,
               {.item = item,
                .value = value,
                .min = least,
                .max = most,
                .decimals = 2,
                .drag_decimals = 2,
                .word = word,
                .hint = why_not},
               value));
  };
  const bool greedy = sampling.temperature == 0;
  hundredths("Temperature", "sampling.temperature", sampling.temperature, 0, 2, greedy ? "greedy" : "");
  // Of these a greedy run reads none but the penalty.
  const char* why_not = greedy ? kGreedy : "";
  ImGui::BeginDisabled(greedy);
  setting(panel, "Top k");
  double top_k = sampling.top_k;
  const bool k_moved = moved(panel,
                             {.item = "sampling.top_k",
                              .value = top_k,
                              .min = 0,
                              .max = 200,
                              .word = sampling.top_k == 0 ? "all" : "",
                              .hint = why_not},
                             top_k);
  sampling.top_k = static_cast<int>(std::lround(top_k));
  take(k_moved);
  hundredths("Top p", "sampling.top_p", sampling.top_p, 0, 1, "", why_not);
  hundredths("Min p", "sampling.min_p", sampling.min_p, 0, 1, "", why_not);
  ImGui::EndDisabled();
  hundredths("Repetition", "sampling.repetition_penalty", sampling.repetition_penalty, 0.01, 2,
             sampling.repetition_penalty == 1 ? "none" : "");
  ImGui::BeginDisabled(greedy);
  setting(panel, "Seed");
  int seed = static_cast<int>(std::min<std::uint64_t>(sampling.seed, INT32_MAX));
  const bool seed_moved = ImGui::InputInt("##seed", &seed, 1) && seed >= 0;
  if (seed_moved) sampling.seed = static_cast<std::uint64_t>(seed);
  panel.item("sampling.seed");
  tooltip(panel, why_not);
  take(seed_moved);
  ImGui::EndDisabled();
  draw_stop(panel);
}

}  // namespace kvscope::app
