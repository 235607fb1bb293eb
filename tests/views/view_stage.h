#pragma once
// One view on a window without a display, over one run or two, and what is written in it.

#include <memory>
#include <string>
#include <utility>

#include "engine/core/record/run_record.h"
#include "tests/views/view_support.h"
#include "views/widgets/imgui_compat.h"

namespace kvscope::test {

inline views::ShownRun shown(RunRecord run, const char* label = "A") {
  return {std::make_shared<const RunRecord>(std::move(run)), false, label, 1};
}

/// One view over one or two runs.
template <typename ViewType>
struct Stage {
  explicit Stage(RunRecord run, views::Selection s = {}, ImVec2 size = {1600, 900})
      : window(true, size), a(shown(std::move(run))), selection(s), view(window.services) {}
  void draw(int frames = 3) {
    for (int i = 0; i < frames; ++i) window.frame([&] { view.draw(context); });
  }
  void compare_with(RunRecord run) {
    b = shown(std::move(run), "B");
    context.b = &b;
  }
  std::string text(const std::string& id) { return window.items.text(id).value_or("(not drawn)"); }
  bool has(const std::string& id) { return window.items.find(id).has_value(); }
  std::string command;
  HeadlessWindow window;
  views::ShownRun a, b;
  views::Selection selection;
  views::ViewContext context{&a, nullptr, &selection, [this](const std::string& id) { command = id; }};
  ViewType view;
};

/// These keys are held until the next call.
struct Modifiers {
  bool ctrl = false, shift = false, alt = false;
};
inline void hold(Modifiers keys) {
  ImGuiIO& io = ImGui::GetIO();
  io.KeyCtrl = keys.ctrl, io.KeyShift = keys.shift, io.KeyAlt = keys.alt;
  views::set_modifiers(keys.ctrl, keys.shift, keys.alt, false);  // newer versions of ImGui go by events
}

/// The mouse is there, and its wheel turns by so many notches.
template <typename Draw>
void turn_wheel(ImVec2 at, float notches, const Draw& draw) {
  ImGui::GetIO().MousePos = at;
  draw();
  ImGui::GetIO().MouseWheel = notches;
  draw();
  ImGui::GetIO().MouseWheel = 0;
}

}  // namespace kvscope::test
