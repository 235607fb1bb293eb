#include "app/window/glfw_window.h"

#define GLFW_INCLUDE_GLCOREARB
#include <GLFW/glfw3.h>
#include <backends/imgui_impl_glfw.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <utility>

#include "engine/core/support/error.h"
#include "views/widgets/imgui_compat.h"

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

bool GlfwWindow::deliver_input(views::TextInput& typed, bool hold) {
  typed.events.clear();
  const std::uint64_t last_key = std::exchange(last_key_, kNoLimit);
  for (const InputEvent& event : hold ? input_.take_releases() : input_.take_frame(typed.focused, last_key)) {
    keys_delivered_ = std::max(keys_delivered_, event.number);
    switch (event.kind) {
      case InputEvent::Kind::key:
        if (event.action != GLFW_RELEASE && !event.name.empty())
          typed.events.push_back({.key = event.name,
                                  .ctrl = (event.mods & GLFW_MOD_CONTROL) != 0,
                                  .shift = (event.mods & GLFW_MOD_SHIFT) != 0,
                                  .alt = (event.mods & GLFW_MOD_ALT) != 0});
        note_modifier(event);
        ImGui_ImplGlfw_KeyCallback(handle_, event.code, event.scancode, event.action, event.mods);
        break;
      case InputEvent::Kind::character:
        typed.events.push_back({.key = "", .character = static_cast<char32_t>(event.code)});
        ImGui_ImplGlfw_CharCallback(handle_, static_cast<unsigned int>(event.code));
        break;
      case InputEvent::Kind::button:
        ImGui_ImplGlfw_MouseButtonCallback(handle_, event.code, event.action, event.mods);
        break;
      case InputEvent::Kind::scroll:
        ImGui_ImplGlfw_ScrollCallback(handle_, event.x, event.y);
        break;
    }
  }
  const auto down = [&](int left, int right) {
    return modifiers_.test(left - kFirstModifier) || modifiers_.test(right - kFirstModifier);
  };
  views::set_modifiers(down(GLFW_KEY_LEFT_CONTROL, GLFW_KEY_RIGHT_CONTROL),
                       down(GLFW_KEY_LEFT_SHIFT, GLFW_KEY_RIGHT_SHIFT), down(GLFW_KEY_LEFT_ALT, GLFW_KEY_RIGHT_ALT),
                       down(GLFW_KEY_LEFT_SUPER, GLFW_KEY_RIGHT_SUPER));
  return !input_.empty();
}

void GlfwWindow::note_modifier(const InputEvent& event) {
  if (event.code >= kFirstModifier && event.code <= GLFW_KEY_RIGHT_SUPER)
    modifiers_.set(event.code - kFirstModifier, event.action != GLFW_RELEASE);
}

GlfwWindow& GlfwWindow::touch(GLFWwindow* window) {
  auto& self = *static_cast<GlfwWindow*>(glfwGetWindowUserPointer(window));
  self.touched_ = true;
  return self;
}

void GlfwWindow::on_char(GLFWwindow* window, unsigned int code_point) {
  GlfwWindow& self = touch(window);
  // A letter that AltGr or a like key has turned into a mark means the mark alone.
  const auto meanings = self.layout_.of_character(code_point, {.code = self.press_.code, .shift = self.press_.shift});
  if (!meanings.empty() && !self.keys_.empty() && self.keys_.back().number == self.press_number_) self.keys_.pop_back();
  self.input_.push({.kind = InputEvent::Kind::character,
                    .code = static_cast<int>(code_point),
                    .name = "",
                    .number = self.add_press(meanings)});
}

void GlfwWindow::on_button(GLFWwindow* window, int button, int action, int mods) {
  GlfwWindow& self = touch(window);
  self.input_.push({.kind = InputEvent::Kind::button, .code = button, .action = action, .mods = mods, .name = ""});
}

void GlfwWindow::on_scroll(GLFWwindow* window, double x, double y) {
  touch(window).input_.push({.kind = InputEvent::Kind::scroll, .x = x, .y = y, .name = ""});
}

void GlfwWindow::on_focus(GLFWwindow* window, int focused) {
  touch(window);
  ImGui_ImplGlfw_WindowFocusCallback(window, focused);
}

void GlfwWindow::on_move(GLFWwindow* window, double x, double y) {
  touch(window);
  views::move_mouse(x, y);
}

void GlfwWindow::on_enter(GLFWwindow* window, int entered) {
  touch(window);
  ImGui_ImplGlfw_CursorEnterCallback(window, entered);
}

void GlfwWindow::on_key(GLFWwindow* window, int key, int scancode, int action, int mods) {
  GlfwWindow& self = touch(window);
  self.follow_layout();
  if (key == GLFW_KEY_RIGHT_ALT) self.right_alt_ = action != GLFW_RELEASE;
  InputEvent event{
      .kind = InputEvent::Kind::key, .code = key, .scancode = scancode, .action = action, .mods = mods, .name = ""};
  if (action != GLFW_RELEASE) self.press(event, key);
  self.input_.push(event);
}

/// What a key that goes down means to commands and, as the event's name, to text.
void GlfwWindow::press(InputEvent& event, int key) {
  const bool ctrl = (event.mods & GLFW_MOD_CONTROL) != 0, shift = (event.mods & GLFW_MOD_SHIFT) != 0,
             alt = (event.mods & GLFW_MOD_ALT) != 0;
  std::vector<Shortcut> meanings;
  event.name = special_key_name(key);
  press_ = {.code = event.name.empty() ? key : 0, .ctrl = ctrl, .shift = shift, .alt = alt};
  if (!event.name.empty()) {
    meanings = {{event.name, ctrl, shift, alt}};
  } else if (const std::string mark = keypad_mark(key); !mark.empty()) {
    if (ctrl || alt) meanings = {{mark, ctrl, shift, alt}};
  } else if (const bool alt_gr = right_alt_ && !alt; !alt_gr || ctrl) {
    event.name = layout_.letter(key);
    meanings = layout_.of_press(press_);
  }
  event.number = press_number_ = add_press(meanings);
}

std::uint64_t GlfwWindow::add_press(const std::vector<Shortcut>& meanings) {
  if (meanings.empty()) return 0;
  keys_.push_back({meanings[0].key,
                   meanings[0].ctrl,
                   meanings[0].shift,
                   meanings[0].alt,
                   ++n_keys_,
                   {meanings.begin() + 1, meanings.end()}});
  return n_keys_;
}

void GlfwWindow::follow_layout() {
  if (auto changed = keyboard_.take_change()) layout_ = KeyboardLayout(*std::move(changed)), ++layout_revision_;
}

void GlfwWindow::on_drop(GLFWwindow* window, int count, const char** paths) {
  GlfwWindow& self = touch(window);
  for (int i = 0; i < count; ++i) self.dropped_.emplace_back(paths[i]);
}

// In step with what fields hear: a key run ahead of it would act on a window that the keys before it have not changed yet.
std::vector<KeyPress> GlfwWindow::take_keys(bool listed) {
  const std::uint64_t last = std::max(keys_delivered_, input_.last_key_of_frame(listed));
  const auto later = std::ranges::find_if(keys_, [last](const KeyPress& key) { return key.number > last; });
  std::vector<KeyPress> taken(std::make_move_iterator(keys_.begin()), std::make_move_iterator(later));
  keys_.erase(keys_.begin(), later);
  return taken;
}

void GlfwWindow::hold_behind(const KeyPress& press, std::vector<KeyPress> rest) {
  last_key_ = press.number;
  keys_.insert(keys_.begin(), std::make_move_iterator(rest.begin()), std::make_move_iterator(rest.end()));
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
