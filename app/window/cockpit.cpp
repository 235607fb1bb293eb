#include "app/window/cockpit.h"

#include <algorithm>
#include <string>

#include "engine/core/support/error.h"
#include "views/widgets/chrome.h"

namespace kvscope::app {
namespace {

constexpr float kGap = 6;  // design pixels between regions; where the splitters are
constexpr float kBarHeight = 54, kStatusHeight = 28, kTitleHeight = 30;
constexpr ImGuiWindowFlags kRegion = ImGuiWindowFlags_NoTitleBar | ImGuiWindowFlags_NoResize | ImGuiWindowFlags_NoMove |
                                     ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoBringToFrontOnFocus |
                                     ImGuiWindowFlags_NoScrollbar | ImGuiWindowFlags_NoScrollWithMouse;

// A region is a window of its own: it scrolls alone, and a popup lies over all of them.
class Region {
 public:
  Region(Panel& panel, const char* name, ImVec2 at, ImVec2 size, bool card, bool scroll = false) {
    ImGui::SetNextWindowPos(at);
    ImGui::SetNextWindowSize({std::max(1.f, size.x), std::max(1.f, size.y)});
    ImGui::PushStyleColor(ImGuiCol_WindowBg,
                          views::to_imgui(card ? panel.theme().palette.panel : panel.theme().palette.background));
    ImGui::PushStyleVar(ImGuiStyleVar_WindowRounding, card ? panel.px(6) : 0);
    ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, card ? ImVec2{panel.px(14), panel.px(10)} : ImVec2{0, 0});
    ImGui::PushStyleVar(ImGuiStyleVar_WindowMinSize, {1, 1});  // the default of 32 would let splitters cover the views
    ImGui::Begin(name, nullptr,
                 scroll ? kRegion & ~(ImGuiWindowFlags_NoScrollbar | ImGuiWindowFlags_NoScrollWithMouse) : kRegion);
  }
  ~Region() {
    ImGui::End();
    ImGui::PopStyleVar(3);
    ImGui::PopStyleColor();
  }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
};

// Drags `value` (design pixels, or a share if `whole` is given). Vertical: moves left and right.
void splitter(Panel& panel, const char* id, ImVec2 at, ImVec2 size, bool vertical, float direction, float& value,
              float lo, float hi, float initial, float whole = 0) {
  const Region region(panel, id, at, size, false);
  ImGui::InvisibleButton(id, {std::max(1.f, size.x), std::max(1.f, size.y)});
  const bool hovered = ImGui::IsItemHovered(), active = ImGui::IsItemActive();
  if (hovered || active) {
    ImGui::SetMouseCursor(vertical ? ImGuiMouseCursor_ResizeEW : ImGuiMouseCursor_ResizeNS);
    const auto& palette = panel.theme().palette;
    const ImVec2 middle{at.x + size.x / 2, at.y + size.y / 2};
    const float half = panel.px(1.5f);
    ImGui::GetWindowDrawList()->AddRectFilled(
        vertical ? ImVec2{middle.x - half, at.y} : ImVec2{at.x, middle.y - half},
        vertical ? ImVec2{middle.x + half, at.y + size.y} : ImVec2{at.x + size.x, middle.y + half},
        views::to_imgui(active ? palette.accent : palette.border));
  }
  if (active) {
    const ImVec2 delta = ImGui::GetIO().MouseDelta;
    const float moved = direction * (vertical ? delta.x : delta.y);
    value = std::clamp(value + (whole > 0 ? moved / whole : moved / panel.theme().scale), lo, hi);
  }
  if (hovered && ImGui::IsMouseDoubleClicked(0)) value = initial;
}

}  // namespace

void draw_welcome(Panel& panel) {
  const auto& palette = panel.theme().palette;
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const float width = std::min(panel.px(520), room.x), left = ImGui::GetCursorPosX() + (room.x - width) / 2;
  ImGui::SetCursorPos({left, ImGui::GetCursorPosY() + std::max(0.f, room.y * 0.30f)});
  ImGui::BeginGroup();
  {
    const views::FontScope font(panel.theme().fonts.title);
    views::text_in(palette.text, "Which tokens does the model keep?");
  }
  ImGui::PushTextWrapPos(left + width);
  views::text_in(
      palette.muted,
      "Run the prompt: tokens stream in, and for every layer and head you see what stays in the KV cache, what is "
      "evicted and why, and how that compares with what later tokens attend to.");
  ImGui::PopTextWrapPos();
  ImGui::Dummy({0, panel.px(8)});
  command_button(panel, "Run the prompt", "run.start", {panel.px(150), panel.px(34)}, true);
  ImGui::SameLine();
  if (ImGui::Button("Open a model or trace", {panel.px(190), panel.px(34)})) panel.run("file.open");
  panel.item("welcome.open");
  ImGui::SameLine();
  if (ImGui::Button("Keys", {panel.px(80), panel.px(34)})) panel.run("help.keys");
  ImGui::EndGroup();
}

void Cockpit::draw_left(Panel& panel, ImVec2 at, ImVec2 size) {
  const Region region(panel, "left", at, size, true, true);
  draw_prompt_panel(panel);
  draw_policy_panel(panel);
  draw_runs_panel(panel);
}

