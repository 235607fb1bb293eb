#pragma once
// What the popups over the whole window share.

#include <string>

namespace kvscope::app {

struct FileDialog;
struct Panel;

/// Begins a window in the middle, over everything; `height` 0: as high as its content. Sizes in design pixels, less where
/// the screen is smaller. ImGui::End() whatever it returns.
bool begin_popup(Panel& panel, const char* name, float width, float height);
/// All commands by their words.
void draw_palette(Panel& panel);
/// Pins of the text on show, and what is noted of them and of the run.
void draw_notes(Panel& panel);
/// Studies that were started, and the form for another one.
void draw_studies(Panel& panel);
/// Layouts of a person's own: to take, to save under a name, to remove.
void draw_layouts(Panel& panel);
/// The dialog that asks for a path.
void draw_file_dialog(Panel& panel);
/// The part of it that says how a figure is exported, preset, venue, size, and shows it.
void draw_export_options(Panel& panel);
/// The name in the field becomes that of another figure, where it still is the one that was suggested for the last.
void suggest_name(FileDialog& dialog, const std::string& before, const std::string& now, const std::string& title);

}  // namespace kvscope::app
