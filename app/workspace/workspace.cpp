#include "app/workspace/workspace.h"

#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "app/support/paths.h"
#include "app/support/usage.h"
#include "app/workspace/kept_warning.h"
#include "app/workspace/settings.h"
#include "engine/core/record/pipe_gate.h"
#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"

namespace kvscope::app {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kWriteInterval(1), kRestOfRefused(10);
constexpr const char* kNothingKept = "Nothing will be saved: ";
constexpr std::size_t kMaxSample = 1u << 20;

std::string first_sample(bool chat) {
  const auto& prompts = sample_prompts(chat);
  return prompts.empty() ? "" : read_text_file(prompts[0], kMaxSample);
}

std::vector<std::string> still_there(std::vector<std::string> paths, Messages& messages) {
  std::erase_if(paths, [&](const std::string& path) {
    if (is_pipe(path)) {
      messages.log("a scorer over a pipe of the last session is not started again: load it again");
      return true;
    }
    std::error_code error;
    const bool gone = !fs::exists(path, error);
    if (gone) messages.log("a gate of the last session no longer exists: " + path);
    return gone;
  });
  return paths;
}

}  // namespace

Workspace::Workspace(Session& session, Layout& layout, Appearance& appearance, Options options)
    : session_(session),
      layout_(layout),
      appearance_(appearance),
      options_(std::move(options)),
      folder_(options_.state),
      undo_(session, layout, appearance, options_.clock),
      worker_(options_.wake),
      autosave_(session, folder_, worker_, options_.clock, options_.limits),
      restore_(session, folder_, autosave_, worker_, options_.trace_program),
      notes_(session, undo_, worker_, wants_folder()) {
  std::string damage;
  appearance_ = read_settings(options_.settings, damage);
  if (!damage.empty()) session_.messages().log("the settings were reset to their defaults: " + damage);
  if (wants_folder() && !folder_.is_writable()) warn_nothing_kept();
  if (folder_.number() > 1)
    session_.messages().log("another window uses the workspace; this window uses workspace number " +
                            std::to_string(folder_.number()));
  read();
}

Workspace::~Workspace() = default;

// ------------------------------------------------------------------------------------------------ the last session

void Workspace::read() {
  if (!folder_.exists()) {
    read_ = true;
    return;
  }
  worker_.post(
      [this, path = folder_.state_file()]() -> Worker::Finish {
        folder_.remove_leftovers();
        std::error_code error;
        auto file = std::make_shared<std::optional<WorkspaceFile>>();
        if (fs::exists(path, error)) *file = read_workspace_file(path);
        return [this, file] {
          if (*file) take(**file);
          read_ = true;
          if (!*file) restore_.start(workspace_file(session_, undo_.history().present(), {}), [this] { restored(); });
        };
      },
      [this](const std::string& text) { damaged(text); });
}

void Workspace::take(const WorkspaceFile& file) {
  WorkspaceState state = file.state;
  state.appearance = appearance_;
  state.a = state.b = 0;
  apply_state(state, session_, layout_, appearance_);
  session_.files().set_recent(file.recent);
  session_.files().set_place(file.place);
  model_ = file.model;
  gates_ = still_there(file.gates, session_.messages());
  std::vector<ModelChoice> choices = file.choices;
  for (ModelChoice& choice : choices) choice.gates = still_there(choice.gates, session_.messages());
  if (!model_.empty()) choices.push_back({model_, state.parameters.policy, state.parameters.raw, gates_});
  session_.model().set_choices(choices, model_);
  session_.study_jobs().put_back(file.studies);
  fresh_ = false;
  undo_.start();
  restore_.start(file, [this] { restored(); });
}

// The runs' own files are sound all the same: nothing decoded is lost.
void Workspace::damaged(const std::string& text) {
  const fs::path kept = set_aside(folder_.state_file());
  session_.messages().notify("The last session could not be restored: " + text +
                             (kept.empty() ? "; its file could not be moved aside, and the next change overwrites it"
                                           : "; its file is kept as " + kept.string()));
  read_ = true;
  restore_.start(workspace_file(session_, undo_.history().present(), {}), [this] { restored(); });
}

void Workspace::restored() {
  const int n = restore_.restored();
  if (n == 0) return;
  session_.chat().take_up();
  session_.messages().notify(n == 1 ? "Restored 1 run" : "Restored " + std::to_string(n) + " runs");
}

// ------------------------------------------------------------------------------------------------ no place for it

void Workspace::warn_nothing_kept() {
  const std::string what = options_.no_place.empty() ? folder_.unusable() + " cannot be written" : options_.no_place;
  session_.messages().add_banner({.kind = Banner::Kind::warning,
                                  .text = std::string(kNothingKept) + what + ". Save your runs as traces yourself."});
  session_.messages().log(std::string(kNothingKept) + what +
                          (folder_.reason().empty() ? "" : " (" + folder_.reason() + ")"));
}

// A disk may get room again, or be mounted late.
void Workspace::look_for_folder() {
  if (folder_.is_writable() || options_.state.empty() || options_.clock() - looked_at_ < kRestOfRefused) return;
  looked_at_ = options_.clock();
  if (!folder_.try_again()) return;
  take_back(session_.messages(), kNothingKept);
  session_.messages().notify("saving works again: runs and settings will be restored at the next launch");
}

