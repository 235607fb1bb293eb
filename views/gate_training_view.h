#pragma once
// Gates while they train: the scores of a held-out text at the steps at which a training has probed it, as it goes on.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/study/table/probe_summary.h"
#include "views/figure/gate_training_figure.h"
#include "views/frame/view.h"
#include "views/frame/view_services.h"
#include "views/imgui_renderer.h"
#include "views/widgets/debounced.h"
#include "views/widgets/rebuild.h"

namespace kvscope::views {

class GateTrainingView final : public View {
 public:
  explicit GateTrainingView(const ViewServices& services)
      : services_(services), drawing_(*services.textures), debounced_(services.wake) {}
  const char* kind() const override { return "gate_training"; }
  const char* title() const override { return "Gates in training"; }
  Place place() const override { return Place::main; }
  void draw(ViewContext& context) override;
  bool has_content(const ViewContext& context) const override;
  std::optional<ViewFigure> figure(const ViewContext& context) const override;

 private:
  using Probes = std::shared_ptr<const ProbeSummary>;
  struct Subject {
    std::shared_ptr<const StudyTable> table;
    std::string source;
    bool operator==(const Subject&) const = default;
  };
  struct Key {
    Probes probes;
    GateTrainingOptions options;
    float width = 0, height = 0, scale = 0;
    bool dark = false;
    bool operator==(const Key&) const = default;
  };
  GateTrainingOptions options_of(const ViewContext& context) const;
  /// Adds the scores up, on a thread where that takes longer than a frame.
  void prepare(const ViewContext& context);
  void take(const ViewContext& context, Probes probes);
  void play(ViewContext& context);
  /// Of the last probe: whichever is the last.
  void show_probe(ViewContext& context, std::size_t probe) const;
  void draw_choices(ViewContext& context);
  void draw_steps(ViewContext& context);
  void draw_picture(ViewContext& context, ImVec2 room);
  void handle_map(const Panel& panel, ImVec2 origin);
  void handle_lines(ViewContext& context, const Panel& panel, ImVec2 origin);
  void handle_text(const Panel& panel, ImVec2 origin);

  ViewServices services_;
  FigureDrawing drawing_;
  Rebuild<Key> rebuild_;
  Rebuild<Subject> rebuild_probes_;
  Debounced<Subject, Probes> debounced_;
  std::vector<std::string> sources_;
  std::shared_ptr<const StudyTable> sources_of_;
  Probes probes_;     // null: not known yet
  std::string path_;  // of their study
  Key drawn_;
  bool playing_ = false;
  double since_step_ = 0;  // seconds
};

}  // namespace kvscope::views
