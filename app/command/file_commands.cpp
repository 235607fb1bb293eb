// model.*, trace.*, figure.*, heads.*: files in and out.

#include "app/command/app_commands.h"
#include "app/command/command_arguments.h"
#include "app/session/autosave.h"
#include "engine/core/files/gate/duo_directory.h"
#include "views/figure/export.h"
#include "views/figure/recipe.h"

namespace kvscope::app {
namespace {

namespace fs = std::filesystem;

// A command that needs a path asks for one if it is called without.
bool ask_for_path(UiState& ui, const nlohmann::json& arguments, FileDialog dialog) {
  if (has_argument(arguments, "path")) return false;
  ui.dialog = std::move(dialog);
  return true;
}

// A folder is a model, a .txt a prompt, all else a trace: what is dropped or named on the command line.
void open_anything(Session& session, const CommandRegistry& registry, const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) throw Error({.file = path, .found = "no such file or folder"});
  const nlohmann::json arguments = {{"path", path}};
  if (fs::is_directory(path, error)) {
    session.open_model(path);
  } else if (fs::path(path).extension() == ".txt") {
    registry.execute("prompt.set", arguments);
  } else {
    session.open_trace(path);
  }
}

// The figure of the view in question, as the window shows it: selection, metric and scrub position are the recipe.
views::FigureRecipe recipe_of_view(const Session& session, const nlohmann::json& arguments) {
  const views::Selection& selection = session.selection();
  const int q = selection.follow ? -1 : selection.q;
  views::FigureRecipe recipe;
  if (has_argument(arguments, "preset")) {
    recipe = views::preset_recipe(text_argument(arguments, "preset"));
  } else {
    const std::string view = has_argument(arguments, "view") ? text_argument(arguments, "view") : "layer_head_map";
    if (view == "layer_head_map") {
      views::LayerHeadMapOptions options;
      options.metric = selection.metric;
      options.q = q;
      recipe.options = options;
    } else if (view == "token_strip") {
      views::TokenStripOptions options;
      options.q = q;
      recipe.options = options;
    } else if (view == "timeline" || view == "cache_timeline") {
      views::TimelineOptions options;
      options.layer = selection.layer;
      options.kv_head = selection.kv_head;
      recipe.options = options;
    } else {
      bad_argument("view", "layer_head_map, token_strip or timeline");
    }
  }
  if (has_argument(arguments, "venue")) recipe.venue = text_argument(arguments, "venue");
  return recipe;
}

nlohmann::json export_figure(Session& session, UiState& ui, const nlohmann::json& arguments) {
  const std::string view = has_argument(arguments, "view") ? text_argument(arguments, "view") : "layer_head_map";
  if (ask_for_path(ui, arguments,
                   {.title = "Export figure: " + view,
                    .command = "figure.export",
                    .path = view + ".pdf",
                    .hint = ".pdf, .svg or .png; data and recipe are written beside it",
                    .save = true})) {
    ui.dialog->arguments = arguments;
    return nullptr;
  }
  views::FigureRecipe recipe = recipe_of_view(session, arguments);
  const std::string path = text_argument(arguments, "path");
  const RunEntry* entry = session.a();
  // The recipe names the trace if there is one; a run that was never saved can be exported all the same.
  if (entry && !entry->trace_path.empty()) recipe.traces = {entry->trace_path};
  recipe.run = 0;
  session.files().in_background(
      "export " + path, [&session, recipe, path, run = session.shown_a()->run]() -> Worker::Finish {
        const RunRecord* runs[] = {run.get()};
        const auto written = views::export_figure(views::build_figure(recipe, runs), recipe, path);
        return [&session, written] {
          session.messages().notify("exported " + written.front().string() + " and what belongs to it");
        };
      });
  return nullptr;
}

nlohmann::json export_heads(Session& session, UiState& ui, const nlohmann::json& arguments) {
  if (ask_for_path(ui, arguments,
                   {.title = "Export heads (DuoAttention)",
                    .command = "heads.export",
                    .path = "selected-heads",
                    .hint = "a folder; full_attention_heads.tsv and config.json are written into it",
                    .save = true})) {
    ui.dialog->arguments = arguments;
    return nullptr;
  }
  const double share = number_argument(arguments, "share", 0.25);
  if (!(share >= 0 && share <= 1)) bad_argument("share", "a number from 0 to 1");
  const std::string path = text_argument(arguments, "path");
  const bool overwrite = flag_argument(arguments, "overwrite", false);
  session.files().in_background(
      "export heads", [&session, share, path, overwrite, run = session.shown_a()->run]() -> Worker::Finish {
        const HeadSelection selection = densest_heads({run.get()}, share);
        const RetentionGeometry geometry = run->geometry();
        export_duo(selection, geometry.n_sink, geometry.window, path, overwrite);
        char text[120];
        std::snprintf(text, sizeof text, "%d of %zu heads global, coverage %.1f %%: ", selection.n_selected(),
                      selection.full.size(), 100 * selection.coverage);
        return [&session, message = text + path] { session.messages().notify(message); };
      });
  return nullptr;
}

}  // namespace

