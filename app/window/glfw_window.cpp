#include "app/window/glfw_window.h"

#define GLFW_INCLUDE_GLCOREARB
#include <GLFW/glfw3.h>
#include <backends/imgui_impl_glfw.h>
#include <imgui.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <utility>

#include "engine/core/support/error.h"
#include "views/widgets/imgui_compat.h"

// Of the back end, which has it for programs like this one, without a declaration.
ImGuiKey ImGui_ImplGlfw_KeyToImGuiKey(int keycode, int scancode);

namespace kvscope::app {
namespace {

std::string g_glfw_error;

void on_error(int, const char* text) { g_glfw_error = text; }

constexpr int kFirstModifier = GLFW_KEY_LEFT_SHIFT;

template <typename Function>
Function gl(const char* name) {
  return reinterpret_cast<Function>(glfwGetProcAddress(name));
}

/// "left", "f11"; empty for a key that types a character, or has no name, such as Ctrl.
std::string special_key_name(int key) {
  static constexpr std::pair<int, const char*> kNames[] = {
      {GLFW_KEY_SPACE, "space"},       {GLFW_KEY_ESCAPE, "escape"}, {GLFW_KEY_ENTER, "enter"},
      {GLFW_KEY_KP_ENTER, "enter"},    {GLFW_KEY_TAB, "tab"},       {GLFW_KEY_BACKSPACE, "backspace"},
      {GLFW_KEY_DELETE, "delete"},     {GLFW_KEY_LEFT, "left"},     {GLFW_KEY_RIGHT, "right"},
      {GLFW_KEY_INSERT, "insert"},     {GLFW_KEY_UP, "up"},         {GLFW_KEY_DOWN, "down"},
      {GLFW_KEY_HOME, "home"},         {GLFW_KEY_END, "end"},       {GLFW_KEY_PAGE_UP, "pageup"},
      {GLFW_KEY_PAGE_DOWN, "pagedown"}};
  const auto* const found = std::ranges::find(kNames, key, &std::pair<int, const char*>::first);
  if (found != std::end(kNames)) return found->second;
  if (key >= GLFW_KEY_F1 && key <= GLFW_KEY_F25) return "f" + std::to_string(key - GLFW_KEY_F1 + 1);
  return "";
}

/// What the number block types; with Ctrl or Alt no character says it.
std::string keypad_mark(int key) {
  if (key >= GLFW_KEY_KP_0 && key <= GLFW_KEY_KP_9) return std::to_string(key - GLFW_KEY_KP_0);
  return key == GLFW_KEY_KP_ADD ? "+" : key == GLFW_KEY_KP_SUBTRACT ? "-" : key == GLFW_KEY_KP_DECIMAL ? "." : "";
}

std::optional<KeyPress> to_press(const std::vector<Shortcut>& meanings) {
  if (meanings.empty()) return std::nullopt;
  const Shortcut& first = meanings.front();
  return KeyPress{first.key, first.ctrl, first.shift, first.alt, {meanings.begin() + 1, meanings.end()}};
}

// assets/kvscope.svg as pixels: four layers by four columns, the last column is the window of new tokens.
void set_icon(GLFWwindow* window) {
  constexpr int kSide = 32, kCell = 6, kStep = 7, kMargin = 2;
  constexpr unsigned char kColours[3][4] = {{59, 64, 72, 255}, {47, 127, 196, 255}, {90, 180, 229, 255}};
  constexpr int kCells[4][4] = {{1, 0, 0, 2}, {0, 1, 0, 2}, {1, 0, 1, 2}, {0, 1, 0, 2}};
  std::vector<unsigned char> pixels(kSide * kSide * 4);
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      const int column = (x - kMargin) / kStep, row = (y - kMargin) / kStep;
      const bool cell = x >= kMargin && y >= kMargin && column < 4 && row < 4 && (x - kMargin) % kStep < kCell &&
                        (y - kMargin) % kStep < kCell;
      constexpr unsigned char kBackground[4] = {27, 30, 34, 255};
      const unsigned char* colour = cell ? kColours[kCells[row][column]] : kBackground;
      std::copy_n(colour, 4, &pixels[static_cast<std::size_t>(y * kSide + x) * 4]);
    }
  }
  const GLFWimage image{kSide, kSide, pixels.data()};
  glfwSetWindowIcon(window, 1, &image);
}

}  // namespace

