#include "app/window/x_keyboard.h"

#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>
#include <X11/XKBlib.h>

#include <cstdlib>
#include <utility>

#include "engine/core/support/utf8.h"

namespace kvscope::app {
namespace {

constexpr unsigned int kAltGrMask = 0x80;  // Mod5, as every layout of X has it

/// 0 for what types nothing by itself: a dead key, Shift.
char32_t character_of(KeySym symbol) {
  if (symbol > ' ' && symbol < 0x7f) return static_cast<char32_t>(symbol);
  if ((symbol & 0xff000000u) == 0x01000000u) return static_cast<char32_t>(symbol & 0xffffffu);  // as Unicode has it
  return symbol >= 0xa0 && symbol < 0xfe00 ? (symbol < 0x100 ? static_cast<char32_t>(symbol) : kUnknownCharacter) : 0;
}

char32_t name_of(int key) {
  const char* name = glfwGetKeyName(key, 0);
  return name != nullptr && *name != '\0' ? decode_utf8(name, 0).code_point : 0;
}

}  // namespace

struct XKeyboard::Connection {
  Display* display = nullptr;
  XkbDescPtr keys = nullptr;
  bool changed = true;

  ~Connection() {
    if (keys != nullptr) XkbFreeKeyboard(keys, 0, True);
    if (display != nullptr) XCloseDisplay(display);
  }

  bool open() {
    if (std::getenv("DISPLAY") == nullptr) return false;
    int event = 0, error = 0, major = XkbMajorVersion, minor = XkbMinorVersion, reason = 0;
    display = XkbOpenDisplay(nullptr, &event, &error, &major, &minor, &reason);
    if (display == nullptr) return false;
    const unsigned int maps = XkbNewKeyboardNotifyMask | XkbMapNotifyMask;
    XkbSelectEvents(display, XkbUseCoreKbd, maps, maps);
    XkbSelectEventDetails(display, XkbUseCoreKbd, XkbStateNotify, XkbGroupStateMask, XkbGroupStateMask);
    return true;
  }

  void look() {
    for (XEvent event; XPending(display) > 0; changed = true) XNextEvent(display, &event);
  }

  KeySymbols read() {
    if (keys != nullptr) XkbFreeKeyboard(keys, 0, True);
    keys = XkbGetMap(display, XkbAllClientInfoMask, XkbUseCoreKbd);
    XkbStateRec state{};
    XkbGetState(display, XkbUseCoreKbd, &state);
    const int to_keycode = 9 - glfwGetKeyScancode(GLFW_KEY_ESCAPE);  // Wayland counts from the kernel's codes
    KeySymbols symbols = KeyboardLayout::american();
    for (auto& [key, typed] : symbols) {
      const int keycode = glfwGetKeyScancode(key) + to_keycode;
      for (std::size_t level = 0; level < typed.size(); ++level) {
        const unsigned int modifiers = ((level & KeyboardLayout::kShift) != 0 ? ShiftMask : 0u) |
                                       ((level & KeyboardLayout::kAltGr) != 0 ? kAltGrMask : 0u);
        unsigned int used = 0;
        KeySym symbol = NoSymbol;
        if (keys != nullptr)
          XkbTranslateKeyCode(keys, static_cast<KeyCode>(keycode), modifiers | (state.group << 13), &used, &symbol);
        typed[level] = (used & modifiers) == modifiers ? character_of(symbol) : 0;
      }
      if (typed[0] == kUnknownCharacter && name_of(key) >= 0x80) typed[0] = name_of(key);
    }
    return symbols;
  }
};

XKeyboard::XKeyboard() {
  auto connection = std::make_unique<Connection>();
  if (connection->open()) connection_ = std::move(connection);
}

XKeyboard::~XKeyboard() = default;

std::optional<KeySymbols> XKeyboard::take_change() {
  KeySymbols now;
  if (connection_) {
    connection_->look();
    if (!std::exchange(connection_->changed, false)) return std::nullopt;
    now = connection_->read();
  } else {
    now = KeyboardLayout::american();
    for (auto& [key, typed] : now) {
      const char32_t own = name_of(key);
      if (own != typed[0]) typed = {own, 0, 0, 0};
    }
  }
  if (now == last_) return std::nullopt;
  return last_ = now;
}

}  // namespace kvscope::app
