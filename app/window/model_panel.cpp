// What the engine has open and, after a click, the models of this machine and the gates of the open one.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "app/session/gate_title.h"
#include "app/window/panel.h"
#include "engine/core/policy/scorer_text.h"
#include "engine/core/support/error.h"
#include "engine/core/support/text.h"
#include "views/widgets/chrome.h"

namespace kvscope::app {
namespace {

using views::text_in;

constexpr float kNoteColumn = 290, kDropColumn = 540;  // design pixels

/// Which line the arrows are at, counted over models, gates and buttons; Enter takes it.
struct KeyedRows {
  int at = -1, n = 0;
  bool enter = false;
};
KeyedRows rows;

struct ModelWords {
  std::string name = "No model", detail = "click to open one";
};

ModelWords words_of(const Session& session) {
  const auto& model = session.engine().model();
  if (model) {
    return {model->name, std::to_string(model->n_layers) + " layers × " + std::to_string(model->n_kv_heads) +
                             " KV heads, " + fixed_text(static_cast<double>(model->n_parameters) / 1e6, 1) +
                             " M parameters, " + model->dtype + " on " + model->device};
  }
  const EngineState state = session.engine().state();
  if (state == EngineState::starting || state == EngineState::loading)
    return {"Loading", session.engine().model_path()};
  if (state == EngineState::dead) return {"Engine stopped", "runs and traces stay open"};
  return {};
}

void heading(Panel& panel, const char* title) {
  draw_text(panel.theme().fonts.bold, panel.theme().palette.text, title);
}

/// Returns whether the arrows are at the item that was drawn last.
bool is_keyed(Panel& panel) {
  if (rows.n++ != rows.at) return false;
  ImGui::GetWindowDrawList()->AddRect(ImGui::GetItemRectMin(), ImGui::GetItemRectMax(),
                                      views::to_imgui(panel.theme().palette.accent));
  panel.item("models.keyed");
  return true;
}

bool button(Panel& panel, const char* label, const char* item) {
  const bool clicked = ImGui::Button(label), keyed = is_keyed(panel);
  panel.item(item);
  return clicked || (keyed && rows.enter);
}

/// A line that can be chosen: a name, and what there is to say of it.
bool row(Panel& panel, const std::string& name, const std::string& note, bool chosen, bool possible,
         const std::string& item) {
  ImGui::PushID(item.c_str());
  const bool clicked = ImGui::Selectable(escape_for_terminal(name).c_str(), chosen || rows.n == rows.at,
                                         possible ? 0 : ImGuiSelectableFlags_Disabled, {panel.px(520), 0});
  ImGui::PopID();
  const bool keyed = is_keyed(panel);
  panel.services.items->add_text(item, views::last_item(), note);
  panel.services.items->add_text(item + ".title", views::last_item(), name);
  ImGui::SameLine(panel.px(kNoteColumn));
  const views::FontScope small(panel.theme().fonts.small);
  text_in(panel.theme().palette.muted, note);
  return possible && (clicked || (keyed && rows.enter));
}

void take_keys(Panel& panel) {
  rows.enter = false;
  constexpr int kNotCounted = 1 << 20;  // a key can be as quick as the list: in its first frame its lines are not known
  const int last = rows.n > 0 ? rows.n - 1 : kNotCounted;
  for (const std::string& key : panel.ui.popup_keys) {
    if (key == "down") rows.at = std::min(rows.at + 1, last);
    if (key == "up") rows.at = std::max(0, rows.at - 1);
    rows.enter = rows.enter || key == "enter";
  }
  rows.n = 0;
}

void draw_models(Panel& panel) {
  heading(panel, "Models");
  Session& session = panel.session;
  if (session.model().known().looking() && session.model().known().all().empty())
    text_in(panel.theme().palette.muted, "Searching ...");
  const std::vector<KnownModel> models = session.model().known().all();
  for (const KnownModel& model : models) {
    const bool here = !model.path.empty(), open = here && session.engine().model_path() == model.path.string();
    const std::string note = open ? "open" : here ? model.origin : model.how;
    if (row(panel, model.name, note, open, here && !session.run_in_progress(), "menu.model." + model.name))
      panel.run("model.open", {{"path", model.path.string()}});
    if (here) tooltip(panel, model.path.string());
  }
  if (button(panel, "Open a folder ...", "models.open")) panel.run("model.open");
}

/// At the end of a gate's line.
bool drop_button(Panel& panel, const std::string& name, bool used) {
  const bool running = panel.session.run_in_progress();
  ImGui::SameLine(panel.px(kDropColumn));
  ImGui::PushID(name.c_str());
  ImGui::BeginDisabled(used || running);
  const bool clicked = ImGui::SmallButton("×");
  ImGui::EndDisabled();
  ImGui::PopID();
  const bool keyed = is_keyed(panel);
  panel.item("gate." + name + ".drop");
  tooltip(panel, running ? "A run is in progress. Stop it first."
                 : used  ? "In use. Choose another policy or gate first."
                         : "Unload this gate (reloads the model)");
  return clicked || (keyed && rows.enter && !used && !running);
}

// If the policy does not read this gate, it becomes one that does. A message reports that: its panel may be hidden.
void use_gate(Panel& panel, const std::string& name) {
  const std::string before = panel.session.parameters().policy.name;
  if (!panel.run("gate.use", {{"name", name}})) return;
  const std::string now = panel.session.parameters().policy.name;
  if (now == before) return;
  const auto holds = [&session = panel.session, now] { return session.parameters().policy.name == now; };
  panel.session.messages().notify(
      "policy changed to " + method_name(now) + ", which reads this gate (Ctrl+Z undoes both)", holds);
}

void draw_gates(Panel& panel) {
  Session& session = panel.session;
  if (session.engine().model_path().empty()) return;
  ImGui::Dummy({0, panel.px(4)});
  heading(panel, "Gates of this model");
  const std::vector<GateFacts>& gates = session.policy().gates().found();  // they change between frames alone
  if (gates.empty())
    text_in(panel.theme().palette.muted,
            session.policy().gates().known() ? "None found next to the model." : "Searching ...");
  const auto& loaded = session.engine().gates_to_load();
  for (const GateFacts& gate : gates) {
    const bool used = session.policy().is_used(gate);
    // The engine never loads an adapter, which changes the weights, by itself.
    const bool beside = gate.gate.origin == KnownGate::Origin::model && gate.adapter.empty();
    const bool given = std::find(loaded.begin(), loaded.end(), gate.gate.path.string()) != loaded.end();
    std::string note = !gate.fits()
                           ? "does not fit this model"
                           : scorer_title(gate.kind) + ", " + (gate.decision.empty() ? gate.adapter : gate.decision);
    if (gate.fits()) note += used ? ": in use" : beside || given ? ": loaded" : "";
    if (row(panel, gate_title(gate), note, used, gate.fits() && !session.run_in_progress(), "gate." + gate.gate.name))
      use_gate(panel, gate.gate.name);
    tooltip(panel, gate.fits() ? gate.gate.path.string() : gate.misfit);
    if (given && !beside && drop_button(panel, gate.gate.name, used))
      panel.run("gate.drop", {{"name", gate.gate.name}});
  }
  if (button(panel, "Load a gate ...", "models.load_gate")) panel.run("gate.open");
}

}  // namespace

void draw_model(Panel& panel, float width) {
  const auto& palette = panel.theme().palette;
  const ModelWords words = words_of(panel.session);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float height = panel.px(40);
  ImGui::PushStyleColor(ImGuiCol_Button, IM_COL32(0, 0, 0, 0));
  const bool clicked = ImGui::Button("##models", {width, height});
  ImGui::PopStyleColor();
  panel.services.items->add_text("button.models", views::last_item(), words.name);
  if (clicked) panel.ui.models = true;
  const ImVec2 after = ImGui::GetCursorScreenPos();
  ImGui::PushClipRect(at, {at.x + width, at.y + height}, true);
  ImGui::SetCursorScreenPos({at.x + panel.px(8), at.y + panel.px(2)});
  draw_text(panel.theme().fonts.bold, palette.text, words.name);
  ImGui::SetCursorScreenPos({at.x + panel.px(8), at.y + panel.px(20)});
  draw_text(panel.theme().fonts.small, palette.muted, words.detail);
  ImGui::PopClipRect();
  ImGui::SetCursorScreenPos(after);
}

void draw_models_list(Panel& panel, ImVec2 at) {
  if (std::exchange(panel.ui.models, false)) {
    panel.session.model().known().look();
    ImGui::OpenPopup("models");
  }
  const PopupStyle style(panel);
  ImGui::SetNextWindowPos(at);
  panel.ui.models_shown = ImGui::BeginPopup("models", ImGuiWindowFlags_NoNav);  // its keys are its own
  if (!panel.ui.models_shown) return void(rows = {});
  take_keys(panel);
  draw_models(panel);
  draw_gates(panel);
  rows.at = std::min(rows.at, rows.n - 1);
  if (rows.enter && rows.at >= 0) ImGui::CloseCurrentPopup();
  ImGui::EndPopup();
}

}  // namespace kvscope::app
