#include "views/widgets/pin_marks.h"

#include <algorithm>
#include <cmath>

#include "views/figure/colormap.h"
#include "views/widgets/chrome.h"
#include "views/widgets/imgui_compat.h"

namespace kvscope::views {
namespace {

/// With an edge, too.
void draw_line(const Theme& theme, ImVec2 from, ImVec2 to, Colour colour, float width) {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const Colour edge = with_alpha(theme.palette.panel, static_cast<std::uint8_t>(colour.a / 2));
  list.AddLine(from, to, to_imgui(edge), theme.px(width) + 2);
  list.AddLine(from, to, to_imgui(colour), theme.px(width));
}

/// By their tokens, so that neighbours follow each other.
template <typename Do>
void each_pin_in_order(const ViewContext& context, TokenSpan span, Do act) {
  if (context.pins == nullptr) return;
  std::vector<const Pin*> pins;
  for (const PlacedPin& placed : *context.pins) {
    if (placed.place == PinPlace::here && span.contains(placed.pin.token)) pins.push_back(&placed.pin);
  }
  std::ranges::stable_sort(pins, {}, &Pin::token);
  for (const Pin* pin : pins) act(*pin);
}

template <typename Do>
void each_pin(const ViewContext& context, Do act) {
  if (context.pins == nullptr) return;
  for (const PlacedPin& placed : *context.pins) {
    if (placed.place == PinPlace::here) act(placed.pin);
  }
}

void draw_letter(const ViewServices& services, int letter, ImVec2 min, ImVec2 size) {
  const Theme& theme = *services.theme;
  ImFont* font = theme.fonts.small ? theme.fonts.small : ImGui::GetFont();
  const Colour fill = pin_colour(letter);
  const std::string text = pin_letter(letter);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddRectFilled({min.x - 1, min.y - 1}, {min.x + size.x + 1, min.y + size.y + 1}, to_imgui(theme.palette.panel),
                     theme.px(3));  // an edge that stands out on a picture of the same colour
  list.AddRectFilled(min, {min.x + size.x, min.y + size.y}, to_imgui(fill), theme.px(2.5f));
  if (size.y < 1) return;  // Dear ImGui rounds to whole pixels and has no glyphs of none
  const float height = size.y, width = text_width(font, text.c_str()) * height / font_size(font);
  list.AddText(font, height, {min.x + (size.x - width) / 2, min.y - height * 0.04f}, to_imgui(ink_on(fill)),
               text.c_str());
}

}  // namespace

// Okabe and Ito's colours; grey in the place of black, which is no mark on dark.
Colour pin_colour(int letter) {
  constexpr Colour kColours[kMaxPins] = {{230, 159, 0},   {86, 180, 233}, {0, 158, 115},  {240, 228, 66},
                                         {204, 121, 167}, {213, 94, 0},   {40, 110, 220}, {160, 160, 160}};
  return kColours[std::clamp(letter, 0, kMaxPins - 1)];
}

void PinFinder::update(ViewContext& context) {
  context.pins = nullptr;
  if (!drawable(context.a)) return;
  const RunKey run(context.a);
  if (run != run_ || context.selection->pins != texts_) {
    run_ = run, texts_ = context.selection->pins;
    pins_ = placed_pins(texts_, *context.a->run);
  }
  if (!pins_.empty()) context.pins = &pins_;
}

ImVec2 PinMarks::flag_size() const { return {services_.theme->px(11), services_.theme->px(12)}; }

/// The one that the cursor is at.
bool PinMarks::is_lit(const Pin& pin) const {
  const Selection& selection = *context_.selection;
  return pin.token == selection.token && pin.layer == selection.layer && pin.kv_head == selection.kv_head;
}

void PinMarks::flag(const Pin& pin, ImVec2 min, float highest) const {
  const ImVec2 all = flag_size(), size{all.x, std::min(all.y, highest)}, max{min.x + size.x, min.y + size.y};
  draw_letter(services_, pin.letter, min, size);
  if (is_lit(pin))
    ImGui::GetWindowDrawList()->AddRect({min.x - 1, min.y - 1}, {max.x + 1, max.y + 1},
                                        to_imgui(services_.theme->palette.text), services_.theme->px(2.5f),
                                        services_.theme->px(1.5f));
  services_.items->add_text(std::string(view_) + ".pin." + pin_letter(pin.letter), item_rect(min, max),
                            pin_letter(pin.letter));
}

void PinMarks::token(std::int32_t token, ImVec2 min, ImVec2 max) const {
  float right = max.x + services_.theme->px(2);
  each_pin(context_, [&](const Pin& pin) {
    if (pin.token != token) return;
    ImGui::GetWindowDrawList()->AddRect(min, max, to_imgui(pin_colour(pin.letter)), services_.theme->px(2.5f),
                                        services_.theme->px(2));
    right -= flag_size().x;
    flag(pin, {right, min.y - services_.theme->px(6)});
  });
}

// Letters that would cover each other are drawn one above the other.
void PinMarks::columns(TokenSpan span, ImVec2 min, ImVec2 max) const {
  const ImVec2 size = flag_size();
  float taken = -1e9f, bottom = max.y;
  each_pin_in_order(context_, span, [&](const Pin& pin) {
    const float share = (static_cast<float>(pin.token - span.begin) + 0.5f) / static_cast<float>(span.size());
    const float x = std::floor(min.x + share * (max.x - min.x));
    draw_line(*services_.theme, {x, min.y}, {x, max.y}, pin_colour(pin.letter), 1.5f);
    const float left = std::clamp(x - size.x / 2, min.x, max.x - size.x);
    bottom = left < taken + size.x ? bottom - size.y - 2 : max.y;
    taken = left;
    flag(pin, {left, bottom - size.y});
  });
}

// And here beside each other.
void PinMarks::rows(TokenSpan span, ImVec2 min, ImVec2 max, int layer, int kv_head) const {
  const ImVec2 size = flag_size();
  float taken = 1e9f, left = min.x;
  each_pin_in_order(context_, span, [&](const Pin& pin) {
    const float share = (static_cast<float>(pin.token - span.begin) + 0.5f) / static_cast<float>(span.size());
    const float y = std::floor(max.y - share * (max.y - min.y));
    const bool own = pin.layer == layer && pin.kv_head == kv_head;
    draw_line(*services_.theme, {min.x, y}, {max.x, y}, with_alpha(pin_colour(pin.letter), own ? 255 : 110),
              own ? 1.5f : 1);
    const float top = std::clamp(y - size.y / 2, min.y, max.y - size.y);
    left = top > taken - size.y ? left + size.x + 2 : min.x;
    taken = top;
    flag(pin, {left, top});
  });
}

void PinMarks::head(const RunRecord& run, int layer, int kv_head, ImVec2 min, ImVec2 max) const {
  float left = min.x;
  each_pin(context_, [&](const Pin& pin) {
    if (pin.layer != layer || pin.kv_head != kv_head || layer >= run.evict_at.n_layers() ||
        kv_head >= run.evict_at.n_kv_heads())
      return;
    // Of a low cell a frame on its edge would leave no colour in sight: it goes around.
    const float out = std::min(max.x - min.x, max.y - min.y) < services_.theme->px(8) ? services_.theme->px(2) : 0;
    ImGui::GetWindowDrawList()->AddRect({min.x - out, min.y - out}, {max.x + out, max.y + out},
                                        to_imgui(pin_colour(pin.letter)), 0, services_.theme->px(2));
    flag(pin, {left, min.y}, max.y - min.y);
    left += flag_size().x;
  });
}

void pin_badge(const ViewServices& services, int letter) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float height = ImGui::GetTextLineHeight(), side = services.theme->px(15);
  ImGui::Dummy({side, height});
  draw_letter(services, letter, {at.x, at.y + (height - side) / 2}, {side, side});
}

}  // namespace kvscope::views
