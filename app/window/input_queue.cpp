#include "app/window/input_queue.h"

#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>

#include <algorithm>
#include <set>
#include <utility>

namespace kvscope::app {
namespace {

/// Of a letter only the character matters, unless it is a shortcut's: text comes as fast as it is typed.
bool taps_matter(const InputEvent& event) {
  return event.code >= GLFW_KEY_ESCAPE || event.code == GLFW_KEY_SPACE ||
         (event.mods & (GLFW_MOD_CONTROL | GLFW_MOD_ALT | GLFW_MOD_SUPER)) != 0;
}

bool is_modifier(const InputEvent& event) {
  return event.code >= GLFW_KEY_LEFT_SHIFT && event.code <= GLFW_KEY_RIGHT_SUPER;
}

/// Moves or deletes where characters are inserted, say.
bool edits(const InputEvent& event) {
  return event.action == GLFW_PRESS && taps_matter(event) && event.code != GLFW_KEY_SPACE && !is_modifier(event);
}

/// What a frame has heard already.
struct Heard {
  std::set<std::pair<InputEvent::Kind, int>> changed;
  bool edit = false, text = false, button = false;

  bool can_take(const InputEvent& event, bool listed) const {
    const bool typed = event.kind == InputEvent::Kind::key || event.kind == InputEvent::Kind::character;
    if (typed && (listed || button)) return !button;
    switch (event.kind) {
      case InputEvent::Kind::key:
        // Ctrl that is let go before its frame is drawn was never held to Home.
        return !(changed.contains({event.kind, event.code}) || (text && edits(event)) || (edit && is_modifier(event)));
      case InputEvent::Kind::button:
        return !changed.contains({event.kind, event.code});
      case InputEvent::Kind::character:
        return !edit;
      case InputEvent::Kind::scroll:
        return true;
    }
    return true;
  }
  void take(const InputEvent& event) {
    text |= event.kind == InputEvent::Kind::character;
    button |= event.kind == InputEvent::Kind::button;
    if (event.kind == InputEvent::Kind::key) edit |= edits(event);
    const bool tap = event.kind == InputEvent::Kind::button ||
                     (event.kind == InputEvent::Kind::key && event.action != GLFW_REPEAT && taps_matter(event));
    if (tap) changed.insert({event.kind, event.code});
  }
};

}  // namespace

std::vector<InputEvent> InputQueue::take_frame(bool listed, std::uint64_t last_key) {
  std::vector<InputEvent> taken;
  for (Heard heard; !events_.empty() && heard.can_take(events_.front(), listed) && events_.front().number <= last_key;
       events_.pop_front()) {
    heard.take(events_.front());
    taken.push_back(events_.front());
  }
  return taken;
}

std::vector<InputEvent> InputQueue::take_releases() {
  const auto is_release = [](const InputEvent& event) {
    return (event.kind == InputEvent::Kind::key || event.kind == InputEvent::Kind::button) &&
           event.action == GLFW_RELEASE;
  };
  std::vector<InputEvent> taken;
  for (; !events_.empty() && is_release(events_.front()); events_.pop_front()) taken.push_back(events_.front());
  return taken;
}

std::uint64_t InputQueue::last_key_of_frame(bool listed) const {
  std::uint64_t last = 0;
  Heard heard;
  for (const InputEvent& event : events_) {
    if (!heard.can_take(event, listed)) break;
    heard.take(event);
    last = std::max(last, event.number);
  }
  return last;
}

}  // namespace kvscope::app
