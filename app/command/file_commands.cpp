// file.*, model.*, trace.*: files in, and runs out as traces.

#include "app/command/app_commands.h"
#include "app/command/command_arguments.h"
#include "app/process/models.h"

namespace kvscope::app {
namespace {

namespace fs = std::filesystem;

// A folder is a model, a .txt a prompt, all else a trace: what is dropped or named on the command line.
void open_anything(Session& session, const CommandRegistry& registry, const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return session.open_model(model_folder(path));
  const nlohmann::json arguments = {{"path", path}};
  if (fs::is_directory(path, error)) {
    session.open_model(path);
  } else if (fs::path(path).extension() == ".txt") {
    registry.execute("prompt.set", arguments);
  } else {
    session.open_trace(path);
  }
}

}  // namespace

bool ask_for_path(UiState& ui, const nlohmann::json& arguments, FileDialog dialog) {
  if (has_argument(arguments, "path")) return false;
  dialog.arguments = arguments;
  ui.dialog = std::move(dialog);
  return true;
}

void add_file_commands(CommandRegistry& registry, Session& session, UiState& ui) {
  const auto has_run = [&session] { return session.shown_a() != nullptr; };
  registry.add({"file.open", "Open model, trace or prompt", "File", "Ctrl+O", "path: file or folder", nullptr,
                [&session, &ui, &registry](const nlohmann::json& arguments) {
                  if (!ask_for_path(ui, arguments,
                                    {.title = "Open model, trace or prompt",
                                     .command = "file.open",
                                     .hint = "a model's folder, a trace (.h5) or a prompt (.txt)"})) {
                    open_anything(session, registry, text_argument(arguments, "path"));
                  }
                }});
  registry.add({"model.open", "Open a model", "File", "", "path: folder or name",
                [&session] { return !session.run_in_progress(); },
                [&session, &ui](const nlohmann::json& arguments) {
                  if (!ask_for_path(ui, arguments,
                                    {.title = "Open model",
                                     .command = "model.open",
                                     .path = session.engine().model_path(),
                                     .hint = "a folder with config.json and safetensors"})) {
                    session.open_model(model_folder_or(text_argument(arguments, "path")));
                  }
                }});
  registry.add(
      {"trace.open", "Open a trace", "File", "", "path: file", nullptr,
       [&session, &ui](const nlohmann::json& arguments) {
         if (!ask_for_path(ui, arguments, {.title = "Open trace", .command = "trace.open", .hint = "a trace (.h5)"})) {
           session.open_trace(text_argument(arguments, "path"));
         }
       }});
  registry.add(
      {"trace.save", "Save run A as a trace", "File", "Ctrl+S", "path: file, overwrite: bool, id: run id (A)", has_run,
       [&session, &ui](const nlohmann::json& arguments) {
         if (ask_for_path(
                 ui, arguments,
                 {.title = "Save trace", .command = "trace.save", .path = "run.h5", .hint = "HDF5", .save = true}))
           return;
         session.save_trace(integer_argument(arguments, "id", session.a()->id), text_argument(arguments, "path"),
                            flag_argument(arguments, "overwrite", false));
       }});
}

}  // namespace kvscope::app
