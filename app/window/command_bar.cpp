// The bar at the top: menu, model, run and cancel, comparison, palette.

#include <string>

#include "app/window/panel.h"
#include "engine/core/support/text.h"
#include "views/widgets/chrome.h"

namespace kvscope::app {
namespace {

using views::text_in;

// Model and device, one line each.
void draw_model(Panel& panel) {
  const auto& palette = panel.theme().palette;
  const auto& model = panel.session.engine().model();
  const EngineState state = panel.session.engine().state();
  std::string name = "No model", detail = "open one with Ctrl+O";
  if (model) {
    name = model->name;
    detail = std::to_string(model->n_layers) + " layers × " + std::to_string(model->n_kv_heads) + " KV heads, " +
             fixed_text(static_cast<double>(model->n_parameters) / 1e6, 1) + " M parameters, " + model->dtype + " on " +
             model->device;
  } else if (state == EngineState::starting || state == EngineState::loading) {
    name = "Loading";
    detail = panel.session.engine().model_path();
  } else if (state == EngineState::dead) {
    name = "Engine stopped", detail = "runs and traces stay open";
  }
  ImGui::BeginGroup();
  draw_text(panel.theme().fonts.bold, palette.text, name);
  ImGui::SetCursorPosY(ImGui::GetCursorPosY() - panel.px(5));
  draw_text(panel.theme().fonts.small, palette.muted, detail);
  ImGui::EndGroup();
}

void draw_actions(Panel& panel) {
  const float height = panel.px(32);
  if (panel.session.run_in_progress()) {
    command_button(panel, "Stop", "run.cancel", {panel.px(96), height});
  } else {
    command_button(panel, "Run", "run.start", {panel.px(96), height}, !panel.session.preview().shown());
  }
  ImGui::SameLine();
  // It is the thing to do once a preview is on show, so it stands out then.
  command_button(panel, "Decode again", "run.decode_again", {panel.px(132), height}, panel.session.preview().shown());
}

void draw_search(Panel& panel) {
  const auto& palette = panel.theme().palette;
  const float width = panel.px(250), height = panel.px(32);
  ImGui::SameLine(ImGui::GetWindowWidth() - width - panel.px(14));
  ImGui::PushStyleColor(ImGuiCol_Text, views::to_imgui(palette.muted));
  ImGui::PushStyleVar(ImGuiStyleVar_ButtonTextAlign, {0.06f, 0.5f});
  if (ImGui::Button("Search commands             Ctrl+K", {width, height})) panel.run("palette.open");
  ImGui::PopStyleVar();
  ImGui::PopStyleColor();
  panel.item("button.palette.open");
}

}  // namespace

void draw_command_bar(Panel& panel) {
  const float top = panel.px(10);
  ImGui::SetCursorPos({panel.px(16), top + panel.px(3)});
  draw_text(panel.theme().fonts.title, panel.theme().palette.text, "KVScope");
  ImGui::SameLine(panel.px(132));
  ImGui::SetCursorPosY(top);
  draw_menu(panel);
  ImGui::SameLine();
  draw_actions(panel);
  ImGui::SameLine(0, panel.px(22));
  ImGui::SetCursorPosY(top - panel.px(3));
  draw_model(panel);
  ImGui::SetCursorPosY(top);
  draw_search(panel);
}

}  // namespace kvscope::app
