#pragma once
// The layer x head map: one metric of every head at the scrub position, A and B side by side or their difference; its
// scale, its order, and the heads that are marked on it.

#include <array>
#include <string>
#include <vector>

#include "views/figure/layer_head_map_figure.h"
#include "views/frame/view.h"
#include "views/frame/view_services.h"
#include "views/imgui_renderer.h"
#include "views/widgets/counted_maps.h"
#include "views/widgets/head_brush.h"
#include "views/widgets/range_thumbs.h"
#include "views/widgets/rebuild.h"

namespace kvscope::views {

class LayerHeadMapView final : public View {
 public:
  explicit LayerHeadMapView(const ViewServices& services)
      : services_(services), drawing_(*services.textures), counted_(services) {}
  const char* kind() const override { return "layer_head_map"; }
  const char* title() const override { return "Layer x head map"; }
  Place place() const override { return Place::main; }
  void draw(ViewContext& context) override;
  std::optional<ViewFigure> figure(const ViewContext& context) const override;

 private:
  static constexpr float kLittleRoom = 320, kLeastHeight = 60;  // design pixels
  struct Key {
    std::uint64_t counted;
    LayerHeadMapOptions options;
    float width, height, scale;
    bool dark;
    bool operator==(const Key&) const = default;
  };
  LayerHeadMapOptions options_of(const ViewContext& context) const;
  static bool is_compared(const ViewContext& context);
  void draw_header(ViewContext& context);
  void draw_set(ViewContext& context);
  static std::string marked_text(const ViewContext& context);
  void draw_marked(ViewContext& context);
  void draw_oracle_note(const ViewContext& context);
  void draw_no_value_notes(const ViewContext& context, ImVec2 origin);
  void draw_unsaid() const;
  void say_why_none(const ViewContext& context);
  void draw_note(Colour colour, const std::string& text) const;
  void make_picture(const LayerHeadMapOptions& options, ImVec2 room);
  void draw_bars(ViewContext& context, ImVec2 origin, bool hovered);
  void draw_panel(ViewContext& context, const char* panel_id, const char* item, const ShownRun& shown, ImVec2 origin,
                  HeadBrush& brush);
  std::string share_of_largest(std::size_t part, KvHead head) const;
  std::string value_line(const ViewContext& context, KvHead head) const;
  void draw_hover_card(const ViewContext& context, const RunRecord& run, KvHead head, std::size_t part);

  ViewServices services_;
  FigureDrawing drawing_;
  CountedMaps counted_;
  Rebuild<Key> rebuild_;
  LayerHeadMapOptions drawn_;  // as the picture has them
  std::vector<int> order_;     // head at each place of it
  std::vector<MapScale> scales_;
  std::vector<HeadMap> drawn_values_;
  std::vector<std::string> why_none_;  // of each map that was counted; empty where a head has a value
  std::array<std::string, 2> unsaid_;  // of them, what had no room on its map
  std::uint64_t why_of_ = 0;           // counted_.n() of it
  HeadBrush brush_a_, brush_b_;
  RangeThumbs thumbs_, thumbs_b_;
  bool on_bar_ = false;
  bool bar_title_cut_ = false;  // what the colours are of is the bar's hint then
  bool little_room_ = false;    // a line for each note and a row for each kind of button
};

}  // namespace kvscope::views