GlfwWindow::GlfwWindow(const Settings& settings) {
  const std::string hint =
      "run, capture, figure, heads and all other commands work without a window; see kvscope --help";
  if (!std::getenv("DISPLAY") && !std::getenv("WAYLAND_DISPLAY")) {
    throw Error({.code = ExitCode::resource, .file = "display", .found = "none (DISPLAY is not set)", .hint = hint});
  }
  glfwSetErrorCallback(on_error);
#ifdef GLFW_PLATFORM_X11  // GLFW 3.4 would take Wayland first; keys and clipboard are those of X11
  glfwInitHint(GLFW_PLATFORM, GLFW_PLATFORM_X11);
#endif
  if (!glfwInit()) {
    const char* x11 = std::getenv("DISPLAY");
    const bool wayland_alone = (!x11 || !*x11) && std::getenv("WAYLAND_DISPLAY");
    throw Error({.code = ExitCode::resource,
                 .file = "display",
                 .found = wayland_alone ? "Wayland without X11 (DISPLAY is not set)" : g_glfw_error,
                 .expected = wayland_alone ? "XWayland, with DISPLAY set to its name, such as :0" : "",
                 .hint = hint});
  }
  glfwWindowHint(GLFW_CONTEXT_VERSION_MAJOR, 3);
  glfwWindowHint(GLFW_CONTEXT_VERSION_MINOR, 3);
  glfwWindowHint(GLFW_OPENGL_PROFILE, GLFW_OPENGL_CORE_PROFILE);
  glfwWindowHint(GLFW_VISIBLE, settings.visible ? GLFW_TRUE : GLFW_FALSE);
  glfwWindowHint(GLFW_FOCUS_ON_SHOW, GLFW_TRUE);
  glfwWindowHintString(GLFW_X11_CLASS_NAME, "kvscope");
  handle_ = glfwCreateWindow(settings.width, settings.height, settings.title.c_str(), nullptr, nullptr);
  if (!handle_) {
    glfwTerminate();
    throw Error(
        {.code = ExitCode::resource, .file = "display", .found = g_glfw_error, .expected = "OpenGL 3.3", .hint = hint});
  }
  glfwMakeContextCurrent(handle_);
  glfwSwapInterval(1);
  set_icon(handle_);
  glfwSetWindowUserPointer(handle_, this);
}

GlfwWindow::~GlfwWindow() {
  glfwDestroyWindow(handle_);
  glfwTerminate();
}

std::string GlfwWindow::description() const {
  const auto get_string = gl<PFNGLGETSTRINGPROC>("glGetString");
  const auto text = [&](GLenum name) {
    const auto* value = reinterpret_cast<const char*>(get_string(name));
    return value ? std::string(value) : std::string("?");
  };
  return "OpenGL " + text(GL_VERSION) + ", " + text(GL_RENDERER);
}

float GlfwWindow::content_scale() const {
  float x = 1, y = 1;
  glfwGetWindowContentScale(handle_, &x, &y);
  return std::clamp(std::max(x, y), 0.5f, 4.0f);
}

void GlfwWindow::install_callbacks() {
  glfwSetKeyCallback(handle_, on_key);
  glfwSetDropCallback(handle_, on_drop);
  glfwSetCharCallback(handle_, on_char);
  glfwSetMouseButtonCallback(handle_, on_button);
  glfwSetScrollCallback(handle_, on_scroll);
  glfwSetWindowFocusCallback(handle_, on_focus);
  glfwSetCursorEnterCallback(handle_, on_enter);
  glfwSetCursorPosCallback(handle_, on_move);
  glfwSetWindowRefreshCallback(handle_, on_touch);
  glfwSetFramebufferSizeCallback(handle_, on_touch);
}

bool InputEvent::is_release() const { return (kind == Kind::key || kind == Kind::button) && action == GLFW_RELEASE; }

bool InputEvent::is_modifier() const {
  return kind == Kind::key && code >= kFirstModifier && code <= GLFW_KEY_RIGHT_SUPER;
}

