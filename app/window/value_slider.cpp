#include "app/window/value_slider.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "app/window/panel.h"
#include "engine/core/support/text.h"
#include "views/widgets/chrome.h"

namespace kvscope::app {
namespace {

constexpr float kFieldWidth = 74;  // design pixels

// What is being typed is taken when the field is left or Enter is pressed: else every digit would make a preview.
struct Typed {
  ImGuiID field = 0;
  std::string text;
};

bool is_number(const std::string& text, double& value) {
  char* end = nullptr;
  const std::string trimmed = text.substr(std::min(text.find_first_not_of(' '), text.size()));
  value = std::strtod(trimmed.c_str(), &end);
  return end != trimmed.c_str() && std::isfinite(value);
}

std::optional<double> draw_field(Panel& panel, const ValueSlider& slider, const std::string& shown, float width) {
  static Typed typed;
  const ImGuiID id = ImGui::GetID("##field");
  char buffer[32] = {};
  const std::string& text = typed.field == id ? typed.text : shown;
  std::copy_n(text.begin(), std::min(text.size(), sizeof buffer - 1), buffer);
  ImGui::SetNextItemWidth(width);
  const bool entered = ImGui::InputText("##field", buffer, sizeof buffer,
                                        ImGuiInputTextFlags_EnterReturnsTrue | ImGuiInputTextFlags_AutoSelectAll);
  const bool left = ImGui::IsItemDeactivatedAfterEdit();
  panel.services.items->add_text(slider.item + ".field", views::last_item(), shown);
  if (ImGui::IsItemActive()) {
    typed = {id, buffer};
    return std::nullopt;
  }
  if (typed.field == id) typed = {};
  double value = 0;
  return (entered || left) && is_number(buffer, value) && buffer != shown ? std::optional(value) : std::nullopt;
}

}  // namespace

int slider_reach(Panel& panel) {
  if (const int n = panel.session.policy().n_positions(); n > 0)
    panel.slider_reach = static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::clamp(n, 1024, 1 << 24))));
  return panel.slider_reach;
}

std::optional<double> value_slider(Panel& panel, const ValueSlider& slider) {
  const std::string shown = slider.word.empty() ? fixed_text(slider.value, slider.decimals) + slider.unit : slider.word;
  const float gap = ImGui::GetStyle().ItemInnerSpacing.x;
  const float room = ImGui::GetContentRegionAvail().x - slider.right;
  const float field = std::clamp(0.6f * room, panel.px(40), panel.px(kFieldWidth));
  auto x = static_cast<float>(slider.value);
  ImGui::PushID(slider.item.c_str());
  ImGui::SetNextItemWidth(std::max(panel.px(16), room - field - gap));
  const int flags = ImGuiSliderFlags_AlwaysClamp | ImGuiSliderFlags_NoInput | ImGuiSliderFlags_NoRoundToFormat |
                    (slider.by_ratio ? ImGuiSliderFlags_Logarithmic : 0);
  const auto lo = static_cast<float>(std::min(slider.min, slider.value));
  const auto hi = static_cast<float>(std::max({slider.max, slider.value, slider.min + 1e-6}));
  const bool moved = ImGui::SliderFloat("##slider", &x, lo, hi, "", flags);
  panel.services.items->add_text(slider.item, views::last_item(), slider.told.empty() ? shown : slider.told);
  panel.services.items->add_text(slider.item + ".range", views::last_item(),
                                 number_text(static_cast<double>(lo), 6) + " to " + number_text(hi, 6));
  tooltip(panel, slider.hint);
  ImGui::SameLine(0, gap);
  const std::optional<double> entered = draw_field(panel, slider, shown, field);
  tooltip(panel, slider.hint);
  ImGui::PopID();
  if (entered) return entered;
  const double scale = std::pow(10.0, slider.drag_decimals);
  return moved ? std::optional(std::round(static_cast<double>(x) * scale) / scale) : std::nullopt;
}

}  // namespace kvscope::app
