#pragma once
// All runs of the list as a table that sorts, and the ticked ones as dots: what came of them against what their cache cost.

#include <optional>
#include <string>
#include <vector>

#include "views/frame/view.h"
#include "views/frame/view_services.h"
#include "views/run_chart.h"

namespace kvscope::views {

class RunTableView final : public View {
 public:
  explicit RunTableView(const ViewServices& services) : services_(services), chart_(services) {}
  const char* kind() const override { return "run_table"; }
  const char* title() const override { return "Runs"; }
  Place place() const override { return Place::main; }
  void draw(ViewContext& context) override;
  bool has_content(const ViewContext& context) const override;
  std::optional<ViewFigure> figure(const ViewContext& context) const override;

 private:
  /// In the order of the table; what is not counted yet is asked for with_measures.
  std::vector<RunRow> rows_of(const ViewContext& context, bool with_measures) const;
  void draw_table(ViewContext& context, const std::vector<RunRow>& rows, ImVec2 size);
  void draw_headers(ViewContext& context);
  void draw_row(ViewContext& context, const RunRow& row);
  void draw_marks(ViewContext& context, const RunRow& row);
  void draw_name(ViewContext& context, const RunRow& row);
  void draw_number(const RunRow& row, RunMeasure measure);

  ViewServices services_;
  RunChart chart_;
};

}  // namespace kvscope::views
