// study.start and what follows: studies that the window starts, as the command line would.

#include <algorithm>
#include <filesystem>

#include "app/command/app_commands.h"
#include "app/command/command_arguments.h"
#include "app/support/paths.h"
#include "engine/core/support/json_file.h"

namespace kvscope::app {
namespace {

namespace fs = std::filesystem;

const StudyForm& form_of(const Session& session, const std::string& command) {
  const auto& forms = session.study_jobs().forms();
  const auto found = std::ranges::find(forms, command, &StudyForm::command);
  if (found != forms.end()) return *found;
  std::string names;
  for (const StudyForm& form : forms) names += (names.empty() ? "" : ", ") + form.command;
  bad_argument("command", "one of " + names);
}

std::string joined_lines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "\n") + line;
  return text;
}

/// A name that is not taken, where files were saved last.
std::string free_path(const Session& session, const std::string& stem, const std::string& ending) {
  const fs::path folder = session.files().save_folder();
  std::error_code error;
  fs::path path = folder / (stem + ending);
  for (int n = 2; fs::exists(path, error); ++n) path = folder / (stem + "-" + std::to_string(n) + ending);
  return path.string();
}

/// What an empty form begins with: the open model, its gates and policy, a file.
StudyValues suggested(const Session& session, const StudyForm& form) {
  StudyValues values;
  const auto suggest = [&](const char* name, const std::string& text) {
    if (form.field(name) != nullptr && !text.empty()) values[name] = text;
  };
  const protocol::LoadRequest& load = session.engine().to_load();
  suggest("MODEL", load.model);
  suggest("gate", joined_lines(load.gates));
  if (load.device != "auto") suggest("device", load.device);
  if (load.dtype != "auto") suggest("dtype", load.dtype);
  suggest("engine", session.engine().command());
  if (form.command == "capture") {
    suggest("policy", session.parameters().policy.written());
    suggest("max-tokens", std::to_string(session.parameters().max_tokens));
  }
  if (form.command == "eval") suggest("policies", session.parameters().policy.written());
  suggest("o", free_path(session, form.command, ".h5"));
  return values;
}

/// The form as it is filled in, or what the arguments say instead.
StudyValues values_of(const UiState& ui, const StudyForm& form, const nlohmann::json& arguments) {
  if (!has_argument(arguments, "options")) {
    const auto filled = ui.study_values.find(form.command);
    return filled == ui.study_values.end() ? StudyValues() : filled->second;
  }
  StudyValues values;
  if (!arguments["options"].is_object()) bad_argument("options", "an object of texts");
  for (const auto& [name, value] : arguments["options"].items()) {
    if (!value.is_string()) bad_argument("options", "an object of texts");
    values[name] = value.get<std::string>();
  }
  return values;
}

std::vector<std::string> words_of(const Session& session, const UiState& ui, const nlohmann::json& arguments) {
  const StudyForm& form =
      form_of(session, has_argument(arguments, "command") ? text_argument(arguments, "command") : ui.study_command);
  return study_words(form, values_of(ui, form, arguments));
}

/// Why the engine that runs cannot do the study of the form, if the form names this engine; empty: it can.
std::string why_not(const Session& session, const UiState& ui) {
  const auto values = ui.study_values.find(ui.study_command);
  if (!ui.studies || values == ui.study_values.end()) return "";
  const auto engine = values->second.find("engine");
  if ((engine == values->second.end() ? "" : engine->second) != session.engine().command()) return "";
  const protocol::EngineOffer& offer = session.engine().offer();
  const StudyForm& form = form_of(session, ui.study_command);
  const std::string why = protocol::why_no_service(offer, form.service);
  return why.empty() && !form.policy.empty() ? protocol::why_no_policy(offer, PolicySpec::parse(form.policy)) : why;
}

void show_form(const Session& session, UiState& ui, const nlohmann::json& arguments) {
  std::string command = ui.study_command.empty() && !session.study_jobs().forms().empty()
                            ? session.study_jobs().forms().front().command
                            : ui.study_command;
  if (has_argument(arguments, "command")) command = text_argument(arguments, "command");
  const StudyForm& form = form_of(session, command);
  ui.study_command = command;
  if (!ui.study_values.contains(command)) ui.study_values[command] = suggested(session, form);
  ui.studies = true;
}

void set_field(const Session& session, UiState& ui, const nlohmann::json& arguments) {
  const StudyForm& form = form_of(session, ui.study_command);
  const StudyField* field = form.field(text_argument(arguments, "field"));
  if (field == nullptr) bad_argument("field", "a field of the form");
  std::string& text = ui.study_values[form.command][field->name];
  const char* key = has_argument(arguments, "path") ? "path" : "text";
  const std::string value = text_argument(arguments, key);
  const bool adds = field->repeats && has_argument(arguments, "path") && !text.empty();
  text = adds ? text + "\n" + value : value;
  if (flag_argument(arguments, "overwrite", false) && form.field("overwrite") != nullptr)
    ui.study_values[form.command]["overwrite"] = "on";
}

/// A sweep to begin with: the policy of the parameters at three budgets, and two baselines, on the sample text.
std::string recipe_text(const Session& session) {
  PolicySpec policy = session.parameters().policy;
  const nlohmann::ordered_json keeps = {"75%", "50%", "25%"};
  nlohmann::ordered_json policies = nlohmann::ordered_json::array();
  if (policy.budget) {
    policy.budget.reset();  // the axis has it
    policies.push_back({{"policy", policy.written()}, {"axes", {{"keep", keeps}}}});
  } else if (policy.name != PolicySpec().name) {
    policies.push_back(policy.written());
  }
  policies.push_back({{"policy", "streaming:sinks=4"}, {"axes", {{"window", {64, 128, 256}}}}});
  policies.push_back({{"policy", "random"}, {"axes", {{"keep", keeps}}}});
  const nlohmann::ordered_json recipe = {{"name", "sweep"},
                                         {"note", "docs/reference/studies.md has every key"},
                                         {"model", session.engine().model_path()},
                                         {"texts", {heldout_text().string()}},
                                         {"pieces", 4},
                                         {"length", 512},
                                         {"chunk", 16},
                                         {"policies", policies}};
  return recipe.dump(2) + "\n";
}

