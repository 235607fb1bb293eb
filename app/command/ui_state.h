#pragma once
// What the window shows besides the session: panels, popups, theme. Plain data, changed by commands.

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/session/study_form.h"
#include "app/workspace/layout.h"

namespace kvscope::views {
struct Figure;
}

namespace kvscope::app {

/// A path is asked for: open or save something.
struct FileDialog {
  std::string title;    // "Save trace"
  std::string command;  // called with {"path": ...}
  std::string path;     // what stands in the field at first
  std::string folder;   // that a path without a root begins at; empty: the working folder
  std::string hint;     // "run.h5"
  bool save = false;
  bool figure = false;                                  // asks how it is exported, too
  std::string shown = {};                               // the figure that is on screen; a preset has a name of its own
  std::string shown_title = {};                         // of its view
  nlohmann::json arguments = nlohmann::json::object();  // of the command, besides the path
};

/// A film of a run: its views at queries from, from + step ... to.
struct FilmPlan {
  std::string path;  // .gif or .mp4
  std::string view;  // id of the view; empty: the whole window
  std::int32_t from = 0, to = 0;
  int step = 1;
  int ms = 100;       // each picture is shown for
  bool stop = false;  // it ends with what there is
};

/// A field over the views: what is typed, and the keys that end it.
struct TextField {
  std::string text;
  std::string refused;            // why what was typed is wrong; empty: it is not
  std::vector<std::string> keys;  // "enter", "shift+enter": from the window's queue, as ImGui loses quick taps
  bool focused = false;           // it has the keyboard
  int asks_keyboard = kAsks;      // frames in which it still asks for it: it was opened, or opened again
  static constexpr int kAsks = 3;
};

/// Layout and Appearance are kept and undone; what stands here passes.
struct UiState : Layout, Appearance {
  bool palette = false, help = false, notes = false;
  bool studies = false;       // the list of studies that were started, and the form for another one
  std::string study_command;  // of the form: "sweep"; empty: the first
  std::map<std::string, StudyValues> study_values;  // of each form, by command
  bool all_study_fields = false;
  std::string palette_asks;  // id of the command whose arguments the palette asks for; empty: it lists commands
  bool layouts = false;      // those of one's own are shown
  bool frame_times = false;  // how long frames take is shown
  bool models = false;       // the list of models and gates is asked for
  bool models_shown = false;
  std::optional<FileDialog> dialog;
  std::optional<TextField> find, go_to;
  std::string figure_size;  // of the figure that is about to be exported, in words; empty: not measured
  std::shared_ptr<const views::Figure> figure_preview;  // that figure; null: not built yet
  std::string clipboard;                                // text to be put there by the window
  std::vector<std::string> popup_keys;                  // typed while a popup is open: "up", "down", "enter", "alt+r"
  bool focus_prompt = false;
  int renaming = 0;          // run whose name is written in its row, 0: none
  bool close_popup = false;  // the menu or list that was opened last
  bool keyboard = false;     // arrows and space belong to the controls
  int focus_step = 0;        // 1: to the next region of the window, -1: to the one before
  /// That keyboard or mouse is in, or was when a list or dialog came over it; empty: none.
  std::string pointed_view;
  std::string screenshot;        // file to write after the next frame
  std::optional<FilmPlan> film;  // that is being recorded
  bool quit = false;

  /// Something lies over the views and has the keys.
  bool has_popup() const { return palette || help || notes || layouts || studies || dialog.has_value(); }
  /// A field over the views, which hear it: a list that lies over them goes.
  void open(std::optional<TextField>& field) {
    if (dialog) return;  // what is typed there is not lost
    palette = help = notes = layouts = studies = false;
    field.emplace();
  }
  /// The palette that asks for something is back at its list instead.
  void close_popups() {
    if (palette && !palette_asks.empty()) return palette_asks.clear();
    // A dialog over the form gives it a path: the form stays.
    studies = studies && dialog.has_value();
    palette = help = notes = layouts = false;
    dialog.reset();
  }
};

}  // namespace kvscope::app
