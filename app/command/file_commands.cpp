// file.*, model.*, trace.*: files in, and runs out as traces.

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "app/catalog/models.h"
#include "app/catalog/path_kind.h"
#include "app/catalog/prompt_lines.h"
#include "app/catalog/remote_file.h"
#include "app/catalog/study_source.h"
#include "app/command/app_commands.h"
#include "app/command/command_arguments.h"
#include "app/support/slow_read.h"
#include "engine/core/support/shell_quote.h"

namespace kvscope::app {
namespace {

namespace fs = std::filesystem;

/// A model's name may have a point too: "Qwen2.5-0.5B".
bool has_ending_of_file(const fs::path& path) {
  static constexpr std::string_view kEndings[] = {".h5",    ".csv", ".txt",         ".md", ".json",
                                                  ".jsonl", ".tsv", ".safetensors", ".pt", ".pth"};
  return std::ranges::count(kEndings, path.extension().string()) > 0;
}

void open_prompt(Session& session, const CommandRegistry& registry, const std::string& path,
                 const nlohmann::json& prompt) {
  registry.execute("prompt.set", prompt);
  session.files().remember_place(path);
  session.files().remember(path);
}

// There is one prompt here, and the file may be long: it is counted elsewhere.
void read_first_prompt(Session& session, const CommandRegistry& registry, const std::string& path) {
  session.files().in_background("open " + path, [&session, &registry, path]() -> Worker::Finish {
    const PromptLines lines = read_prompt_lines(path);
    return [&session, &registry, path, lines] {
      open_prompt(session, registry, path, {{"text", lines.first}});
      const std::string name = fs::path(path).filename().string();
      session.messages().notify(lines.n == 1 ? "the prompt is the only line of " + name
                                             : "the prompt is the first of " + std::to_string(lines.n) + " lines of " +
                                                   name + "; kvscope capture reads all of them");
    };
  });
}

void open_as(PathKind kind, Session& session, const CommandRegistry& registry, const std::string& path,
             const std::function<void()>& show_study) {
  switch (kind) {
    case PathKind::model:
      return session.model().open(model_folder_or(path));
    case PathKind::gate:
      return session.model().add_gate(path);
    case PathKind::trace:
      return session.studies().open(path, show_study, [&session, path] { session.traces().open(path); });
    case PathKind::prompt:
      return open_prompt(session, registry, path, {{"path", path}});
    case PathKind::prompts:
      return read_first_prompt(session, registry, path);
    case PathKind::recipe:
      throw Error({.file = path,
                   .found = "the recipe of a figure, not a study",
                   .expected = "a study (.h5)",
                   .hint = "kvscope figure " + shell_quote(path) + " -o FIGURE.pdf draws it"});
    case PathKind::unknown:
      throw Error({.file = path,
                   .found = "a folder without a model, a gate or a training curve",
                   .expected = "config.json of a model, a gate's files, or NAME_loss.h5"});
    case PathKind::missing:
      if (has_ending_of_file(path)) throw Error({.code = ExitCode::bad_input, .file = path, .found = "no such file"});
      model_folder(path);  // says what there is
  }
}

/// `open` gets the path, or that of a copy if the trace is on another machine.
void with_copy(Session& session, const std::string& path, std::function<void(const std::string&)> open) {
  if (path.find(':') == std::string::npos) return open(path);
  session.files().in_background("open " + path, [&session, path, open = std::move(open)]() -> Worker::Finish {
    const auto file = remote_file(path);
    if (!file || !file->is_trace()) return [path, open] { open(path); };
    return [&session, file = *file, open] {
      session.remote().copy(file, [&session, word = file.word, open](const std::string& copy) {
        session.files().set_origin(copy, word);
        open(copy);
      });
    };
  });
}

// What is dropped or named on the command line. A slow disk must not stop the window: it is looked at elsewhere.
void open_anything(Session& session, const CommandRegistry& registry, const std::string& path,
                   const std::function<void()>& show_study) {
  session.files().in_background("open " + path, [&session, &registry, path, show_study]() -> Worker::Finish {
    PathKind kind = kind_of_path(path);
    // Not there, where a list of folders would look through each of them.
    if (kind == PathKind::unknown && !training_curves(path).empty()) kind = PathKind::trace;
    return [&session, &registry, path, show_study, kind] { open_as(kind, session, registry, path, show_study); };
  });
}

void add_gate_commands(CommandRegistry& registry, Session& session, UiState& ui) {
  registry.add({"gate.open", "Load a gate", "File", "", takes(arg::path("path", "", "file or folder")),
                [&session] { return !session.engine().model_path().empty() && !session.run_in_progress(); },
                [&session, &ui](const nlohmann::json& arguments) {
                  if (!ask_for_path(ui, arguments,
                                    {.title = "Load a gate",
                                     .command = "gate.open",
                                     .hint = "a gate's file or folder, made for this model"})) {
                    session.model().add_gate(text_argument(arguments, "path"));
                  }
                }});
  registry.add(
      {"gate.use", "Use a gate of this model", "Policy", "", takes(arg::text("name", "", "name")),
       [&session] { return !session.policy().gates().found().empty() && !session.run_in_progress(); },
       [&session](const nlohmann::json& arguments) { session.model().choose_gate(text_argument(arguments, "name")); }});
  registry.add(
      {"gate.drop", "Unload a gate", "Policy", "", takes(arg::text("name", "", "name")), nullptr,
       [&session](const nlohmann::json& arguments) { session.model().drop_gate(text_argument(arguments, "name")); },
       [&session]() -> std::string {
         if (session.run_in_progress()) return "A run is in progress. Stop it first.";
         return session.engine().gates_to_load().empty() ? "The only loaded gates are those in the model's folder."
                                                         : "";
       }});
}

}  // namespace

bool ask_for_path(UiState& ui, const nlohmann::json& arguments, FileDialog dialog) {
  if (has_argument(arguments, "path")) return false;
  dialog.arguments = arguments;
  ui.dialog = std::move(dialog);
  return true;
}

void add_file_commands(CommandRegistry& registry, Session& session, UiState& ui, const views::ViewList& views) {
  const auto has_run = [&session] { return session.runs().shown_a() != nullptr; };
  registry.add(
      {"file.open", "Open model, gate, trace, study or prompt", "File", "Ctrl+O",
       takes(arg::path("path", "", "file or folder")), nullptr,
       [&session, &ui, &registry, &views](const nlohmann::json& arguments) {
         if (!ask_for_path(ui, arguments,
                           {.title = "Open model, gate, trace, study or prompt",
                            .command = "file.open",
                            .hint = "a model's folder, a gate, a trace or study, a training's folder, a prompt"})) {
           with_copy(session, text_argument(arguments, "path"),
                     [&session, &registry, &ui, &views](const std::string& path) {
                       open_anything(session, registry, path, [&ui, &views] { show_study_view(ui, views); });
                     });
         }
       }});
  registry.add({"model.open", "Open a model", "File", "", takes(arg::path("path", "", "folder or name")),
                [&session] { return !session.run_in_progress(); },
                [&session, &ui](const nlohmann::json& arguments) {
                  if (!ask_for_path(ui, arguments,
                                    {.title = "Open model",
                                     .command = "model.open",
                                     .path = session.engine().model_path(),
                                     .hint = "a folder with config.json and safetensors"})) {
                    session.model().open(model_folder_or(text_argument(arguments, "path")));
                  }
                }});
  registry.add(
      {"trace.open", "Open a trace", "File", "", takes(arg::path("path")), nullptr,
       [&session, &ui](const nlohmann::json& arguments) {
         if (!ask_for_path(ui, arguments, {.title = "Open trace", .command = "trace.open", .hint = "a trace (.h5)"})) {
           with_copy(session, text_argument(arguments, "path"),
                     [&session](const std::string& path) { session.traces().open(path); });
         }
       }});
  registry.add({"trace.save", "Save run A as a trace", "File", "Ctrl+S",
                takes(arg::path("path"), arg::flag("overwrite"), arg::number("id", "A", "run id")), has_run,
                [&session, &ui](const nlohmann::json& arguments) {
                  if (ask_for_path(ui, arguments,
                                   {.title = "Save trace",
                                    .command = "trace.save",
                                    .path = "run.h5",
                                    .folder = session.files().save_folder(),
                                    .hint = "HDF5",
                                    .save = true}))
                    return;
                  session.traces().save(integer_argument(arguments, "id", session.runs().a()->id),
                                        text_argument(arguments, "path"), flag_argument(arguments, "overwrite", false));
                }});
  add_gate_commands(registry, session, ui);
  registry.add({"file.give_up", "Stop waiting for a file", "File", "", takes(), nullptr,
                [&session](const nlohmann::json&) {
                  give_up_slow_reads();
                  session.remote().cancel();
                },
                [&session]() -> std::string {
                  return slow_read() || session.remote().copying() ? "" : "The window is not waiting for a file.";
                }});
  registry.add({"models.show", "Models and gates", "File", "Ctrl+M", takes(), nullptr, [&ui] { ui.models = true; }});
}

}  // namespace kvscope::app
