#pragma once
// What the run is from position to position: NLL, tokens in the cache, density, recall, output error; A and B, or B - A.

#include <string>

#include "views/figure/curves_figure.h"
#include "views/frame/view.h"
#include "views/frame/view_services.h"
#include "views/imgui_renderer.h"
#include "views/widgets/debounced.h"
#include "views/widgets/rebuild.h"
#include "views/widgets/span_mouse.h"

namespace kvscope::views {

class RunCurvesView final : public View {
 public:
  explicit RunCurvesView(const ViewServices& services)
      : services_(services), drawing_(*services.textures), debounced_(services.wake) {}
  const char* kind() const override { return "run_curves"; }
  const char* title() const override { return "Curves"; }
  Place place() const override { return Place::main; }
  void draw(ViewContext& context) override;
  std::optional<ViewFigure> figure(const ViewContext& context) const override;

 private:
  struct Key {
    RunKey a, b;
    CurvesOptions options;
    float width, height, scale;
    bool dark;
    bool operator==(const Key&) const = default;
  };
  CurvesOptions options_of(const ViewContext& context) const;
  void draw_header(ViewContext& context);
  void draw_mark(const ViewContext& context);
  /// Why there is nothing to draw; empty if there is.
  std::string why_no_curve_of_b(const ViewContext& context) const;
  std::string refusal(const ViewContext& context) const;
  /// Whether a picture is there: a long one is made on a separate thread.
  bool build(const ViewContext& context, const Key& key);
  int axis_length(const ViewContext& context, MapCompare compare) const;
  /// Positions that the picture goes over.
  int n_shown(const ViewContext& context, const CurvesOptions& options) const;
  /// The part that is shown elsewhere is shown here.
  void take_span(const ViewContext& context, CurvesOptions& options) const;
  void take(Figure figure, const Key& key);
  void handle_mouse(ViewContext& context, ImVec2 origin);

  ViewServices services_;
  FigureDrawing drawing_;
  Rebuild<Key> rebuild_;
  Debounced<Key, Figure> debounced_;
  int quantity_ = 0, compare_ = static_cast<int>(MapCompare::side_by_side);
  SpanMouse mouse_;
  CurvesOptions drawn_options_;
  bool drawn_ = false;
};

}  // namespace kvscope::views
