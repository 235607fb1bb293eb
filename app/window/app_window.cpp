#include "app/window/app_window.h"

#include <backends/imgui_impl_glfw.h>
#include <backends/imgui_impl_opengl3.h>
#include <imgui.h>

#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "app/catalog/models.h"
#include "app/command/app_commands.h"
#include "app/support/interrupt.h"
#include "app/support/paths.h"
#include "app/support/slow_read.h"
#include "app/window/keyboard_focus.h"
#include "app/window/open_views.h"
#include "engine/core/files/tokenizer/chat.h"
#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"
#include "engine/core/support/seconds_since.h"
#include "views/frame/machine_font.h"
#include "views/widgets/imgui_compat.h"
#include "views/widgets/rebuild.h"

namespace kvscope::app {
namespace {

constexpr double kIdleWait = 0.5;  // seconds; nothing is drawn in between unless something happens
constexpr double kFrameTime = 1.0 / 60;
constexpr unsigned kLongestEnd = 20;  // seconds: to save, then for threads and the engine to end
// Frames that no hand asked for, while a model is read or decodes, take a fifth of one core at most. A software rasteriser
// needs 30 ms of both cores for one: at 60 a second SmolLM2 took 34 ms a token on two cores, where without a window it takes 15.
constexpr double kUntouched = 0.3, kRestPerWork = 4, kLongestInterval = 0.25;  // seconds, ratio, seconds

Session::Options woken_by_events(Session::Options options) {
  options.wake = glfwPostEmptyEvent;
  return options;
}

// Pictures and scripts depend on nothing that an earlier window has left, and leave nothing.
Workspace::Options what_lasts(const WindowOptions& options) {
  if (!options.script.empty() || !options.screenshot.empty() || options.exit || options.bench)
    return {.wake = glfwPostEmptyEvent};
  const std::filesystem::path state = state_folder();
  return {.state = state,
          .no_place = state.empty() ? "HOME and XDG_STATE_HOME are not set" : "",
          .settings = settings_file(),
          .wake = glfwPostEmptyEvent};
}

/// Of all threads of this process; a software rasteriser has some of its own.
double cpu_seconds() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

bool has_usable_chat(const std::string& model) {
  try {
    return ChatTemplate::find(model).has_value();
  } catch (const Error&) {
    return false;  // the prompt's panel shows why
  }
}

}  // namespace

AppWindow::AppWindow(const WindowOptions& options)
    : options_(options),
      window_({.width = options.width, .height = options.height, .visible = true, .title = "KVScope"}),
      session_(woken_by_events(options.session)),
      workspace_(session_, ui_, ui_, what_lasts(options)),
      requests_(request_host()) {
  watch_slow_reads(glfwPostEmptyEvent);
  if (options.light) ui_.dark = false;
  set_up_imgui();
  services_ = {.textures = textures_.get(), .items = &items_, .theme = &theme_, .wake = glfwPostEmptyEvent};
  views_ = views::make_views(services_);
  time_deck_ = std::make_unique<views::TimeDeck>(services_);
  add_workspace_commands(commands_, workspace_);
  add_all_commands(commands_, session_, ui_, views_);
  if (!options.script.empty()) {
    script_ = read_json(options.script, {.max_bytes = 16u << 20});
    if (!script_->is_array())
      throw Error({.file = options.script, .found = script_->type_name(), .expected = "a list of commands"});
  }
  if (!options.control.empty()) control_ = std::make_unique<ControlServer>(options.control, glfwPostEmptyEvent);
}

AppWindow::~AppWindow() {
  give_up_slow_reads(true);  // or the session would wait for them
  // Textures belong to the context: views go first, then the back ends, then the window.
  time_deck_.reset(), panel_.export_preview.reset();
  views_.clear();
  ImGui_ImplOpenGL3_Shutdown();
  ImGui_ImplGlfw_Shutdown();
  ImGui::DestroyContext();
}

void AppWindow::set_up_imgui() {
  IMGUI_CHECKVERSION();
  ImGui::CreateContext();
  ImGuiIO& io = ImGui::GetIO();
  io.ConfigErrorRecoveryEnableTooltip = io.ConfigErrorRecoveryEnableDebugLog = false;  // of no use to people
  io.ConfigFlags |= ImGuiConfigFlags_DockingEnable;
  io.IniFilename = io.LogFilename = nullptr;  // layout is ours; a stray imgui.ini has crashed others
  window_.install_callbacks();
  ImGui_ImplGlfw_InitForOpenGL(window_.handle(), false);
  ImGui_ImplOpenGL3_Init("#version 330 core");
  textures_ = std::make_unique<views::OpenGlTextureBackend>([](const char* name) {
    return reinterpret_cast<views::OpenGlTextureBackend::Function>(glfwGetProcAddress(name));
  });
  apply_scale_and_theme();
}

// Fonts are made anew when their size changes.
void AppWindow::apply_scale_and_theme() {
  theme_.maps = ui_.colours;
  const float scale = (options_.scale > 0 ? options_.scale : window_.content_scale()) * ui_.zoom;
  const bool new_fonts = scale != applied_scale_;
  if (!new_fonts && ui_.dark == applied_dark_) return;
  const views::Fonts fonts = theme_.fonts;
  theme_ = views::make_theme(ui_.dark, scale);
  theme_.fonts = fonts, theme_.maps = ui_.colours;
  if (new_fonts) {
    views::load_fonts(theme_);
  }
  views::apply_theme(theme_);
  applied_scale_ = scale, applied_dark_ = ui_.dark;
  frames_due_ = kFramesAfterInput;
}

int AppWindow::run() {
  catch_interrupts();
  limit_end(kLongestEnd);
  while (!ui_.quit && !glfwWindowShouldClose(window_.handle()) && !interrupted()) round();
  glfwHideWindow(window_.handle());
  begin_end();
  if (!workspace_.finish())
    std::fputs("warning: some changes are not saved for the next launch: the disk did not respond in time\n", stderr);
  if (!script_error_.empty())
    throw Error({.file = script_ ? options_.script : "--screenshot",
                 .where = script_ ? "step " + std::to_string(script_at_) : "",
                 .found = script_error_});
  return 0;
}

/// Waits, takes in what has come, draws if a frame is due.
void AppWindow::round() {
  wait();
  frame_times_.start();
  frame_times_.part(FrameTimes::Part::commands);
  take_input();
  workspace_.undo().observe();
  frame_times_.part(FrameTimes::Part::session);
  if (session_.poll()) frames_due_ = std::max(frames_due_, 1);
  workspace_.poll();
  if (frame_ > 0 && !working_ && workspace_.is_read()) start_work();
  if (workspace_.is_restored() && std::exchange(first_run_due_, false))
    session_.traces().show_first(first_run_trace().string());
  frame_times_.part(FrameTimes::Part::commands);
  take_control();
  run_script_step();
  if (requests_.waiting()) frames_due_ = std::max(frames_due_, 1);
  if (is_frame_due()) {
    --frames_due_;
    draw_frame();
  }
  if (has_pending_input()) frames_due_ = std::max(frames_due_, 1);
  frame_times_.part(FrameTimes::Part::commands);
  requests_.serve();
  frame_times_.pause();
}

/// The engine wants the cores.
bool AppWindow::is_engine_busy() const {
  return session_.run_in_progress() || !session_.engine().progress().phase.empty();
}

/// Between two frames, in seconds.
double AppWindow::frame_interval() const {
  if (!is_engine_busy() || seconds_since(last_touch_) < kUntouched) return kFrameTime;
  return std::clamp(kRestPerWork * frame_cpu_, kFrameTime, kLongestInterval);
}

bool AppWindow::has_pending_input() const { return window_.has_input() || !is_input_drawn(); }

// A touch is drawn at once, and so is what waits for the frame after it: each tap has frames for itself.
bool AppWindow::is_frame_due() const {
  return frames_due_ > 0 &&
         (touched_ || has_pending_input() || frame_ == 0 || seconds_since(last_frame_) >= frame_interval());
}

// Sleeps until something happens: input, an event of the engine (its wake), or half a second.
void AppWindow::wait() {
  if (frames_due_ > 0) {
    const double left = has_pending_input() ? 0 : frame_interval() - seconds_since(last_frame_);
    if (left > 0) {
      glfwWaitEventsTimeout(left);
    } else {
      glfwPollEvents();
    }
    return;
  }
  // A blinking caret, the clock of a run's progress, a message that fades: a few frames a second are enough.
  const bool blinking = ImGui::GetIO().WantTextInput || is_engine_busy();
  const double next = std::max(1e-3, -seconds_since(redraw_at_));
  const double timeout = std::min(next, blinking ? 0.1 : kIdleWait);
  const auto begin = std::chrono::steady_clock::now();
  glfwWaitEventsTimeout(timeout);
  if (seconds_since(begin) < timeout * 0.95) {
    frames_due_ = is_engine_busy() ? 1 : kFramesAfterInput;
  } else if (blinking || timeout == next) {
    frames_due_ = 1;
  }
}

void AppWindow::ask_for_frames() { frames_due_ = kFramesAfterInput; }

void AppWindow::take_input() {
  touched_ = window_.take_touch();
  if (touched_) {
    last_touch_ = std::chrono::steady_clock::now();
    frames_due_ = kFramesAfterInput;
  }
  for (const std::string& path : window_.take_dropped_files()) {
    panel_.run("file.open", {{"path", path}});
  }
  take_keys();
}

void AppWindow::take_control() {
  if (!control_) return;
  const std::vector<int> gone = control_->take_gone();  // before their last lines
  for (const ControlServer::Line& line : control_->take_lines()) {
    const auto reply = [this, connection = line.connection](const nlohmann::json& answer) {
      control_->answer(connection, answer);
    };
    try {
      requests_.add(parse_json(line.text, "request", {.max_bytes = 16u << 20}), reply, line.connection);
    } catch (const Error& error) {
      reply({{"ok", false}, {"error", error.what()}});
    }
  }
  for (const int client : gone) requests_.drop(client);
}

// One step after the other; each waits for its answer. Then the picture and the end, if they were asked for.
void AppWindow::run_script_step() {
  if (script_waiting_ || frame_ < 2 || !working_) return;
  const auto ask = [this](nlohmann::json step) {
    script_waiting_ = true;
    requests_.add(std::move(step), [this](const nlohmann::json& answer) {
      script_waiting_ = false;
      if (!answer.value("ok", false)) script_error_ = answer.value("error", "failed");
    });
  };
  if (script_ && script_at_ < script_->size() && script_error_.empty()) return ask((*script_)[script_at_++]);
  if (!options_.screenshot.empty() && script_error_.empty()) {
    if (script_ || frame_ >= 4)
      ask({{"command", "app.screenshot"}, {"args", {{"path", std::exchange(options_.screenshot, "")}}}});
    frames_due_ = kFramesAfterInput;
    return;
  }
  if ((options_.exit || !script_error_.empty()) && ui_.screenshot.empty()) ui_.quit = true;
}

void AppWindow::draw_frame() {
  const double cpu_before = cpu_seconds();
  apply_scale_and_theme();
  frame_times_.start();
  frame_times_.part(FrameTimes::Part::text);
  if (const std::string error = film_.prepare(); !error.empty() && script_) script_error_ = error;
  std::string title = session_.engine().model() ? session_.engine().model()->name + " - KVScope" : "KVScope";
  if (const std::string film = film_.text(); !film.empty()) title += " - " + film;
  if (title != title_) glfwSetWindowTitle(window_.handle(), (title_ = title).c_str());
  items_.begin_frame();
  window_.follow_layout();
  if (std::exchange(layout_revision_, window_.layout_revision()) != window_.layout_revision())
    shortcuts_.use(window_.layout());
  frame_times_.part(FrameTimes::Part::views);
  ImGui_ImplOpenGL3_NewFrame();
  ImGui_ImplGlfw_NewFrame();
  apply_keyboard_focus(ui_);
  ImGui::NewFrame();
  views::let_shortcuts_press_nothing();
  track_gesture();
  session_.runs().clamp_selection();
  views::ViewContext context;
  // Copies: a command that a view runs may change the session while the others still draw.
  views::ShownRun a, b;
  if (session_.runs().shown_a()) a = *session_.runs().shown_a(), context.a = &a;
  if (session_.runs().shown_b()) b = *session_.runs().shown_b(), context.b = &b;
  const std::vector<views::ShownRun> set = session_.runs().chosen();
  if (!set.empty()) context.set = &set;
  context.same_text = [this](int n) { return session_.runs().same_text(n); };
  views::ListedRuns listed = session_.run_list().now();
  listed.show = [this](int of_a, int of_b) { panel_.run("run.compare", {{"a", of_a}, {"b", of_b}}); };
  listed.choose = [this](int id) { panel_.run("runs.choose", {{"id", id}}); };
  context.listed = &listed;
  context.selection = &session_.selection();
  context.attention = &session_.attention().asked();
  context.query_attention = &session_.query_attention().asked();
  const views::OpenStudies studies = session_.studies().open_studies();
  context.studies = &studies;
  context.command = [this](const std::string& id) { panel_.run(id); };
  make_open_views(ui_, views_, services_, session_.selection());
  cockpit_.draw(panel_, context, views_, *time_deck_);
  session_.attention().poll(session_.runs().shown_a(), session_.selection());
  session_.query_attention().poll(session_.runs().shown_a(), session_.selection());
  redraw_at_ = std::exchange(views::redraw_at, views::kNoRedraw);
  if (redraw_at_ <= std::chrono::steady_clock::now()) frames_due_ = std::max(frames_due_, 1);
  look_for_new_owner();
  draw_frame_times(panel_, frame_times_, ImGui::GetIO().DisplaySize.y - panel_.px(kStatusHeight));
  workspace_.undo().observe();
  if (!button_down_) workspace_.undo().set_gesture(0);
  if (!ui_.clipboard.empty()) ImGui::SetClipboardText(std::exchange(ui_.clipboard, "").c_str());
  frame_times_.part(FrameTimes::Part::lists);
  ImGui::Render();
  frame_times_.frame();  // what follows is the rasteriser's
  const auto raster_begin = std::chrono::steady_clock::now();
  const bool is_picture = is_picture_due();
  if (has_pixels_ || is_picture) {
    const auto& background = theme_.palette.background;
    window_.clear(background.r / 255.f, background.g / 255.f, background.b / 255.f);
    ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData());
  } else {
    for (ImTextureData* texture : ImGui::GetPlatformIO().Textures)
      if (texture->Status != ImTextureStatus_OK) ImGui_ImplOpenGL3_UpdateTexture(texture);
  }
  ++frame_;
  if (is_picture) take_picture();
  if (!ui_.screenshot.empty() || film_.is_on()) frames_due_ = std::max(frames_due_, 1);
  glfwSwapBuffers(window_.handle());
  last_frame_ = std::chrono::steady_clock::now();
  raster_ms_ = std::chrono::duration<double, std::milli>(last_frame_ - raster_begin).count();
  frame_cpu_ = cpu_seconds() - cpu_before;
  frame_times_.start();
}

