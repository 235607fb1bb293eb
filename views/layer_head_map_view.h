#pragma once
// The layer x head map: one metric of every head at the scrub position, A and B side by side or their difference.

#include <cstdint>

#include "views/figure/layer_head_map_figure.h"
#include "views/imgui_renderer.h"
#include "views/view_services.h"
#include "views/view_state.h"
#include "views/widgets/rebuild.h"

namespace kvscope::views {

class LayerHeadMapView final : public View {
 public:
  explicit LayerHeadMapView(const ViewServices& services) : services_(services), drawing_(*services.textures) {}
  const char* id() const override { return "layer_head_map"; }
  const char* title() const override { return "Layer x head map"; }
  void draw(ViewContext& context) override;

 private:
  enum Compare { only_a, side_by_side, difference };
  struct Key {
    RunKey a, b;
    std::int32_t q;
    Metric metric;
    int compare;
    float width, height, scale;
    bool dark, preview_a, preview_b;
    bool operator==(const Key&) const = default;
  };
  void draw_header(ViewContext& context);
  void draw_oracle_note(const ViewContext& context);
  void build(const ViewContext& context, const Key& key);
  void draw_panel(ViewContext& context, const char* panel_id, const char* item, const ShownRun& shown, ImVec2 origin);
  void draw_hover_card(const ViewContext& context, const RunRecord& run, int layer, int kv_head);

  ViewServices services_;
  FigureDrawing drawing_;
  Rebuild<Key> rebuild_;
  HeadMap map_a_, map_b_;
  int compare_ = side_by_side;
};

}  // namespace kvscope::views
