#include "app/command/head_export.h"

#include "app/command/command_arguments.h"
#include "engine/core/files/gate/duo_directory.h"
#include "engine/core/files/gate/head_formats.h"

namespace kvscope::app {

std::vector<Argument> head_export_arguments(std::vector<Argument> before) {
  before.insert(before.end(), {arg::path("path", "asks", "file or folder"),
                               arg::text("format", "duo", "duo|json|headkv|hf|block"), arg::flag("overwrite")});
  return before;
}

void export_heads_of_a(Session& session, UiState& ui, const nlohmann::json& arguments, const std::string& command,
                       const HeadSelection& selection, LocalSizes sizes) {
  const std::string format = has_argument(arguments, "format") ? text_argument(arguments, "format") : "duo";
  const bool folder = parse_head_target(format + ":any", "format", true).format->path == "FOLDER";
  std::string text = describe(selection);
  for (const std::string& warning : warnings_of(selection)) text += "; " + warning;
  session.messages().notify(text);
  if (ask_for_path(ui, arguments,
                   {.title = folder ? "Export heads (DuoAttention)" : "Export heads (" + format + ")",
                    .command = command,
                    .path = folder ? "selected-heads" : "selected-heads.json",
                    .folder = session.files().save_folder(),
                    .hint = text + (folder ? ". Writes full_attention_heads.tsv and config.json into a folder"
                                           : ". Writes a file; docs/reference/head-files.md lists which tools read it"),
                    .save = true}))
    return;
  const std::string path = text_argument(arguments, "path");
  const bool overwrite = flag_argument(arguments, "overwrite", false);
  session.files().in_background(
      "export heads",
      [&session, run = session.runs().shown_a()->run, selection, sizes, target = format + ":" + path, path, overwrite,
       text]() -> Worker::Finish {
        const HeadTarget wanted = parse_head_target(target, "format", true);
        std::string message = text + ": " + path;
        for (const std::string& loss :
             export_heads(std::span(&wanted, 1), choice_of_runs({run.get()}, selection, sizes), overwrite))
          message += "; " + loss;
        return [&session, message, path] {
          session.files().remember_place(path);
          session.messages().notify(message);
        };
      });
}

}  // namespace kvscope::app
