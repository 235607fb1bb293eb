#pragma once
// Runs of the table as dots, what came of each against what its cache cost, along axes that are chosen over it.

#include <span>
#include <string>
#include <vector>

#include "views/figure/run_points_figure.h"
#include "views/frame/view_services.h"
#include "views/imgui_renderer.h"
#include "views/selection/view_state.h"
#include "views/widgets/rebuild.h"

namespace kvscope::views {

/// A row of the table of runs.
struct RunRow {
  const ListedRun* run;
  const RunMeasures* measures;  // null: not known yet, or the run goes on
  bool ticked;
  bool is_awaited() const {
    return measures == nullptr && run->run->status != RunStatus::running && run->run->n_tokens() > 0;
  }
};
/// "3 KVpop 25 %", as the list has it.
std::string name_of(const ListedRun& run);
/// Four digits, bytes as "9.34 MiB"; "–" where there is none.
std::string number_of(RunMeasure measure, double value);

/// segmented() of some of the measures, with their definitions.
void choose_measure(const ViewServices& services, const char* item, std::span<const RunMeasure> measures,
                    RunMeasure& chosen, int most_rows);

class RunChart {
 public:
  explicit RunChart(const ViewServices& services) : services_(services), drawing_(*services.textures) {}
  /// The ticked rows, or all if none is. Items "run_table.y.0" ..., "run_table.x.0" ...,
  /// "run_table.point.ID", "run_table.hover", "run_table.refusal".
  void draw(ViewContext& context, const std::vector<RunRow>& rows, ImVec2 size);

 private:
  struct Key {
    std::vector<int> ids;  // of the runs that are known
    std::vector<RunKey> runs;
    RunPointsOptions options;
    float width, height, scale;
    bool dark;
    bool operator==(const Key&) const = default;
  };
  void draw_choices(RunTableLook& look);
  void build(const ViewContext& context, const std::vector<RunRow>& rows, ImVec2 room);
  void handle_mouse(ViewContext& context, ImVec2 origin);

  ViewServices services_;
  FigureDrawing drawing_;
  Rebuild<Key> rebuild_;
  std::vector<DrawnPoint> points_;     // DrawnPoint::point.row: of drawn_ids_
  std::vector<MeasuredRun> measured_;  // of drawn_ids_
  std::vector<int> drawn_ids_;
  std::string refused_;  // why there is no chart
};

}  // namespace kvscope::views
