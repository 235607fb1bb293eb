#pragma once
// Where the answers of A and B differ, and what each cache had lost where they diverge.

#include <memory>
#include <string>
#include <string_view>

#include "views/figure/answer_difference_figure.h"
#include "views/figure/parting_panel.h"
#include "views/frame/view.h"
#include "views/frame/view_services.h"
#include "views/imgui_renderer.h"
#include "views/widgets/debounced.h"
#include "views/widgets/rebuild.h"

namespace kvscope::views {

class AnswerDifferenceView final : public View {
 public:
  explicit AnswerDifferenceView(const ViewServices& services)
      : services_(services), drawing_(*services.textures), debounced_(services.wake) {}
  const char* kind() const override { return "answer_difference"; }
  const char* title() const override { return "Answer difference"; }
  Place place() const override { return Place::main; }
  void draw(ViewContext& context) override;
  std::optional<ViewFigure> figure(const ViewContext& context) const override;

 private:
  using Lost = std::shared_ptr<const LostOfBoth>;
  struct PairKey {
    RunKey a, b;
    bool operator==(const PairKey&) const = default;
  };
  /// The runs that the answers are of: those on show may have grown since.
  struct Compared {
    PairKey key;
    std::shared_ptr<const RunRecord> a, b;
    ComparedAnswers answers;
  };
  /// What is lost at a query stays as it is while the runs go on; its masses come when they end.
  struct LostKey {
    PairKey ended;  // of runs that have ended
    std::string started_a, started_b;
    std::int32_t q = -1;
    bool operator==(const LostKey&) const = default;
  };
  struct PictureKey {
    PairKey runs;
    Lost lost;
    AnswerDifferenceOptions options;
    float width, height, scale;
    bool dark;
    bool operator==(const PictureKey&) const = default;
  };
  /// Why there is nothing to compare, and what to do; empty if there is something.
  static std::string why_nothing(const ViewContext& context);
  AnswerDifferenceOptions options_of(const ViewContext& context) const;
  void compare(const ViewContext& context);
  void count_lost(const ViewContext& context);
  /// The difference at the selected query; where it is out of sight the text moves.
  void keep_in_sight(const ViewContext& context);
  void draw_header(ViewContext& context);
  void draw_picture(ViewContext& context, ImVec2 room);
  void build(const PictureKey& key);
  void draw_marks(const ViewContext& context, ImVec2 origin) const;
  bool is_marked(const Selection& selection, std::string_view panel) const;
  void handle_mouse(ViewContext& context, ImVec2 origin);
  void scroll(float notches, double width);
  void click(ViewContext& context, std::string_view panel);
  PartingNumbers numbers() const;

  ViewServices services_;
  FigureDrawing drawing_;
  Rebuild<PairKey> rebuild_answers_;
  Rebuild<PictureKey> rebuild_picture_;
  Debounced<LostKey, Lost> debounced_;
  Compared compared_;
  LostKey lost_key_;
  Lost lost_;  // null: being counted, or the caches are not compared
  AnswerDifferenceOptions drawn_;
  int in_sight_ = -1, first_ = -1;        // difference; where the text was scrolled to, -1: nowhere
  int shown_begin_ = 0, shown_end_ = -1;  // tokens of the joint text in the picture
};

}  // namespace kvscope::views
