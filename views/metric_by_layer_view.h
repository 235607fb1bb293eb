#pragma once
// The map's metric by layer, as a distribution over the heads; A beside B.

#include "views/figure/metric_by_layer_figure.h"
#include "views/frame/view.h"
#include "views/frame/view_services.h"
#include "views/imgui_renderer.h"
#include "views/widgets/rebuild.h"

namespace kvscope::views {

class MetricByLayerView final : public View {
 public:
  explicit MetricByLayerView(const ViewServices& services) : services_(services), drawing_(*services.textures) {}
  const char* id() const override { return "metric_by_layer"; }
  const char* title() const override { return "By layer"; }
  Place place() const override { return Place::main; }
  void draw(ViewContext& context) override;
  std::optional<ViewFigure> figure(const ViewContext& context) const override;

 private:
  struct Key {
    RunKey a, b;
    MetricByLayerOptions options;
    float width, height, scale;
    bool dark;
    bool operator==(const Key&) const = default;
  };
  MetricByLayerOptions options_of(const ViewContext& context) const;
  void draw_note(const MetricByLayerOptions& options) const;
  void handle_mouse(ViewContext& context, ImVec2 origin);
  void draw_hover_card(int layer) const;

  ViewServices services_;
  FigureDrawing drawing_;
  Rebuild<Key> rebuild_;
  LayerDistributions shown_;
  Metric metric_ = Metric::density;  // of what is shown
};

}  // namespace kvscope::views
