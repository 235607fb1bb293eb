#pragma once
// The head board: which heads of a hybrid are global and which local, chosen by hand or by a strategy, with what that choice
// takes and covers, and what it costs once it was measured.

#include <optional>
#include <string>
#include <vector>

#include "engine/core/study/heads/hybrid_prediction.h"
#include "engine/core/support/background.h"
#include "views/frame/view.h"
#include "views/frame/view_services.h"
#include "views/imgui_renderer.h"
#include "views/selection/head_choice.h"
#include "views/widgets/counted_maps.h"
#include "views/widgets/head_brush.h"
#include "views/widgets/rebuild.h"

namespace kvscope::views {

class HeadBoardView final : public View {
 public:
  explicit HeadBoardView(const ViewServices& services)
      : services_(services), drawing_(*services.textures), counted_(services), counting_(services.wake) {}
  const char* kind() const override { return "head_board"; }
  const char* title() const override { return "Head board"; }
  Place place() const override { return Place::main; }
  void draw(ViewContext& context) override;
  std::optional<ViewFigure> figure(const ViewContext& context) const override;

 private:
  struct PictureKey {
    std::uint64_t counted;
    LayerHeadMapOptions options;
    float width, height, scale;
    bool dark;
    bool operator==(const PictureKey&) const = default;
  };
  struct FactsKey {
    std::uint64_t entries;
    HeadSet global;
    std::string rule;
    double share;
    int seed;
    bool operator==(const FactsKey&) const = default;
  };
  struct PredictionKey {
    std::shared_ptr<const StudyTable> study;
    HeadSet global;
    std::string weights;
    bool operator==(const PredictionKey&) const = default;
  };
  struct Entries {
    std::vector<std::int64_t> of_heads;
    std::shared_ptr<const RunRecord> run;
  };
  struct Said {
    const char* item;
    Colour colour;
    std::string text, brief;
  };
  LayerHeadMapOptions options_of(const ViewContext& context) const;
  /// Counts the long-range entries of the run on show; false until they are known.
  bool count_entries(const ViewContext& context);
  void fill(HeadBoard& board, HeadStrategy strategy);
  void draw_strategies(ViewContext& context);
  void draw_numbers(ViewContext& context);
  void draw_facts(const ViewContext& context);
  void draw_measured(const ViewContext& context);
  void draw_sentences(ViewContext& context);
  void draw_predicted(const ViewContext& context);
  void draw_board(ViewContext& context);
  void say(const char* item, Colour colour, const std::string& text, const std::string& brief = {});
  void draw_in_two_lines();

  ViewServices services_;
  FigureDrawing drawing_;
  CountedMaps counted_;
  Background<Entries> counting_;
  Rebuild<RunKey> recount_;
  std::optional<Entries> entries_;
  std::uint64_t n_entries_ = 0;
  Rebuild<FactsKey> refact_;
  HeadSelection selection_;
  std::optional<PredictionKey> predicted_;  // what prediction_ is of; of some tens of points, so at once
  std::optional<HybridPrediction> prediction_;
  Rebuild<PictureKey> rebuild_;
  HeadBrush brush_;
  std::string refused_;  // why a strategy chose nothing
  bool brief_ = false;   // there is no room for whole sentences
  bool tiny_ = false;    // nor for more than two lines of them
  std::vector<Said> said_;
  float sentences_ = 0;       // height that they took at most, pixels
  float sentences_room_ = 0;  // in this width
};

}  // namespace kvscope::views