void write_recipe(Session& session, UiState& ui, const nlohmann::json& arguments) {
  show_form(session, ui, {{"command", "sweep"}});
  const std::string path =
      has_argument(arguments, "path") ? text_argument(arguments, "path") : free_path(session, "sweep", ".json");
  session.files().in_background(
      "write " + path, [&session, &ui, path, text = recipe_text(session)]() -> Worker::Finish {
        write_file_atomic(path, text, false);
        return [&session, &ui, path] {
          ui.study_values["sweep"]["RECIPE"] = path;
          session.files().remember_place(path);
          session.messages().notify("wrote " + path + ": edit it to change what the sweep measures");
        };
      });
}

void choose_path(const Session& session, UiState& ui, const nlohmann::json& arguments) {
  const StudyField* field = form_of(session, ui.study_command).field(text_argument(arguments, "field"));
  if (field == nullptr) bad_argument("field", "a field of the form");
  ui.dialog = FileDialog{.title = field->is_positional ? field->name : "--" + field->name,
                         .command = "study.field",
                         .hint = field->help,
                         .save = field->name == "o",
                         .arguments = {{"field", field->name}}};
}

}  // namespace

void add_study_job_commands(CommandRegistry& registry, Session& session, UiState& ui) {
  const auto has_forms = [&session] { return !session.study_jobs().forms().empty(); };
  const auto has_jobs = [&session] { return !session.study_jobs().all().empty(); };
  const auto id_of = [&session](const nlohmann::json& arguments) {
    const auto& all = session.study_jobs().all();
    return integer_argument(arguments, "id", all.empty() ? 0 : all.front().id);
  };
  const auto add = [&](const char* id, const char* title, std::vector<Argument> arguments,
                       std::function<bool()> enabled, Action action) {
    registry.add({id, title, "Study", "", arguments, std::move(enabled), std::move(action)});
  };
  add("study.jobs", "Start and watch studies", takes(arg::text("command", "the last", "name")), has_forms,
      [&session, &ui](const nlohmann::json& arguments) {
        if (ui.studies && !has_argument(arguments, "command")) {
          ui.studies = false;
        } else {
          show_form(session, ui, arguments);
        }
      });
  add("study.field", "Fill in a field of the study's form",
      takes(arg::text("field", "", "name"), arg::text("text", "asks"), arg::otherwise(arg::path("path"))), has_forms,
      [&session, &ui](const nlohmann::json& arguments) {
        if (has_argument(arguments, "path") || has_argument(arguments, "text"))
          return set_field(session, ui, arguments);
        choose_path(session, ui, arguments);
      });
  registry.add({.id = "study.new_recipe",
                .title = "Write a recipe for a sweep",
                .group = "Study",
                .arguments = takes(arg::path("path", "a new one where files were saved last")),
                .enabled = [&session] { return !session.engine().model_path().empty(); },
                .run = [&session, &ui](const nlohmann::json& arguments) { write_recipe(session, ui, arguments); }});
  registry.add({.id = "study.start",
                .title = "Start the study",
                .group = "Study",
                .arguments = takes(arg::text("command", "the form's", "name"), arg::object("options", "the form's")),
                .enabled = has_forms,
                .run = [&session, &ui](const nlohmann::json& arguments) -> nlohmann::json {
                  const int id = session.study_jobs().start(words_of(session, ui, arguments));
                  ui.study_values.erase(session.study_jobs().job(id).command());
                  if (ui.studies) show_form(session, ui, {});
                  return id;
                },
                .why_not = [&session, &ui] { return why_not(session, ui); }});
  add("study.copy_command", "Copy the study as a command", takes(arg::number("id", "the form")), has_forms,
      [&session, &ui, id_of](const nlohmann::json& arguments) -> nlohmann::json {
        ui.clipboard = has_argument(arguments, "id")
                           ? session.study_jobs().job(id_of(arguments)).command_line()
                           : StudyJob{.words = words_of(session, ui, arguments)}.command_line();
        session.messages().notify("copied: " + ui.clipboard);
        return ui.clipboard;
      });
  add("study.stop", "Stop a study", takes(arg::number("id", "the newest")), has_jobs,
      [&session, id_of](const nlohmann::json& arguments) { session.study_jobs().stop(id_of(arguments)); });
  add("study.resume", "Resume a study", takes(arg::number("id", "the newest")), has_jobs,
      [&session, id_of](const nlohmann::json& arguments) { session.study_jobs().resume(id_of(arguments)); });
  add("study.forget", "Remove a study from the list", takes(arg::number("id", "the newest")), has_jobs,
      [&session, id_of](const nlohmann::json& arguments) { session.study_jobs().remove(id_of(arguments)); });
  add("study.open_result", "Open a study's file", takes(arg::number("id", "the newest")), has_jobs,
      [&session, &ui, &registry, id_of](const nlohmann::json& arguments) {
        registry.execute("file.open", {{"path", session.study_jobs().job(id_of(arguments)).output()}});
        ui.studies = false;
      });
}

}  // namespace kvscope::app
