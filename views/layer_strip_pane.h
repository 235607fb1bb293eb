#pragma once
// The token strip with layers as rows: how many KV heads of each layer retain each token at the scrub position.

#include <optional>
#include <string>

#include "views/figure/token_strip_figure.h"
#include "views/frame/view_services.h"
#include "views/imgui_renderer.h"
#include "views/selection/view_state.h"
#include "views/widgets/layer_strip_picture.h"
#include "views/widgets/span_mouse.h"

namespace kvscope::views {

/// Items: "layers.strip" (the cells), "layers.cell.<layer>" (a row), "layers.tokens_per_pixel" (text), "layers.card" (text).
class LayerStripPane {
 public:
  explicit LayerStripPane(const ViewServices& services)
      : services_(services), axes_(*services.textures), picture_(services) {}
  /// Fills the region. The run must be drawable.
  void draw(ViewContext& context, const Cursor& at);
  /// Hatches the swatch of the legend whose label is the item drawn last, as the picture has what the rule keeps. Item
  /// "layers.swatch".
  void hatch_swatch() const;
  /// The figure of the tokens that are shown.
  TokenStripOptions figure(const ViewContext& context, const Cursor& at) const;
  const LayerStripPicture& picture() const { return picture_; }

 private:
  struct AxesKey {
    RunKey run;
    TokenSpan span;
    std::int32_t q;
    float width, height, scale;
    bool dark, preview;
    bool operator==(const AxesKey&) const = default;
  };
  Figure make_axes(const ViewContext& context, const Cursor& at, TokenSpan span, float width, float height);
  void draw_marks(const ViewContext& context, const Cursor& at, TokenSpan span, ImVec2 min, ImVec2 max);
  void handle_mouse(ViewContext& context, const Cursor& at, TokenSpan span, ImVec2 min, ImVec2 max, bool hovered);
  void draw_card(const RunRecord& run, std::int32_t q, int layer, TokenSpan tokens);

  ViewServices services_;
  FigureDrawing axes_;
  LayerStripPicture picture_;
  SpanMouse mouse_;
  std::optional<AxesKey> drawn_;
  bool labels_ = false;  // there was room for the tokens' strings
};

}  // namespace kvscope::views