bool Workspace::keeps_all() const {
  return (!wants_folder() || folder_.is_writable()) && !refused_ && autosave_.keeps_all();
}

void Workspace::begin() {
  begun_ = true;
  undo_.start();
}

// ------------------------------------------------------------------------------------------------ writing

// As long as no model was opened, the last session's is the one that the next start is to open.
Workspace::Written Workspace::current() const {
  const std::string& engine_model = session_.engine().model_path();
  Written now{.state = capture_state(session_, layout_, appearance_, &undo_.history().present()),
              .wanted = autosave_.wanted(),
              .next_run = session_.runs().next_id(),
              .model = engine_model.empty() ? model_ : engine_model,
              .gates = engine_model.empty() ? gates_ : session_.engine().gates_to_load(),
              .place = session_.files().place(),
              .preview = has_preview(session_)};
  for (const RunEntry& entry : session_.runs().all()) {
    now.traces.emplace_back(entry.id, entry.trace_path);
    now.names.emplace_back(entry.id, entry.name);
  }
  for (const StudyJob& job : session_.study_jobs().all()) now.studies.emplace_back(job.id, job.state);
  return now;
}

bool Workspace::state_is_written() const { return !folder_.is_writable() || !begun_ || written_ == current(); }

void Workspace::poll() {
  for (const auto& finish : worker_.take_finished()) finish();
  undo_.observe_automatic();
  if (!written_settings_) written_settings_ = appearance_;  // what the command line says is no setting
  if (!begun_) return;
  look_for_folder();
  autosave_.tick(now_);
  now_ = now_ && !saved();
  const bool new_run =
      session_.runs().next_id() != written_.next_run || session_.study_jobs().all().size() != written_.studies.size();
  const bool due = now_ || new_run || options_.clock() - written_at_ >= kWriteInterval;
  notes_.poll(due);
  if (!due || writing_) return;
  written_at_ = options_.clock();
  if (!(*written_settings_ == appearance_)) write_settings();
  const bool again = refused_ && options_.clock() - refused_at_ >= kRestOfRefused;
  // A chat's turn is never ahead of the run that answered it.
  if (!restore_.busy() && (again || !state_is_written()) && !autosave_.is_behind()) write_state();
}

void Workspace::write_state() {
  writing_ = true;
  written_ = current();
  WorkspaceFile file = workspace_file(session_, *written_.state, written_.wanted);
  file.model = written_.model, file.gates = written_.gates;
  worker_.post(
      [this, file = std::move(file), wanted = written_.wanted]() -> Worker::Finish {
        write_file_atomic(folder_.state_file(), to_text(file));
        // Only now: until here the file on disk named them.
        for (const auto& [id, path] : folder_.run_files()) {
          std::error_code error;
          if (!wanted.contains(id)) fs::remove(path, error);
        }
        return [this] {
          writing_ = refused_ = false;
          take_back_not_kept(session_.messages(), "The workspace");
        };
      },
      [this](const std::string& text) {
        writing_ = false, refused_ = true, refused_at_ = options_.clock();
        warn_not_kept(session_.messages(), "The workspace", text);
      });
}

void Workspace::write_settings() {
  written_settings_ = appearance_;
  if (options_.settings.empty()) {
    if (wants_folder()) warn_not_kept(session_.messages(), "A setting", "HOME and XDG_CONFIG_HOME are not set");
    return;
  }
  worker_.post(
      [this, path = options_.settings, text = settings_text(appearance_)]() -> Worker::Finish {
        fs::create_directories(path.parent_path());
        write_file_atomic(path, text);
        return [this] { take_back_not_kept(session_.messages(), "A setting"); };
      },
      [this](const std::string& text) { warn_not_kept(session_.messages(), "A setting", text); });
}

void Workspace::save() {
  now_ = true;
  autosave_.try_again();
}

bool Workspace::saved() const {
  return !worker_.busy() && !writing_ && !restore_.busy() && state_is_written() && notes_.idle() &&
         (!folder_.is_writable() || autosave_.idle()) && (!written_settings_ || *written_settings_ == appearance_);
}

bool Workspace::finish(std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  autosave_.try_again();
  while (!saved()) {
    if (std::chrono::steady_clock::now() > end) return false;
    now_ = true;
    poll();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// ------------------------------------------------------------------------------------------------ commands

void Workspace::clear() {
  if (session_.run_in_progress()) usage_error("run", "a run is in progress", "", "stop it first");
  WorkspaceState state = undo_.history().present();
  const bool raw = state.parameters.raw;
  state.parameters = NextRun::defaults();
  state.parameters.raw = raw;
  state.prompt = std::make_shared<const std::string>(first_sample(!raw));
  state.selection = {};
  state.a = state.b = 0;
  for (const RunEntry& entry : session_.runs().all()) state.removed.insert(entry.id);
  undo_.name_step("new workspace");
  apply_state(state, session_, layout_, appearance_);
}

nlohmann::json Workspace::state() const {
  const UndoHistory& history = undo_.history();
  return {{"number", folder_.number()}, {"restoring", !read_ || restore_.busy()}, {"saved", saved() && keeps_all()},
          {"steps", history.steps()},   {"undo", history.undo_label()},           {"redo", history.redo_label()}};
}

}  // namespace kvscope::app
