#pragma once
// The window: draws the session, turns keys and clicks into commands, and sleeps while nothing happens.

#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "app/command/commands.h"
#include "app/command/ui_state.h"
#include "app/control/control_server.h"
#include "app/control/requests.h"
#include "app/session/session.h"
#include "app/window/bench_ui.h"
#include "app/window/cockpit.h"
#include "app/window/film_recorder.h"
#include "app/window/frame_times.h"
#include "app/window/glfw_window.h"
#include "app/window/keyboard_focus.h"
#include "app/workspace/workspace.h"
#include "views/frame/view_services.h"
#include "views/view_list.h"
#include "views/widgets/time_deck.h"

namespace kvscope::app {

struct WindowOptions {
  std::string open;  // model, trace or prompt; empty: the sample model
  Session::Options session;
  int width = 1600, height = 1000;
  float scale = 0;  // user interface; 0: the display's
  bool light = false;
  std::string control;     // socket
  std::string script;      // JSON file
  std::string screenshot;  // PNG, when the script is done
  bool exit = false;       // then leave
  bool empty = false;      // no recorded run, even in a first window
  bool bench = false;      // bench() is called: nothing of an earlier window is read, nothing is left

  /// Whether a first window shows the recorded run: not where a file is named or a script speaks.
  bool has_first_run() const { return open.empty() && !empty && script.empty() && screenshot.empty() && !exit; }
};

class AppWindow {
 public:
  explicit AppWindow(const WindowOptions& options);
  ~AppWindow();
  /// Until it is closed; the exit code.
  int run();
  /// What the window costs here, on runs that are made up: no model is opened, no engine begins. Throws Error for a trace that
  /// does not open.
  nlohmann::json bench(const BenchUiOptions& options);

 private:
  void set_up_imgui();
  void apply_scale_and_theme();
  void round();
  double bench_round();
  nlohmann::json bench_frames(const BenchUiOptions& options, std::shared_ptr<const RunRecord> growing);
  nlohmann::json bench_live(const BenchUiOptions& options);
  nlohmann::json bench_trace(const BenchUiOptions& options);
  nlohmann::json bench_idle(const BenchUiOptions& options);
  nlohmann::json bench_taps(const BenchUiOptions& options);
  void wait();
  bool is_engine_busy() const;
  double frame_interval() const;
  bool has_pending_input() const;
  bool is_frame_due() const;
  void take_input();
  void take_keys();
  void take_key(const KeyPress& press);
  const Command* command_of(const KeyPress& press) const;
  void ask_for_frames();
  bool takes_next(const InputEvent& event);
  bool is_typing() const;
  void look_for_new_owner();
  void take_control();
  void draw_frame();
  bool is_picture_due();
  void take_picture();
  void save_screenshot(const Film::Picture& picture);
  void start_work();
  void track_gesture();
  void run_script_step();
  nlohmann::json state() const;
  Requests::Host request_host();

  static constexpr int kFramesAfterInput = 3;  // ImGui settles within three

  WindowOptions options_;
  GlfwWindow window_;
  UiState ui_;
  Session session_;
  Workspace workspace_;
  CommandRegistry commands_;
  views::Theme theme_;
  views::ItemRegistry items_;
  std::unique_ptr<views::OpenGlTextureBackend> textures_;
  std::jthread fonts_;
  views::ViewServices services_;
  ShortcutTexts shortcuts_{commands_};
  int layout_revision_ = -1;  // of shortcuts_
  Panel panel_{session_, commands_, ui_, services_, shortcuts_};
  views::ViewList views_;
  std::unique_ptr<views::TimeDeck> time_deck_;
  Cockpit cockpit_;
  FilmRecorder film_{session_, ui_};

  Requests requests_;
  std::unique_ptr<ControlServer> control_;
  std::optional<nlohmann::json> script_;
  std::size_t script_at_ = 0;
  bool script_waiting_ = false;
  std::string script_error_;

  std::string title_;
  bool applied_dark_ = true;
  float applied_scale_ = 0;
  std::uint64_t frame_ = 0;
  int frames_due_ = 3;
  bool holds_input_ = false;  // the next frame hears nothing but what is let go
  enum class Batch : std::uint8_t {
    none,
    text,
    pointer,
    key
  } batch_ = Batch::none;    // that Dear ImGui was fed, not yet drawn
  KeyOwner key_owner_;       // in the frame drawn last
  std::string key_command_;  // that the last key was for which is a shortcut, whether it was possible or not
  int n_key_commands_ = 0;
  int hold_ = 0;          // frames before which what was typed is not delivered
  bool touched_ = false;  // in this round of the loop
  std::chrono::steady_clock::time_point last_frame_{}, last_touch_{};
  std::chrono::steady_clock::time_point redraw_at_ = std::chrono::steady_clock::time_point::max();
  FrameTimes frame_times_;
  /// Without pixels a frame is laid out, answers scripts and makes its screenshots, but is not drawn. llvmpipe spends three
  /// quarters of a script's time on drawing.
  const bool has_pixels_ = std::getenv("KVSCOPE_NO_PIXELS") == nullptr;
  int answers_begun_ = 0, still_frames_ = 0;  // frames since the last in which a view waited for an answer
  double raster_ms_ = 0;                      // of the last frame, with the wait for the display
  double frame_cpu_ = 0;                      // seconds of all our threads for the last frame
  bool working_ = false;                      // start_work() was called
  bool first_run_due_ = false;                // the recorded run is shown once it is sure that nothing else is
  std::uint64_t gesture_ = 0;
  bool button_down_ = false;  // in the frame before
};

}  // namespace kvscope::app
