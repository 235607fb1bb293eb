#pragma once
// The selected head's cache over time: lifelines, occupancy, every contest at the boundary, and why a token went.

#include <cstdint>
#include <vector>

#include "views/figure/timeline_figure.h"
#include "views/figure/token_facts.h"
#include "views/frame/view.h"
#include "views/frame/view_services.h"
#include "views/imgui_renderer.h"
#include "views/widgets/chrome.h"
#include "views/widgets/decision_log.h"
#include "views/widgets/rebuild.h"
#include "views/widgets/span_mouse.h"
#include "views/widgets/why_text.h"

namespace kvscope::views {

class CacheTimelineView final : public View {
 public:
  explicit CacheTimelineView(const ViewServices& services)
      : services_(services), drawing_(*services.textures), log_(services) {}
  const char* kind() const override { return "cache_timeline"; }
  const char* title() const override { return "Cache timeline"; }
  Place place() const override { return Place::main; }
  void draw(ViewContext& context) override;
  std::optional<ViewFigure> figure(const ViewContext& context) const override;

  /// Rows of the log of the head drawn last, q ascending; for tests.
  int n_contests() const { return log_.n_rows(); }

 private:
  struct PictureKey {
    RunKey run;
    TimelineOptions options;
    float width, height, scale;
    bool dark;
    bool operator==(const PictureKey&) const = default;
  };
  void draw_why(const ViewContext& context, const Cursor& at, float height);
  void draw_picture(ViewContext& context, const Cursor& at, float height);
  void draw_cursor(const ViewContext& context, const Cursor& at, ImVec2 origin);
  void handle_mouse(ViewContext& context, ImVec2 origin);
  TimelineOptions options(const ViewContext& context, const Cursor& at) const;

  ViewServices services_;
  WhyText why_;
  FigureDrawing drawing_;
  Rebuild<PictureKey> rebuild_;
  DecisionLogTable log_;
  SpanMouse mouse_;
  TimelineOptions drawn_;  // what the picture shows
  bool occupancy_ = true;  // there was room for it in the frame drawn last
};

}  // namespace kvscope::views
