#pragma once
// What a view is.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "views/figure/figure_options.h"
#include "views/selection/view_state.h"

namespace kvscope::views {

/// Where the given layouts put a view.
enum class Place : std::uint8_t {
  strip,  // over the row
  main,   // in the row, side by side
  side,   // at the right
};

/// What is on screen, for paper: the runs in the order in which build_figure() takes them, or a study.
struct ViewFigure {
  FigureOptions options;
  std::vector<std::shared_ptr<const RunRecord>> runs;
  std::shared_ptr<const StudyTable> study = nullptr;
  std::string study_path = "";
};

/// One view = one class = one file, and each time that it is open one object, with its own look. draw() fills the current ImGui window's content region and does no slow work.
class View {
 public:
  virtual ~View() = default;
  virtual const char* kind() const = 0;   // "layer_head_map"
  virtual const char* title() const = 0;  // "Layer x head map"
  /// The kind, and a number where the kind is open more than once: "layer_head_map.2".
  const std::string& id() const { return id_.empty() ? id_ = kind() : id_; }
  /// Makes it the n-th of its kind, n >= 2.
  void set_number(int n) { id_ = kind() + ("." + std::to_string(n)); }
  virtual Place place() const = 0;
  virtual void draw(ViewContext& context) = 0;
  /// Whether there is anything to see of this context. A view of something else than runs says so where there is no run.
  virtual bool has_content(const ViewContext& context) const { return drawable(context.a); }
  /// The figure that shows what draw() shows of this context; nothing if the view has none or no content.
  virtual std::optional<ViewFigure> figure(const ViewContext&) const { return std::nullopt; }

 private:
  mutable std::string id_;
};

using ViewList = std::vector<std::unique_ptr<View>>;

}  // namespace kvscope::views
