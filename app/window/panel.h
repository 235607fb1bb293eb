#pragma once
// What every panel of the window draws from, and small things that panels share.

#include <imgui.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>

#include "app/command/commands.h"
#include "app/command/ui_state.h"
#include "app/session/session.h"
#include "app/window/shortcut_texts.h"
#include "views/frame/view_services.h"
#include "views/widgets/token_finder.h"

namespace kvscope::app {

struct ExportPreview;
struct LayoutEditor;
struct NameEditor;
struct NotesEditors;
struct PromptEditors;

struct Panel {
  Session& session;
  CommandRegistry& commands;
  UiState& ui;
  views::ViewServices& services;
  ShortcutTexts& shortcuts;
  std::shared_ptr<PromptEditors> prompt_editors = nullptr;  // made by draw_prompt_panel() when it is drawn first
  std::shared_ptr<NameEditor> name_editor = nullptr;        // of the row whose name is written; none while it is not
  std::shared_ptr<NotesEditors> notes_editors = nullptr;    // of draw_notes(), made when it is shown first
  std::shared_ptr<LayoutEditor> layout_editor = nullptr;    // of draw_layouts(); none while it is not open
  std::shared_ptr<ExportPreview> export_preview = nullptr;  // of draw_export_options(); none while no dialog is open
  int slider_reach = 1024;                                  // as slider_reach() found it last
  bool all_messages = false;  // are shown, in full, until they are folded or gone; else the foremost in one line

  const views::Theme& theme() const { return *services.theme; }
  float px(float design_pixels) const { return services.theme->px(design_pixels); }
  /// Runs a command; what it refuses becomes a message in the status line. Returns whether it was done.
  bool run(std::string_view id, const nlohmann::json& arguments = nlohmann::json::object());
  /// Registers the item drawn last.
  void item(std::string_view id);
};

/// While it lives, menus, lists and tooltips that open have their own padding and rounding, whatever region they open from.
class PopupStyle {
 public:
  explicit PopupStyle(Panel& panel);
  ~PopupStyle();
  PopupStyle(const PopupStyle&) = delete;
  PopupStyle& operator=(const PopupStyle&) = delete;
};
/// The popup that is begun next opens below the item drawn last, at its left edge; above it where a `height` does not fit.
void anchor_popup(float height = 0);

/// A button for a command: its title (or `label`), greyed where it is not possible, with its keys in the tooltip.
bool command_button(Panel& panel, const char* label, const char* command, ImVec2 size = {0, 0}, bool primary = false);
inline constexpr float kLabelWidth = 126;  // of a setting's name, design pixels
/// The name of a setting, and room for its control.
void setting(Panel& panel, std::string_view name);
/// A heading of the left panel.
void section(Panel& panel, const char* title);
/// A line that opens and closes what is below it; whether it is open.
bool fold(Panel& panel, const std::string& label, const std::string& item, bool open_at_first);
/// Tooltip of the last item, wrapped.
void tooltip(Panel& panel, std::string_view text);

// One function per file: each fills the current ImGui window.
void draw_command_bar(Panel& panel);
void draw_menu(Panel& panel);
void draw_model(Panel& panel, float width);
/// Which that button and Ctrl+M open, with its left top corner there: where there is no room for the button as well.
void draw_models_list(Panel& panel, ImVec2 at);
void draw_prompt_panel(Panel& panel);
bool has_answer_panel(const Panel& panel);
void draw_answer_panel(Panel& panel);  // as high as the room that is left
void draw_policy_panel(Panel& panel);
void draw_sampling(Panel& panel);
void draw_measures(Panel& panel);
void draw_runs_panel(Panel& panel);
void draw_banners(Panel& panel);
/// One line on the evictions of A.
void draw_headline(Panel& panel);
/// Leaves `line` pixels free for a message, and returns where these end.
float draw_status_bar(Panel& panel, float line);
void draw_log(Panel& panel);
void draw_popups(Panel& panel);
// Over the views, with their right top corner there.
void draw_find_bar(Panel& panel, const views::TokenFinder& finder, ImVec2 right_top);
void draw_go_to(Panel& panel, ImVec2 right_top);

}  // namespace kvscope::app
