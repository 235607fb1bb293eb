#pragma once
// Why a fact was lost: which heads of each run still have the marked span, and the evictions that cost most.

#include <memory>
#include <string>
#include <vector>

#include "views/figure/lost_fact_figure.h"
#include "views/frame/view.h"
#include "views/frame/view_services.h"
#include "views/imgui_renderer.h"
#include "views/widgets/judged_runs.h"
#include "views/widgets/miss_list.h"
#include "views/widgets/rebuild.h"
#include "views/widgets/span_mouse.h"

namespace kvscope::views {

class LostFactView final : public View {
 public:
  explicit LostFactView(const ViewServices& services)
      : services_(services),
        judged_(services),
        drawing_(*services.textures),
        debounced_(services.wake),
        misses_(services) {}
  const char* kind() const override { return "lost_fact"; }
  const char* title() const override { return "Lost fact"; }
  Place place() const override { return Place::main; }
  void draw(ViewContext& context) override;
  std::optional<ViewFigure> figure(const ViewContext& context) const override;

 private:
  /// The span, and the runs that read it, A first. Without a span A alone.
  struct Subject {
    TokenSpan span;
    std::vector<ShownRun> runs;
  };
  struct Key {
    std::vector<RunKey> runs;
    std::shared_ptr<const Judged> judged;
    LostFactOptions options;
    float width, height, scale;
    bool dark;
    bool operator==(const Key&) const = default;
  };
  struct Picture {
    Figure figure;
    std::vector<LostFactRun> runs;
  };
  struct SentenceKey {
    RunKey run;
    TokenSpan span;
    std::shared_ptr<const Judged> judged;
    bool operator==(const SentenceKey&) const = default;
  };
  static Subject subject_of(const ViewContext& context);
  static LostFactOptions options_of(const ViewContext& context, const Subject& subject);
  /// Why there is no picture; empty if there is one.
  static std::string refusal(const RunRecord& run, TokenSpan span);
  void draw_header(ViewContext& context, const Subject& subject, const std::string& why);
  void draw_strip(ViewContext& context, const Subject& subject, ImVec2 room);
  bool build(const Subject& subject, const Key& key);
  void take(Picture picture, const Subject& subject, const Key& key);
  TokenSpan queries_drawn() const;
  static ImVec2 corner(ImVec2 origin, double x, double y);
  void draw_marks(const ViewContext& context, ImVec2 origin) const;
  void handle_mouse(ViewContext& context, ImVec2 origin);
  void draw_card(std::size_t run, const HeadSpan& head, int q) const;

  ViewServices services_;
  JudgedRuns judged_;
  FigureDrawing drawing_;
  Rebuild<Key> rebuild_;
  Rebuild<SentenceKey> rebuild_sentence_;
  std::string sentence_;
  Debounced<Key, std::shared_ptr<const Picture>> debounced_;
  std::shared_ptr<const Judged> verdicts_;  // of this frame; null: being made
  std::vector<LostFactRun> lost_;           // as the picture has them
  std::vector<ShownRun> drawn_runs_;
  LostFactOptions drawn_;
  MissList misses_;
  SpanMouse mouse_;
};

}  // namespace kvscope::views
