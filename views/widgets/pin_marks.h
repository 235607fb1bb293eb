#pragma once
// Pins as every view draws them: a colour that is always the same letter's, and the letter itself.

#include <imgui.h>

#include <string>
#include <vector>

#include "views/figure/token_span.h"
#include "views/frame/view_services.h"
#include "views/selection/view_state.h"
#include "views/widgets/rebuild.h"  // RunKey

namespace kvscope::views {

/// Of the letter, 0 is a. Eight that differ for colour-blind eyes too, on light and dark.
Colour pin_colour(int letter);

/// Finds the pins of A's text once for all views.
class PinFinder {
 public:
  /// Looks again where run or pins changed, and lends them to the context.
  void update(ViewContext& context);

 private:
  RunKey run_;
  PinnedTexts texts_;
  std::vector<PlacedPin> pins_;
};

/// Draws the marks of one picture, and registers each as "VIEW.pin.a" with what is written there.
class PinMarks {
 public:
  /// `view`: the first part of the items' names, a literal.
  PinMarks(const ViewServices& services, const ViewContext& context, const char* view)
      : services_(services), context_(context), view_(view) {}

  /// A token of a text, in its own box: an outline, and the letters over its upper right corner.
  void token(std::int32_t token, ImVec2 min, ImVec2 max) const;
  /// Along an axis of tokens from left to right: a line through the picture, the letter at its lower end.
  void columns(TokenSpan span, ImVec2 min, ImVec2 max) const;
  /// Along an axis of tokens from below: a line through the picture, the letter at its left end. Faint where the pin is of
  /// another head than this one.
  void rows(TokenSpan span, ImVec2 min, ImVec2 max, int layer, int kv_head) const;
  /// The cell of a head of that run: its outline, and the letters in its corner.
  void head(const RunRecord& run, int layer, int kv_head, ImVec2 min, ImVec2 max) const;

 private:
  void flag(const Pin& pin, ImVec2 min, float highest = 1e9f) const;
  ImVec2 flag_size() const;
  bool is_lit(const Pin& pin) const;

  const ViewServices& services_;
  const ViewContext& context_;
  const char* view_;
};

/// The letter on its colour, as an item of a line of text.
void pin_badge(const ViewServices& services, int letter);

}  // namespace kvscope::views
