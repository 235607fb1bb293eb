#pragma once
// Runs of A's text as small multiples: methods by cache size, all at one query.

#include <optional>
#include <string>
#include <vector>

#include "views/figure/run_grid_figure.h"
#include "views/frame/view.h"
#include "views/frame/view_services.h"
#include "views/imgui_renderer.h"
#include "views/widgets/rebuild.h"

namespace kvscope::views {

class RunGridView final : public View {
 public:
  explicit RunGridView(const ViewServices& services) : services_(services), drawing_(*services.textures) {}
  const char* kind() const override { return "run_grid"; }
  const char* title() const override { return "Methods by cache size"; }
  Place place() const override { return Place::main; }
  void draw(ViewContext& context) override;
  bool has_content(const ViewContext& context) const override;
  std::optional<ViewFigure> figure(const ViewContext& context) const override;

 private:
  struct Key {
    std::vector<RunKey> runs;
    RunGridOptions options;
    float width, height, scale;
    bool dark;
    bool operator==(const Key&) const = default;
  };
  struct Shown {
    std::vector<const ListedRun*> runs;
    int left_out = 0;  // of another text or model, not ended, or too many
  };
  /// The ticked runs, or all if none is: those of A's prompt and model.
  static Shown shown(const ViewContext& context);
  RunGridOptions options_of(const ViewContext& context, const Shown& shown) const;
  void draw_header(ViewContext& context, const Shown& shown);
  void build(const ViewContext& context, const Shown& shown, ImVec2 room);
  void draw_cells(ViewContext& context, ImVec2 origin);
  void draw_card(std::size_t run, int row, int column) const;

  ViewServices services_;
  FigureDrawing drawing_;
  Rebuild<Key> rebuild_;
  RunGridOptions drawn_;
  std::vector<int> drawn_ids_;
  std::vector<std::shared_ptr<const RunRecord>> drawn_runs_;
  std::vector<RunMeasures> measures_;  // of drawn_ids_
  std::string waits_;                  // why there is no picture
};

}  // namespace kvscope::views