// All that a hand does from the press of a button to its release is one step of Undo.
void AppWindow::track_gesture() {
  const bool down = ImGui::IsAnyMouseDown();
  if (down && !button_down_) ++gesture_;
  workspace_.undo().set_gesture(down || button_down_ ? gesture_ : 0);
  button_down_ = down;
}

// The window is there before anything slow begins.
void AppWindow::start_work() {
  working_ = true, frames_due_ = kFramesAfterInput;
  fonts_ = std::jthread(views::find_machine_fonts);  // fontconfig reads its lists: up to 0.2 s on a cold disk
  std::error_code error;
  // Other folders are gates, or have the curves of trainings: file.open says which.
  const bool names_model =
      !options_.open.empty() && std::filesystem::exists(std::filesystem::path(options_.open) / "config.json", error);
  std::string model = names_model ? options_.open : workspace_.model();
  if (model.empty() || !std::filesystem::is_directory(model, error)) {
    if (!model.empty()) session_.messages().notify("the last session's model no longer exists: " + model);
    model = first_model().string();
  }
  const bool opens_model = (options_.open.empty() || names_model) && !model.empty();
  if (workspace_.is_fresh()) {
    session_.next_run().set_raw(!opens_model || !has_usable_chat(model));
    if (!sample_prompts(!session_.parameters().raw).empty()) panel_.run("prompt.sample", {{"index", 0}});
  }
  workspace_.begin();
  first_run_due_ = workspace_.is_fresh() && options_.has_first_run();
  if (opens_model) {
    const bool again = model == workspace_.model() && options_.session.gates.empty();
    session_.model().open(model, again ? workspace_.gates() : std::vector<std::string>());
  } else if (!options_.open.empty()) {
    panel_.run("file.open", {{"path", options_.open}});
    session_.engine().start();
  }
}

}  // namespace kvscope::app
