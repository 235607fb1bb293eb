#pragma once
// What a view is.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "views/figure/figure_options.h"
#include "views/selection/view_state.h"

namespace kvscope::views {

/// Where the window puts a view. Views of one place share it, in the order of the list.
enum class Place : std::uint8_t {
  strip,  // over the whole width of the canvas, at its top
  main,   // below it, side by side
  side,   // the rail at the right, one above the other
};

/// What is on screen, for paper: the runs in the order in which build_figure() takes them, or a study.
struct ViewFigure {
  FigureOptions options;
  std::vector<std::shared_ptr<const RunRecord>> runs;
  std::shared_ptr<const StudyTable> study = nullptr;
  std::string study_path = "";
};

/// One view = one class = one file. draw() fills the current ImGui window's content region and does no slow work.
class View {
 public:
  virtual ~View() = default;
  virtual const char* id() const = 0;     // "layer_head_map"
  virtual const char* title() const = 0;  // "Layer x head map"
  virtual Place place() const = 0;
  virtual void draw(ViewContext& context) = 0;
  /// Whether there is anything to see of this context. A view of something else than runs says so where there is no run.
  virtual bool has_content(const ViewContext& context) const { return drawable(context.a); }
  /// The figure that shows what draw() shows of this context; nothing if the view has none or no content.
  virtual std::optional<ViewFigure> figure(const ViewContext&) const { return std::nullopt; }
};

using ViewList = std::vector<std::unique_ptr<View>>;

}  // namespace kvscope::views
