#pragma once
// What the shown query could not see: the attention that it would give evicted tokens.

#include <memory>
#include <string>
#include <vector>

#include "views/figure/unseen_tokens_figure.h"
#include "views/frame/view.h"
#include "views/frame/view_services.h"
#include "views/imgui_renderer.h"
#include "views/widgets/debounced.h"
#include "views/widgets/rebuild.h"
#include "views/widgets/span_mouse.h"
#include "views/widgets/unseen_list.h"

namespace kvscope::views {

class UnseenTokensView final : public View {
 public:
  explicit UnseenTokensView(const ViewServices& services)
      : services_(services), drawing_(*services.textures), debounced_(services.wake), list_(services) {}
  const char* kind() const override { return "unseen_tokens"; }
  const char* title() const override { return "Unseen tokens"; }
  Place place() const override { return Place::main; }
  void draw(ViewContext& context) override;
  std::optional<ViewFigure> figure(const ViewContext& context) const override;

 private:
  using Unseen = std::shared_ptr<const UnseenAttention>;
  /// What the numbers are of.
  struct Subject {
    RunKey run;
    std::shared_ptr<const QueryAttention> attention;
    HeadScope scope;
    bool operator==(const Subject&) const = default;
  };
  struct Key {
    RunKey run;
    UnseenTokensOptions options;
    float width, height, scale;
    bool dark;
    bool operator==(const Key&) const = default;
  };
  static HeadScope scope_of(const ViewContext& context);
  /// The engine's answer, if there is one that the run has the layers, heads and tokens of.
  static std::shared_ptr<const QueryAttention> answer_of(const ViewContext& context);
  static UnseenTokensOptions options_of(const ViewContext& context, Unseen unseen);
  /// Adds up, on a thread where that takes longer than a frame.
  void prepare(const ViewContext& context);
  void take(const ViewContext& context, const Subject& subject, Unseen unseen);
  void draw_header(ViewContext& context);
  /// Why there is no picture; empty if there is one.
  std::string why_none(const ViewContext& context) const;
  void draw_picture(ViewContext& context, ImVec2 room);
  void handle_bars(ViewContext& context, ImVec2 origin, bool hovered);
  void handle_map(ViewContext& context, ImVec2 origin, bool hovered);
  void draw_card(const ViewContext& context, TokenSpan tokens) const;

  ViewServices services_;
  FigureDrawing drawing_;
  Rebuild<Key> rebuild_;
  Rebuild<Subject> rebuild_unseen_;
  Debounced<Subject, Unseen> debounced_;
  Unseen unseen_;                               // null: not known yet
  std::shared_ptr<const RunRecord> unseen_of_;  // the run
  Subject subject_;                             // what it was asked for
  std::string sentence_;
  std::vector<std::int32_t> missing_;
  UnseenTokensOptions drawn_;
  std::shared_ptr<const RunRecord> drawn_of_;
  UnseenList list_;
  SpanMouse mouse_;
};

}  // namespace kvscope::views