void Cockpit::draw_view(Panel& panel, views::ViewContext& context, views::View& view, ImVec2 at, ImVec2 size) {
  const Region region(panel, view.id(), at, size, true);
  {
    const views::FontScope font(panel.theme().fonts.bold);
    ImGui::SetCursorPosY(panel.px(8));
    views::text_in(panel.theme().palette.text, view.title());
  }
  // The title bar's right side: export and maximise. A double click on the title maximises too.
  const bool title_hovered = ImGui::IsItemHovered();
  if (title_hovered && ImGui::IsMouseDoubleClicked(0)) panel.run("view.maximise", {{"view", view.id()}});
  {
    const views::FontScope font(panel.theme().fonts.small);
    const bool inspector = std::string_view(view.id()) == "inspector";
    if (!inspector && context.a) {
      const char* maximise = panel.ui.maximised.empty() ? "Maximise" : "Restore";
      const float width =
          ImGui::CalcTextSize("Export").x + ImGui::CalcTextSize(maximise).x + 4 * ImGui::GetStyle().FramePadding.x;
      ImGui::SameLine(size.x - width - panel.px(10));
      ImGui::SetCursorPosY(panel.px(6));
      ImGui::PushStyleColor(ImGuiCol_Button, IM_COL32(0, 0, 0, 0));
      ImGui::PushStyleColor(ImGuiCol_Text, views::to_imgui(panel.theme().palette.muted));
      ImGui::PushID(view.id());
      if (ImGui::Button("Export")) panel.run("figure.export", {{"view", view.id()}});
      panel.item(std::string("view.") + view.id() + ".export");
      ImGui::SameLine(0, panel.px(2));
      if (ImGui::Button(maximise)) panel.run("view.maximise", {{"view", view.id()}});
      panel.item(std::string("view.") + view.id() + ".maximise");
      ImGui::PopID();
      ImGui::PopStyleColor(2);
    }
  }
  ImGui::SetCursorPosY(panel.px(kTitleHeight + 6));
  try {
    view.draw(context);
  } catch (const std::exception& error) {  // one panel's fault; the others go on
    views::wrapped_text_in(panel.theme().palette.bad, std::string("This view cannot be drawn: ") + error.what());
  }
}

void Cockpit::draw_canvas(Panel& panel, views::ViewContext& context,
                          std::span<const std::unique_ptr<views::View>> views, ImVec2 at, ImVec2 size) {
  const float gap = panel.px(kGap);
  if (!context.a) {
    const Region region(panel, "welcome", at, size, true);
    draw_welcome(panel);
    return;
  }
  for (const auto& view : views) {
    if (view->id() == panel.ui.maximised) return draw_view(panel, context, *view, at, size);
  }
  const float strip = std::floor((size.y - gap) * sizes_.strip), below = size.y - gap - strip;
  const float map = std::floor((size.x - gap) * sizes_.map);
  draw_view(panel, context, *views[0], at, {size.x, strip});
  splitter(panel, "split.strip", {at.x, at.y + strip}, {size.x, gap}, false, 1, sizes_.strip, 0.2f, 0.8f,
           CockpitSizes().strip, size.y - gap);
  const float y = at.y + strip + gap;
  draw_view(panel, context, *views[1], {at.x, y}, {map, below});
  splitter(panel, "split.map", {at.x + map, y}, {gap, below}, true, 1, sizes_.map, 0.2f, 0.8f, CockpitSizes().map,
           size.x - gap);
  draw_view(panel, context, *views[2], {at.x + map + gap, y}, {size.x - gap - map, below});
}

void Cockpit::draw(Panel& panel, views::ViewContext& context, std::span<const std::unique_ptr<views::View>> views,
                   views::TimeDeck& time_deck) {
  const ImVec2 screen = ImGui::GetIO().DisplaySize;
  const float gap = panel.px(kGap), bar = panel.px(kBarHeight), status = panel.px(kStatusHeight);
  const auto& ui = panel.ui;
  {
    const Region region(panel, "command_bar", {0, 0}, {screen.x, bar}, false);
    draw_command_bar(panel);
  }
  {
    const Region region(panel, "status_bar", {0, screen.y - status}, {screen.x, status}, false);
    draw_status_bar(panel);
  }
  float x = gap, right = screen.x - gap, y = bar, bottom = screen.y - status;
  if (ui.left) {
    const float width = panel.px(sizes_.left);
    draw_left(panel, {x, y}, {width, bottom - y});
    splitter(panel, "split.left", {x + width, y}, {gap, bottom - y}, true, 1, sizes_.left, 260, 620,
             CockpitSizes().left);
    x += width + gap;
  }
  if (!panel.session.messages().banners().empty()) {
    // As high as its text: measured in the frame before.
    static float height = 48;
    const Region region(panel, "banners", {x, y}, {right - x, height}, false);
    draw_banners(panel);
    height = ImGui::GetCursorPosY();
    y += height;
  }
  if (ui.log) {
    const float height = panel.px(sizes_.log);
    const Region region(panel, "log", {x, bottom - height}, {right - x, height}, true);
    draw_log(panel);
    bottom -= height + gap;
  }
  if (ui.right && context.a) {
    const float width = panel.px(sizes_.right);
    right -= width;
    draw_view(panel, context, *views[3], {right, y}, {width, bottom - y});
    right -= gap;
    splitter(panel, "split.right", {right, y}, {gap, bottom - y}, true, -1, sizes_.right, 220, 640,
             CockpitSizes().right);
  }
  if (ui.bottom && context.a) {
    const float height = panel.px(sizes_.bottom);
    const Region region(panel, "deck", {x, bottom - height}, {right - x, height}, true);
    time_deck.draw(context, ImGui::GetContentRegionAvail().y);
    bottom -= height + gap;
  }
  draw_canvas(panel, context, views, {x, y}, {right - x, bottom - y});
  draw_popups(panel);
}

}  // namespace kvscope::app
