#pragma once
// A study: its points as the figure draws them, along axes that are chosen here, and what was measured at the selected one,
// whose run can be opened.

#include <optional>
#include <string>
#include <vector>

#include "views/frame/view.h"
#include "views/frame/view_services.h"
#include "views/imgui_renderer.h"
#include "views/widgets/debounced.h"
#include "views/widgets/rebuild.h"
#include "views/widgets/study_choosers.h"
#include "views/widgets/study_point_panel.h"

namespace kvscope::views {

class StudyView final : public View {
 public:
  explicit StudyView(const ViewServices& services)
      : services_(services),
        choosers_(services),
        point_panel_(services),
        drawing_(*services.textures),
        debounced_(services.wake) {}
  const char* kind() const override { return "study"; }
  const char* title() const override { return "Study"; }
  Place place() const override { return Place::main; }
  void draw(ViewContext& context) override;
  bool has_content(const ViewContext& context) const override { return context.study() != nullptr; }
  std::optional<ViewFigure> figure(const ViewContext& context) const override;

 private:
  struct Key {
    std::shared_ptr<const StudyTable> table;
    FigureOptions options;
    float width = 0, height = 0, scale = 0;
    bool dark = false;
    bool operator==(const Key&) const = default;
  };
  struct Picture {
    Figure figure;
    std::vector<DrawnPoint> points;
    std::string refused;  // why there is none
  };
  /// Of the study on show; looked up anew when the look is another.
  const FigureOptions& options_of(const ViewContext& context) const;
  static Picture make(const Key& key, const FigureStyle& style);
  /// Whether a picture is there: a large one is made on a separate thread.
  bool build(const Key& key);
  void draw_picture(ViewContext& context, ImVec2 room);
  void handle_mouse(ViewContext& context, ImVec2 origin);
  void ring(ImVec2 origin, const DrawnPoint& point, float width) const;
  std::string describe(const StudyTable& study, const DrawnPoint& point) const;

  ViewServices services_;
  StudyChoosers choosers_;
  StudyPointPanel point_panel_;
  FigureDrawing drawing_;
  std::vector<DrawnPoint> points_;
  std::string refused_;
  Rebuild<Key> rebuild_;
  Debounced<Key, Picture> debounced_;
  bool drawn_ = false;
  mutable std::shared_ptr<const StudyTable> known_table_;
  mutable StudyLook known_look_;
  mutable FigureOptions known_options_;
};

}  // namespace kvscope::views
