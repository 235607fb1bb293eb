#pragma once
// The map's metric by layer, as a distribution over the heads; A beside B.

#include "engine/core/support/background.h"
#include "views/figure/metric_by_layer_figure.h"
#include "views/frame/view.h"
#include "views/frame/view_services.h"
#include "views/imgui_renderer.h"
#include "views/widgets/rebuild.h"

namespace kvscope::views {

class MetricByLayerView final : public View {
 public:
  explicit MetricByLayerView(const ViewServices& services)
      : services_(services), drawing_(*services.textures), background_(services.wake) {}
  const char* kind() const override { return "metric_by_layer"; }
  const char* title() const override { return "By layer"; }
  Place place() const override { return Place::main; }
  void draw(ViewContext& context) override;
  std::optional<ViewFigure> figure(const ViewContext& context) const override;

 private:
  struct CountKey {
    std::vector<RunKey> runs;
    MetricByLayerOptions options;
    bool operator==(const CountKey&) const = default;
  };
  struct Key {
    std::uint64_t counted;
    float width, height, scale;
    bool dark;
    bool operator==(const Key&) const = default;
  };
  struct Counted {
    MetricByLayerOptions options;
    LayerDistributions distributions;
    std::vector<std::shared_ptr<const RunRecord>> runs;
  };
  /// Counts again what has changed: more than a frame has time for beside the window, while what was counted before stays.
  void count(const ViewContext& context, const MetricByLayerOptions& options);
  MetricByLayerOptions options_of(const ViewContext& context) const;
  void draw_note(const MetricByLayerOptions& options) const;
  void handle_mouse(ViewContext& context, ImVec2 origin);
  bool is_of_set() const { return shown_.runs.size() > 1 && !shown_.options.with_b; }
  void draw_hover_card(int layer) const;

  ViewServices services_;
  FigureDrawing drawing_;
  Rebuild<CountKey> recount_;
  Rebuild<Key> rebuild_;
  Background<Counted> background_;
  Counted shown_;  // without a series until something was counted
  std::uint64_t n_counted_ = 0;
};

}  // namespace kvscope::views