void GlfwWindow::feed_input() {
  const bool key = input_.front().kind == InputEvent::Kind::key;
  feed(input_.front());
  input_.pop_front();
  // Its character follows at once: a field that the key opens does not hear it.
  if (key && has_input() && next_input().kind == InputEvent::Kind::character && !next_input().press) feed_input();
}

void GlfwWindow::feed(const InputEvent& event) {
  ImGuiIO& io = ImGui::GetIO();
  switch (event.kind) {
    case InputEvent::Kind::key:
      return feed_key(event);
    case InputEvent::Kind::character:
      return io.AddInputCharacter(static_cast<unsigned int>(event.code));
    case InputEvent::Kind::button:
      if (event.code < ImGuiMouseButton_COUNT) io.AddMouseButtonEvent(event.code, event.action == GLFW_PRESS);
      return;
    case InputEvent::Kind::move:
      return io.AddMousePosEvent(static_cast<float>(event.x), static_cast<float>(event.y));
    case InputEvent::Kind::scroll:
      return io.AddMouseWheelEvent(static_cast<float>(event.x), static_cast<float>(event.y));
  }
}

// Letters by the layout's own, as shortcuts of fields (Ctrl+A) mean them. Modifiers as they were then: the back end's callback
// would read those of now.
void GlfwWindow::feed_key(const InputEvent& event) {
  ImGuiIO& io = ImGui::GetIO();
  if (event.is_modifier()) {
    modifiers_.set(event.code - kFirstModifier, event.action != GLFW_RELEASE);
    const auto down = [&](int left, int right) {
      return modifiers_.test(left - kFirstModifier) || modifiers_.test(right - kFirstModifier);
    };
    views::set_modifiers(down(GLFW_KEY_LEFT_CONTROL, GLFW_KEY_RIGHT_CONTROL),
                         down(GLFW_KEY_LEFT_SHIFT, GLFW_KEY_RIGHT_SHIFT), down(GLFW_KEY_LEFT_ALT, GLFW_KEY_RIGHT_ALT),
                         down(GLFW_KEY_LEFT_SUPER, GLFW_KEY_RIGHT_SUPER));
  }
  if (event.action == GLFW_REPEAT) return;  // Dear ImGui repeats by itself
  const std::string letter = layout_.letter(event.code);
  int key = ImGui_ImplGlfw_KeyToImGuiKey(event.code, event.scancode);
  if (letter.size() == 1 && letter[0] >= 'a' && letter[0] <= 'z') key = ImGuiKey_A + (letter[0] - 'a');
  if (event.action == GLFW_PRESS) {
    pressed_[event.code] = key;
  } else if (const auto pressed = pressed_.find(event.code); pressed != pressed_.end()) {
    key = pressed->second;  // the layout may be another by now
    pressed_.erase(pressed);
  }
  if (key != ImGuiKey_None) io.AddKeyEvent(static_cast<ImGuiKey>(key), event.action == GLFW_PRESS);
}

GlfwWindow& GlfwWindow::touch(GLFWwindow* window) {
  auto& self = *static_cast<GlfwWindow*>(glfwGetWindowUserPointer(window));
  self.touched_ = true;
  return self;
}

void GlfwWindow::on_char(GLFWwindow* window, unsigned int code_point) {
  GlfwWindow& self = touch(window);
  InputEvent event{.kind = InputEvent::Kind::character, .code = static_cast<int>(code_point)};
  // A letter that AltGr or a like key has turned into a mark means the mark alone.
  event.press = to_press(self.layout_.of_character(code_point, {.code = self.press_.code, .shift = self.press_.shift}));
  if (event.press && !self.input_.empty() && self.input_.back().kind == InputEvent::Kind::key)
    self.input_.back().press.reset();
  self.input_.push_back(event);
}

void GlfwWindow::on_button(GLFWwindow* window, int button, int action, int) {
  touch(window).input_.push_back({.kind = InputEvent::Kind::button, .code = button, .action = action});
}

void GlfwWindow::on_scroll(GLFWwindow* window, double x, double y) {
  touch(window).input_.push_back({.kind = InputEvent::Kind::scroll, .x = x, .y = y});
}