void add_file_commands(CommandRegistry& registry, Session& session, UiState& ui) {
  const auto has_run = [&session] { return session.shown_a() != nullptr; };
  registry.add({.id = "file.open",
                .title = "Open model, trace or prompt",
                .group = "File",
                .shortcut = "Ctrl+O",
                .arguments = "path: file or folder",
                .run = [&session, &ui, &registry](const nlohmann::json& arguments) -> nlohmann::json {
                  if (!ask_for_path(ui, arguments,
                                    {.title = "Open model, trace or prompt",
                                     .command = "file.open",
                                     .hint = "a model's folder, a trace (.h5) or a prompt (.txt)"})) {
                    open_anything(session, registry, text_argument(arguments, "path"));
                  }
                  return nullptr;
                }});
  registry.add({.id = "model.open",
                .title = "Open a model",
                .group = "File",
                .arguments = "path: folder",
                .enabled = [&session] { return !session.run_in_progress(); },
                .run = [&session, &ui](const nlohmann::json& arguments) -> nlohmann::json {
                  if (!ask_for_path(ui, arguments,
                                    {.title = "Open model",
                                     .command = "model.open",
                                     .path = session.engine().model_path(),
                                     .hint = "a folder with config.json and safetensors"})) {
                    session.open_model(text_argument(arguments, "path"));
                  }
                  return nullptr;
                }});
  registry.add(
      {.id = "trace.open",
       .title = "Open a trace",
       .group = "File",
       .arguments = "path: file",
       .run = [&session, &ui](const nlohmann::json& arguments) -> nlohmann::json {
         if (!ask_for_path(ui, arguments, {.title = "Open trace", .command = "trace.open", .hint = "a trace (.h5)"})) {
           session.open_trace(text_argument(arguments, "path"));
         }
         return nullptr;
       }});
  registry.add(
      {.id = "trace.save",
       .title = "Save run A as a trace",
       .group = "File",
       .shortcut = "Ctrl+S",
       .arguments = "path: file, overwrite: bool, id: run id (A)",
       .enabled = has_run,
       .run = [&session, &ui](const nlohmann::json& arguments) -> nlohmann::json {
         if (ask_for_path(
                 ui, arguments,
                 {.title = "Save trace", .command = "trace.save", .path = "run.h5", .hint = "HDF5", .save = true})) {
           ui.dialog->arguments = arguments;
           return nullptr;
         }
         session.save_trace(integer_argument(arguments, "id", session.a()->id), text_argument(arguments, "path"),
                            flag_argument(arguments, "overwrite", false));
         return nullptr;
       }});
  registry.add({.id = "session.save",
                .title = "Save prompt, policy and open traces for the next start",
                .group = "File",
                .run = [&session](const nlohmann::json&) -> nlohmann::json {
                  save_session(session, false);
                  return nullptr;
                }});
  registry.add(
      {.id = "figure.export",
       .title = "Export a figure (PDF, SVG, PNG)",
       .group = "File",
       .shortcut = "Ctrl+E",
       .arguments = "path: file, view: layer_head_map|token_strip|timeline, preset: name, venue: name",
       .enabled = has_run,
       .run = [&session, &ui](const nlohmann::json& arguments) { return export_figure(session, ui, arguments); }});
  registry.add(
      {.id = "heads.export",
       .title = "Export the densest heads (DuoAttention)",
       .group = "File",
       .shortcut = "Ctrl+H",
       .arguments = "path: folder, share: number (0.25), overwrite: bool",
       .enabled = has_run,
       .run = [&session, &ui](const nlohmann::json& arguments) { return export_heads(session, ui, arguments); }});
}

}  // namespace kvscope::app
