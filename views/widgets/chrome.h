#pragma once
// Small things that every view has: captions, segmented choices, legends, empty states, the mark of a preview.

#include <imgui.h>

#include <span>
#include <string>
#include <string_view>

#include "views/figure/figure.h"
#include "views/frame/view_services.h"
#include "views/selection/view_state.h"

namespace kvscope::views {

/// Pushes a font for a scope, if it was loaded.
class FontScope {
 public:
  explicit FontScope(ImFont* font);
  ~FontScope();
  FontScope(const FontScope&) = delete;
  FontScope& operator=(const FontScope&) = delete;

 private:
  bool pushed_;
};

void text_in(Colour colour, std::string_view text);  // one line
void draw_text(ImFont* font, Colour colour, std::string_view text);
void wrapped_text_in(Colour colour, std::string_view text);  // as wide as the region
/// The height that it takes here.
float wrapped_height(std::string_view text);
/// The item's rectangle under `id` in the registry.
ItemRect last_item();
inline ItemRect item_rect(ImVec2 min, ImVec2 max) { return {min.x, min.y, max.x - min.x, max.y - min.y}; }

/// Where a hint of that size goes so that the row of its item stays in sight: beside the window where the item is as wide as
/// that (a list's line, whose neighbours are above and below), else below the row, or above it where there is no room.
/// `gap` is left between them; of an item higher than a control the row is where the mouse is.
ImVec2 hint_place(const ItemRect& item, const ItemRect& window, ImVec2 size, ImVec2 mouse, ImVec2 screen, float gap);
/// A tooltip for a scope, with the corners and paddings of menus and popups.
class HoverCard {
 public:
  explicit HoverCard(const ViewServices& services);
  ~HoverCard();
  HoverCard(const HoverCard&) = delete;
  HoverCard& operator=(const HoverCard&) = delete;
};
/// The tooltip of the item drawn last, wrapped; an empty one is none. Item "hint".
void hint_of(const ViewServices& services, std::string_view hint);

/// Frames the item drawn last while the keyboard is at it: for items that ImGui draws nothing of, as an InvisibleButton.
void frame_focused_item();

/// ImGui::BeginCombo; of a text that is longer than the room before its arrow, the beginning and an ellipsis.
bool begin_combo(const char* label, const std::string& shown, ImGuiComboFlags flags = ImGuiComboFlags_None);

/// One of several, side by side in `most_rows` rows at most, else as a drop_down(); true when it changed. Items "prefix.0",
/// "prefix.1" ... `hints` (may be empty) are tooltips.
bool segmented(const ViewServices& services, const char* prefix, std::span<const std::string_view> names,
               std::span<const std::string_view> hints, int& chosen, int most_rows = 2);

/// The same as a list that opens: item "prefix", its entries "prefix.0" ... while it is open. `width` in design pixels at most.
bool drop_down(const ViewServices& services, const char* prefix, std::span<const std::string_view> names,
               std::span<const std::string_view> hints, int& chosen, float width);

/// A button in a line of them: on the line of the one before where it fits, else on the next. `on`: it is drawn as chosen.
/// True when it was pressed.
bool line_button(const ViewServices& services, const char* item, std::string_view label, std::string_view hint, bool on,
                 bool first = false);

struct Swatch {
  Colour colour;
  std::string label;
  bool struck = false, outline = false;
};
/// In one line, wrapping.
void legend(const ViewServices& services, std::span<const Swatch> swatches);

/// Instead of a picture that would be too small to read: "Too little room for the map: maximise the view." (item "too_little.map").
void too_little_room(const ViewServices& services, const char* what);

/// "Nothing here yet": what the view needs, and the button for it (item "empty.<view id>"); no button if `command` is
/// empty.
void empty_state(const ViewServices& services, ViewContext& context, const char* item, std::string_view title,
                 std::string_view what, std::string_view button, std::string_view command);

/// What was not measured never looks as if: a dashed frame around it, and a badge at the right end of the current line
/// (item "preview.badge").
void preview_frame(const ViewServices& services, ImVec2 min, ImVec2 max);
void preview_badge(const ViewServices& services);
/// "L3 H1" with the run's label in front if two runs are on show.
std::string head_title(const ViewContext& context);

}  // namespace kvscope::views