void GlfwWindow::on_focus(GLFWwindow* window, int focused) {
  touch(window);
  ImGui_ImplGlfw_WindowFocusCallback(window, focused);
}

void GlfwWindow::on_move(GLFWwindow* window, double x, double y) {
  touch(window).input_.push_back({.kind = InputEvent::Kind::move, .x = x, .y = y});
}

void GlfwWindow::on_enter(GLFWwindow* window, int entered) {
  touch(window);
  ImGui_ImplGlfw_CursorEnterCallback(window, entered);
}

void GlfwWindow::on_key(GLFWwindow* window, int key, int scancode, int action, int mods) {
  GlfwWindow& self = touch(window);
  self.follow_layout();
  if (key == GLFW_KEY_RIGHT_ALT) self.right_alt_ = action != GLFW_RELEASE;
  InputEvent event{.kind = InputEvent::Kind::key, .code = key, .scancode = scancode, .action = action};
  if (action != GLFW_RELEASE) self.press(event, mods);
  self.input_.push_back(event);
}

/// What a key that goes down means to commands.
void GlfwWindow::press(InputEvent& event, int mods) {
  const bool ctrl = (mods & GLFW_MOD_CONTROL) != 0, shift = (mods & GLFW_MOD_SHIFT) != 0,
             alt = (mods & GLFW_MOD_ALT) != 0;
  const std::string special = special_key_name(event.code), mark = keypad_mark(event.code);
  press_ = {.code = special.empty() ? event.code : 0, .ctrl = ctrl, .shift = shift, .alt = alt};
  if (!special.empty()) {
    event.press = to_press({{special, ctrl, shift, alt}});
  } else if (!mark.empty()) {
    if (ctrl || alt) event.press = to_press({{mark, ctrl, shift, alt}});
  } else if (const bool alt_gr = right_alt_ && !alt; !alt_gr || ctrl) {
    event.press = to_press(layout_.of_press(press_));
  }
}

void GlfwWindow::follow_layout() {
  if (auto changed = keyboard_.take_change()) layout_ = KeyboardLayout(*std::move(changed)), ++layout_revision_;
}

void GlfwWindow::on_drop(GLFWwindow* window, int count, const char** paths) {
  GlfwWindow& self = touch(window);
  for (int i = 0; i < count; ++i) self.dropped_.emplace_back(paths[i]);
}

std::vector<std::string> GlfwWindow::take_dropped_files() { return std::exchange(dropped_, {}); }
bool GlfwWindow::take_touch() { return std::exchange(touched_, false); }

std::vector<unsigned char> GlfwWindow::read_pixels(int& width, int& height) const {
  glfwGetFramebufferSize(handle_, &width, &height);
  std::vector<unsigned char> bottom_up(static_cast<std::size_t>(width) * height * 4);
  gl<PFNGLPIXELSTOREIPROC>("glPixelStorei")(GL_PACK_ALIGNMENT, 1);
  gl<PFNGLREADBUFFERPROC>("glReadBuffer")(GL_BACK);
  gl<PFNGLREADPIXELSPROC>("glReadPixels")(0, 0, width, height, GL_RGBA, GL_UNSIGNED_BYTE, bottom_up.data());
  std::vector<unsigned char> pixels(bottom_up.size());
  const std::size_t row = static_cast<std::size_t>(width) * 4;
  for (int y = 0; y < height; ++y) {
    std::copy_n(bottom_up.begin() + static_cast<std::ptrdiff_t>((height - 1 - y) * row), row,
                pixels.begin() + static_cast<std::ptrdiff_t>(y * row));
  }
  return pixels;
}

void GlfwWindow::clear(float r, float g, float b) const {
  int width = 0, height = 0;
  glfwGetFramebufferSize(handle_, &width, &height);
  gl<PFNGLVIEWPORTPROC>("glViewport")(0, 0, width, height);
  gl<PFNGLCLEARCOLORPROC>("glClearColor")(r, g, b, 1);
  gl<PFNGLCLEARPROC>("glClear")(GL_COLOR_BUFFER_BIT);
}

}  // namespace kvscope::app
