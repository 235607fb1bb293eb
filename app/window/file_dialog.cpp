// The one dialog for a path, to open and to save: type with Tab and ~, walk with the arrows, click, or take a recent one.

#include <imgui.h>
#include <imgui_internal.h>         // ClearActiveID
#include <misc/cpp/imgui_stdlib.h>  // after imgui.h, which it needs but does not include

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "app/window/panel.h"
#include "app/window/popup.h"
#include "engine/core/support/error.h"
#include "views/widgets/chrome.h"
#include "views/widgets/imgui_compat.h"
#include "views/widgets/table_cells.h"

namespace kvscope::app {
namespace {

using views::text_in;

constexpr int kMostRecent = 5;

/// What lasts from frame to frame while a dialog is open.
struct DialogState {
  bool open = false;
  bool focus = false;  // the field is to have it
  enum class Select { none, name, end } select = Select::none;
  int row = -1;              // chosen by the arrows; -1: the field
  bool entered = false;      // Enter was pressed and the folder is not listed yet
  std::string wanted;        // the path that is to be opened and is looked for; empty: none
  std::string refused, why;  // the one that was not opened
  const FolderListing* listing = nullptr;
};

DialogState state;

struct Row {
  std::string label, path, note;
  bool folder = false, descends = false;
};

std::string_view word(PathKind kind) {
  switch (kind) {
    case PathKind::model:
      return "model";
    case PathKind::gate:
      return "gate";
    case PathKind::prompt:
      return "prompt";
    case PathKind::prompts:
      return "prompts";
    case PathKind::recipe:
      return "recipe";
    case PathKind::trace:
    case PathKind::unknown:
    case PathKind::missing:
      return "";
  }
  return "";
}

// Recent ones while nothing is typed, then the folder's names that begin as typed.
std::vector<Row> rows_of(Panel& panel, const FileDialog& dialog, const TypedPath& typed) {
  std::vector<Row> rows;
  if (!dialog.save && dialog.path.empty()) {
    const auto& recent = panel.session.files().recent();
    for (std::size_t i = 0; i < recent.size() && i < kMostRecent; ++i)
      rows.push_back({escape_for_terminal(recent[i], 90), recent[i], "recent"});
  }
  if (!typed.folder.empty()) rows.push_back({"..", typed.folder + "../", "", true, true});
  if (!state.listing) return rows;
  for (const FolderEntry& entry : state.listing->entries) {
    const bool hidden = entry.name.starts_with(".") && !typed.name.starts_with(".");
    // A name that is suggested for saving hides nothing.
    if (hidden || (!dialog.save && !entry.name.starts_with(typed.name))) continue;
    const bool descends = entry.folder && entry.kind != PathKind::model && entry.kind != PathKind::gate;
    rows.push_back({escape_for_terminal(entry.name, 90) + (entry.folder ? "/" : ""),
                    typed.folder + entry.name + (descends ? "/" : ""), std::string(word(entry.kind)), entry.folder,
                    descends});
  }
  return rows;
}

int on_field(ImGuiInputTextCallbackData* data) {
  if (data->EventFlag == ImGuiInputTextFlags_CallbackCompletion && state.listing) {
    const TypedPath typed = split_path(std::string(data->Buf, static_cast<std::size_t>(data->BufTextLen)));
    const std::string name = complete(*state.listing, typed.name);
    data->DeleteChars(static_cast<int>(typed.folder.size()), data->BufTextLen - static_cast<int>(typed.folder.size()));
    data->InsertChars(data->BufTextLen, name.c_str());
    state.row = -1;
  }
  if (data->EventFlag == ImGuiInputTextFlags_CallbackAlways && state.select != DialogState::Select::none) {
    const TypedPath typed = split_path(std::string(data->Buf, static_cast<std::size_t>(data->BufTextLen)));
    const auto begin = static_cast<int>(typed.folder.size());
    const auto dot = typed.name.rfind('.');
    const int end = dot == std::string::npos || dot == 0 ? data->BufTextLen : begin + static_cast<int>(dot);
    const bool name = state.select == DialogState::Select::name;
    data->SelectionStart = name ? begin : data->BufTextLen;
    data->SelectionEnd = data->CursorPos = name ? end : data->BufTextLen;
    state.select = DialogState::Select::none;
  }
  return 0;
}

void draw_field(Panel& panel, FileDialog& dialog) {
  if (state.focus) ImGui::SetKeyboardFocusHere();
  ImGui::SetNextItemWidth(-1);
  if (ImGui::InputTextWithHint("##path", "path", &dialog.path,
                               ImGuiInputTextFlags_CallbackCompletion | ImGuiInputTextFlags_CallbackAlways, on_field))
    state.row = -1, state.entered = false;
  // Asked for until it has it: a key that is still held when the text changes can take it away again.
  if (ImGui::IsItemActive()) state.focus = false;
  if (state.focus && panel.services.wake) panel.services.wake();
  // ImGui gives back the text that it had before a row was taken.
  if (!state.wanted.empty()) dialog.path = state.wanted;
  panel.services.items->add_text("dialog.path", views::last_item(), dialog.path);
}

/// From the folder that the dialog begins at.
std::string from_folder(const FileDialog& dialog, const std::string& path) {
  const std::string whole = expand_home(path);
  return dialog.folder.empty() ? whole : (std::filesystem::path(dialog.folder) / whole).string();
}

/// Where a name without a slash would be.
void draw_folder(Panel& panel, const FileDialog& dialog, const TypedPath& typed) {
  const views::FontScope small(panel.theme().fonts.small);
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::current_path(error) / from_folder(dialog, typed.folder);
  const std::string text = "in " + escape_for_terminal(error ? typed.folder : folder.lexically_normal().string(), 400);
  views::wrapped_text_in(panel.theme().palette.muted, text);
  panel.services.items->add_text("dialog.folder", views::last_item(), text);
}

void take(FileDialog& dialog, const std::string& path) {
  dialog.path = path;
  dialog.arguments.erase("overwrite");  // it was meant for another file
  state.focus = true, state.select = DialogState::Select::end, state.row = -1;
}

}  // namespace

void suggest_name(FileDialog& dialog, const std::string& before, const std::string& now, const std::string& title) {
  dialog.title = "Export figure: " + title;
  const TypedPath typed = split_path(dialog.path);
  if (!typed.name.starts_with(before + ".")) return;  // a name of the person's own
  ImGui::ClearActiveID();                             // the field would give its own text back
  take(dialog, typed.folder + now + typed.name.substr(before.size()));
  state.select = DialogState::Select::name;
}

namespace {

// Returns whether a row was chosen for good: by a double click, or as it is a recent file.
bool draw_rows(Panel& panel, FileDialog& dialog, const std::vector<Row>& rows) {
  bool done = false;
  // A figure that is exported has its picture above.
  const float most = dialog.figure ? panel.px(130) : panel.px(260), share = dialog.figure ? 0.17f : 0.34f;
  ImGui::BeginChild("files", {0, std::min(most, ImGui::GetIO().DisplaySize.y * share)}, true);
  if (!state.listing) text_in(panel.theme().palette.muted, "Searching ...");
  if (state.listing && !state.listing->error.empty()) text_in(panel.theme().palette.warn, state.listing->error);
  for (int i = 0; i < static_cast<int>(rows.size()); ++i) {
    const Row& row = rows[static_cast<std::size_t>(i)];
    ImGui::PushID(i);
    if (ImGui::Selectable(row.label.c_str(), i == state.row, ImGuiSelectableFlags_AllowDoubleClick)) {
      done = !dialog.save && !row.descends && (ImGui::IsMouseDoubleClicked(0) || row.note == "recent");
      take(dialog, row.path);
    }
    panel.services.items->add_text("dialog.row." + row.label, views::last_item(), row.note);
    if (i == state.row && !ImGui::IsItemVisible()) ImGui::SetScrollHereY();
    if (!row.note.empty()) {
      ImGui::SameLine(views::right_edge() - panel.px(60));
      const views::FontScope small(panel.theme().fonts.small);
      text_in(panel.theme().palette.muted, row.note);
    }
    ImGui::PopID();
  }
  ImGui::EndChild();
  return done;
}

/// The typed name, where the folder has it.
const FolderEntry* typed_entry(const TypedPath& typed) {
  return state.listing && !typed.name.empty() ? state.listing->find(typed.name) : nullptr;
}

/// The one row whose name begins as typed: Tab would complete to it, Enter takes it. nullptr where the name is whole, or
/// begins none or several.
const Row* only_row(const FileDialog& dialog, const TypedPath& typed, const std::vector<Row>& rows) {
  if (dialog.save || typed.name.empty() || !state.listing || typed_entry(typed)) return nullptr;
  const auto begins = [&](const Row& row) { return row.label != ".."; };
  return std::ranges::count_if(rows, begins) == 1 ? &*std::ranges::find_if(rows, begins) : nullptr;
}

bool draw_refusal(Panel& panel, const FileDialog& dialog) {
  if (state.refused.empty() || state.refused != dialog.path) return false;
  views::wrapped_text_in(panel.theme().palette.bad, state.why);
  panel.services.items->add_text("dialog.refused", views::last_item(), state.why);
  return true;
}

/// "" is still to be typed; ".pdf" remains when the name before it is deleted.
bool is_ending(const std::string& name) { return name.starts_with('.') && name.rfind('.') == 0; }

// Whether the path can be used as it is; shows why not.
bool draw_verdict(Panel& panel, FileDialog& dialog, const TypedPath& typed, const Row* only) {
  const views::FontScope small(panel.theme().fonts.small);
  const FolderEntry* entry = typed_entry(typed);
  const auto& palette = panel.theme().palette;
  if (dialog.save && entry && !entry->folder) {
    ImGui::AlignTextToFramePadding();
    text_in(palette.warn, "This file exists.");
    ImGui::SameLine();
    bool overwrite = dialog.arguments.value("overwrite", false);
    const bool pressed = std::ranges::count(panel.ui.popup_keys, "alt+r") > 0;
    if (pressed) overwrite = !overwrite;
    if (ImGui::Checkbox("Replace (Alt+R)", &overwrite) || pressed) dialog.arguments["overwrite"] = overwrite;
    panel.item("dialog.replace");
    return overwrite;
  }
  ImGui::AlignTextToFramePadding();
  if (dialog.save && state.listing && !state.listing->error.empty()) {
    text_in(palette.warn, "This folder does not exist.");
    panel.item("dialog.no_folder");
    return false;
  }
  if (!state.wanted.empty()) {
    text_in(palette.muted, "Searching ...");
    return true;
  }
  if (draw_refusal(panel, dialog)) return true;  // it may be there by now
  if (only) {
    text_in(palette.muted, "Enter selects " + only->label);
    panel.services.items->add_text("dialog.only", views::last_item(), only->label);
    return true;
  }
  if (!dialog.save && state.listing && !typed.name.empty() && !entry) {
    text_in(palette.warn, "Not found.");
    // A model can be opened by its name too.
    return true;
  }
  if (dialog.save && is_ending(typed.name)) {
    text_in(palette.warn, "Enter a name before " + typed.name + ".");
    panel.item("dialog.nameless");
    return false;
  }
  views::wrapped_text_in(palette.muted, dialog.hint);
  panel.services.items->add_text("dialog.hint", views::last_item(), dialog.hint);
  return !dialog.path.empty() && !(dialog.save && typed.name.empty());
}

bool take_row(FileDialog& dialog, const Row& row) {
  take(dialog, row.path);
  return !row.descends && !dialog.save;
}

// Enter on a row takes it; on a folder to walk into, walks into it.
bool on_enter(FileDialog& dialog, const std::vector<Row>& rows, const Row* only) {
  if (state.row >= 0 && state.row < static_cast<int>(rows.size()))
    return take_row(dialog, rows[static_cast<std::size_t>(state.row)]);
  if (only) return take_row(dialog, *only);
  const TypedPath typed = split_path(dialog.path);
  const FolderEntry* entry = typed_entry(typed);
  if (entry && entry->folder && (dialog.save || entry->kind == PathKind::unknown)) {
    take(dialog, dialog.path + "/");
    return false;
  }
  return true;
}

// The keys come from the window's own queue: ImGui loses quick taps. Returns whether the path is to be taken.
bool take_keys(Panel& panel, FileDialog& dialog, const std::vector<Row>& rows, const Row* only, bool possible) {
  for (const std::string& key : panel.ui.popup_keys) {
    if (key == "down") state.row = std::min(state.row + 1, static_cast<int>(rows.size()) - 1);
    if (key == "up") state.row = std::max(-1, state.row - 1);
    if (key == "enter") state.entered = true;
  }
  if (!state.entered || !state.listing) return false;  // what is in the folder decides what Enter does
  state.entered = false;
  const bool row = state.row >= 0;
  const bool done = on_enter(dialog, rows, only) && (row || possible);
  if (!done) state.focus = true, state.select = DialogState::Select::end;  // ImGui takes it from a field with Enter
  return done;
}

void refuse(FileDialog& dialog, const std::string& why) {
  state.refused = dialog.path, state.why = (dialog.save ? "Not saved: " : "Not opened: ") + why;
  state.focus = true, state.select = DialogState::Select::end;
}

std::string why_missing(const FileDialog& dialog) {
  const std::string name = in_quotes(dialog.path);
  if (state.listing && !state.listing->error.empty()) return name + ": folder not found.";
  const bool of_models = dialog.command == "file.open" || dialog.command == "model.open";
  return name + " not found" + (of_models ? ", and no model has that name." : ".");
}

// What a command refuses at once is to be put right where it was typed.
void finish(Panel& panel) {
  FileDialog dialog = *panel.ui.dialog;
  state.wanted.clear();
  nlohmann::json arguments = dialog.arguments;
  arguments["path"] = from_folder(dialog, dialog.path);
  panel.ui.dialog.reset();
  try {
    panel.commands.execute(dialog.command, arguments);
  } catch (const Error& error) {
    refuse(dialog, error.what());
    panel.ui.dialog = std::move(dialog);
  }
}

// A file that is to be opened is looked for first, elsewhere: a slow disk must not stop the window.
void go_on(Panel& panel, FileDialog& dialog) {
  if (state.wanted.empty()) return;
  const auto kind = panel.session.folders().take_kind(expand_home(dialog.path));
  if (!kind) return;
  if (*kind != PathKind::missing) return finish(panel);
  state.wanted.clear();
  refuse(dialog, why_missing(dialog));
}

}  // namespace

void draw_file_dialog(Panel& panel) {
  if (!panel.ui.dialog) {
    state = {};
    panel.export_preview.reset();
    return;
  }
  FileDialog& dialog = *panel.ui.dialog;
  if (!state.open) {
    state = {.open = true, .focus = true, .select = dialog.save ? DialogState::Select::name : DialogState::Select::end};
    panel.session.folders().forget();
  }
  if (begin_popup(panel, "dialog", 680, 0)) {
    {
      const views::FontScope bold(panel.theme().fonts.bold);
      views::cut_text_in(panel.services, panel.theme().palette.text, dialog.title);  // a preset's is long
    }
    panel.services.items->add_text("dialog.title", views::last_item(), dialog.title);
    if (dialog.figure) draw_export_options(panel);
    draw_field(panel, dialog);
    const TypedPath typed = split_path(dialog.path);
    draw_folder(panel, dialog, typed);
    state.listing = panel.session.folders().of(from_folder(dialog, typed.folder));
    const std::vector<Row> rows = rows_of(panel, dialog, typed);
    const Row* only = only_row(dialog, typed, rows);
    bool done = draw_rows(panel, dialog, rows);
    const bool possible = draw_verdict(panel, dialog, split_path(dialog.path), only);
    ImGui::BeginDisabled(!possible);
    if (ImGui::Button(dialog.save ? "Save" : "Open", {panel.px(110), panel.px(30)}))
      done |= !only || take_row(dialog, *only);
    panel.item("dialog.ok");
    ImGui::EndDisabled();
    ImGui::SameLine();
    const bool cancelled = ImGui::Button("Cancel", {panel.px(110), panel.px(30)});
    panel.item("dialog.cancel");
    done |= take_keys(panel, dialog, rows, only, possible);
    if (done) state.wanted = dialog.path;
    if (cancelled) {
      panel.ui.dialog.reset();
    } else if (dialog.save && !state.wanted.empty()) {
      finish(panel);
    } else {
      go_on(panel, dialog);
    }
  }
  ImGui::End();
}

}  // namespace kvscope::app
