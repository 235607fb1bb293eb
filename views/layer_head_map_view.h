#pragma once
// The layer x head map: one metric of every head at the scrub position, A and B side by side or their difference.

#include "views/figure/layer_head_map_figure.h"
#include "views/frame/view.h"
#include "views/frame/view_services.h"
#include "views/imgui_renderer.h"
#include "views/widgets/beside.h"
#include "views/widgets/rebuild.h"

namespace kvscope::views {

class LayerHeadMapView final : public View {
 public:
  explicit LayerHeadMapView(const ViewServices& services)
      : services_(services), drawing_(*services.textures), beside_(services.wake) {}
  const char* id() const override { return "layer_head_map"; }
  const char* title() const override { return "Layer x head map"; }
  Place place() const override { return Place::main; }
  void draw(ViewContext& context) override;
  std::optional<ViewFigure> figure(const ViewContext& context) const override;

 private:
  struct Key {
    RunKey a, b;
    LayerHeadMapOptions options;
    float width, height, scale;
    bool dark;
    bool operator==(const Key&) const = default;
  };
  /// Why A and B cannot be compared cell by cell at this position; empty if they can.
  std::string refusal(const ViewContext& context) const;
  bool draw_refusal(ViewContext& context);
  LayerHeadMapOptions options_of(const ViewContext& context) const;
  void draw_header(ViewContext& context);
  void draw_oracle_note(const ViewContext& context);
  void draw_comparison_note(const ViewContext& context);
  struct Built {
    LayerHeadMapOptions options;
    BuiltFigure figure;
    std::string common_oracle;
    int n_layers = 0, n_kv_heads = 0;
  };
  using Runs = std::vector<std::shared_ptr<const RunRecord>>;
  void build(const ViewContext& context, const Key& key);
  static Built make(const Runs& runs, const LayerHeadMapOptions& options, const FigureStyle& style);
  void show(Built built);
  void draw_panel(ViewContext& context, const char* panel_id, const char* item, const ShownRun& shown, ImVec2 origin);
  void draw_hover_card(const ViewContext& context, const RunRecord& run, int layer, int kv_head);

  ViewServices services_;
  FigureDrawing drawing_;
  Rebuild<Key> rebuild_;
  Beside<Built> beside_;
  HeadMap map_a_, map_b_;
  std::string common_oracle_;                                 // what both are held against
  int compare_ = static_cast<int>(MapCompare::side_by_side);  // where there is a B
};

}  // namespace kvscope::views
