#pragma once
// The prompt and the answer as flowing text; each token's colour says what became of it in the selected head.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "views/figure/token_facts.h"
#include "views/frame/view.h"
#include "views/frame/view_services.h"
#include "views/layer_strip_pane.h"
#include "views/widgets/brush_summary.h"
#include "views/widgets/chrome.h"
#include "views/widgets/pin_marks.h"
#include "views/widgets/rebuild.h"
#include "views/widgets/token_lines.h"

namespace kvscope::views {

class TokenStripView final : public View {
 public:
  explicit TokenStripView(const ViewServices& services) : services_(services), layers_(services) {}
  const char* kind() const override { return "token_strip"; }
  const char* title() const override { return "Token strip"; }
  Place place() const override { return Place::strip; }
  void draw(ViewContext& context) override;
  std::optional<ViewFigure> figure(const ViewContext& context) const override;

  /// Lines of text at the last drawn width; for tests.
  const LayerStripPicture& layer_picture() const { return layers_.picture(); }
  int n_lines() const { return lines_.n_lines(); }

 private:
  struct Chip {
    Colour fill, ink;
    bool struck = false;    // evicted: never by colour alone
    bool outlined = false;  // no value
  };
  /// Whether B's fate of a token can be shown next to A's: both have the same tokens up to this query.
  static bool b_comparable(const ViewContext& context);
  void draw_header(ViewContext& context);
  void draw_legend(const ViewContext& context);
  void draw_tokens(ViewContext& context, const Cursor& at);
  void draw_line(ViewContext& context, const HeadAtQuery& head, int line, ImVec2 origin);
  void draw_token(ViewContext& context, const HeadAtQuery& head, int token, ImVec2 min);
  void draw_hover_card(const HeadAtQuery& head, int token);
  /// The token's line is so many pixels below the upper edge from the next frame on.
  void bring_to(int token, float height);
  void scroll_to_selection(const ViewContext& context, float line_height);
  /// The token that the user looks at, as the lines were in the frame drawn last.
  int looked_at(const ViewContext& context, float line_height) const;
  void handle_mouse(ViewContext& context, int hovered);

  float line_height() const;
  int token_at(ImVec2 origin, ImVec2 mouse) const;
  Chip chip(ColourMode mode, const HeadAtQuery& head, int token) const;
  Chip state_chip(const HeadAtQuery& head, int token) const;
  Chip value_chip(double fraction) const;  // NaN: outlined

  ViewServices services_;
  LayerStripPane layers_;
  BrushSummary brush_;
  TokenLines lines_;
  ScoreRange scores_;
  struct ScoresKey {
    RunKey a, b;
    int layer, kv_head;
    bool operator==(const ScoresKey&) const = default;
  };
  Rebuild<ScoresKey> rebuild_scores_;
  int shown_first_ = 0, shown_end_ = 0;  // tokens on the screen in the frame drawn last
  int common_ = 0;                       // tokens that A and B share from the start
  std::optional<HeadAtQuery> b_;         // run B's same head, if it is on show
  std::int32_t shown_token_ = -1;        // the selection was scrolled into view for it
  std::int32_t shown_q_ = -1;            // and for this scrub position; -1: it followed the run
  TokenSpan span_;                       // of the run that the views showed
  float scroll_y_ = -1;                  // in the frame drawn last
  ImVec2 pane_;                          // its size then
  bool scrolled_ = false;                // by this view, in that frame
  int brought_ = -1;                     // then: to this token, at this height
  float brought_height_ = 0;
  bool followed_ = false;      // to a run's end, in that frame
  bool live_ = false;          // the run went on then: its last token ends it too
  bool other_tokens_ = false;  // than in that frame: another run, or more of this one
  bool away_ = false;          // a person scrolled the scrub position, or a run's end, out of sight
};

}  // namespace kvscope::views
