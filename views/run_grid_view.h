#pragma once
// Runs of A's text as small multiples: methods by cache size, all at one query.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/support/background.h"
#include "views/figure/run_grid_figure.h"
#include "views/frame/view.h"
#include "views/frame/view_services.h"
#include "views/imgui_renderer.h"
#include "views/widgets/rebuild.h"

namespace kvscope::views {

class RunGridView final : public View {
 public:
  explicit RunGridView(const ViewServices& services)
      : services_(services), drawing_(*services.textures), background_(services.wake) {}
  const char* kind() const override { return "run_grid"; }
  const char* title() const override { return "Methods by cache size"; }
  Place place() const override { return Place::main; }
  void draw(ViewContext& context) override;
  bool has_content(const ViewContext& context) const override;
  std::optional<ViewFigure> figure(const ViewContext& context) const override;

 private:
  using Runs = std::vector<std::shared_ptr<const RunRecord>>;
  struct Shown {
    std::vector<const ListedRun*> runs;
    int left_out = 0;  // of another text or model, not ended, or too many
  };
  struct CountKey {
    std::vector<int> ids;
    std::vector<RunKey> runs;
    RunGridCells cells;
    Metric metric;
    std::int32_t q;
    float width;  // of tokens, which are averaged to the picture's points
    bool operator==(const CountKey&) const = default;
  };
  struct Counted {
    std::vector<int> ids;
    Runs runs;
    std::vector<RunMeasures> measures;
    RunGridOptions options;
    std::vector<GridPicture> pictures;
  };
  struct Key {
    std::uint64_t counted;
    RunGridOptions options;
    float width, height, scale;
    bool dark;
    bool operator==(const Key&) const = default;
  };
  /// The ticked runs, or all if none is: those of A's prompt and model.
  static Shown shown(const ViewContext& context);
  /// The same, found anew when the list, A or the ticks are others: prompts are long.
  const Shown& shown_now(const ViewContext& context);
  RunGridOptions options_of(const ViewContext& context, const Shown& shown) const;
  /// More than a frame has time for is counted beside the window. False while there is nothing of these runs.
  bool count(const ViewContext& context, const Shown& shown, float width);
  void take(Counted counted);
  void draw_header(ViewContext& context, const Shown& shown);
  void build(const RunGridOptions& options, ImVec2 room);
  void draw_cells(ViewContext& context, ImVec2 origin);
  void draw_card(std::size_t run, int row, int column) const;

  ViewServices services_;
  FigureDrawing drawing_;
  Shown shown_;
  std::shared_ptr<const std::vector<ListedRun>> shown_of_;  // shown_ points into it
  RunKey shown_for_;
  std::vector<int> shown_ticked_;
  Rebuild<CountKey> recount_;
  Background<Counted> background_;
  Counted counted_;
  std::uint64_t n_counted_ = 0, drawn_count_ = 0;
  Rebuild<Key> rebuild_;
  RunGridOptions drawn_;
};

}  // namespace kvscope::views
