#pragma once
// How long the selected head keeps each token, and what each eviction lost: a row a token.

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "views/figure/lifetimes_figure.h"
#include "views/frame/view.h"
#include "views/frame/view_services.h"
#include "views/imgui_renderer.h"
#include "views/widgets/debounced.h"
#include "views/widgets/rebuild.h"
#include "views/widgets/span_mouse.h"

namespace kvscope::views {

class LifetimesView final : public View {
 public:
  explicit LifetimesView(const ViewServices& services)
      : services_(services), debounced_(services.wake), drawing_(*services.textures) {}
  const char* kind() const override { return "lifetimes"; }
  const char* title() const override { return "Lifetimes"; }
  Place place() const override { return Place::main; }
  void draw(ViewContext& context) override;
  std::optional<ViewFigure> figure(const ViewContext& context) const override;

 private:
  /// Of a head of a run that has ended, whatever part of it is shown. Nothing while it goes on.
  struct Facts {
    std::array<std::vector<TokenLife>, 3> lives;  // of all tokens, in each order
    std::vector<Contest> contests;                // q ascending
  };
  struct FactsKey {
    RunKey run;
    int layer = -1, kv_head = -1;
    bool operator==(const FactsKey&) const = default;
  };
  struct Key {
    RunKey run;
    std::shared_ptr<const Facts> facts;
    LifetimesOptions options;
    float width = 0, height = 0, scale = 0;
    bool dark = false;
    bool operator==(const Key&) const = default;
    /// What the tokens and their order follow from is the same.
    bool same_lives(const Key& other) const;
  };
  static LifetimesOptions options_of(const ViewContext& context);
  static std::string note_on(const RunRecord& run, const LifetimesOptions& options);
  static std::shared_ptr<const Facts> make_facts(const RunRecord& run, int layer, int kv_head);
  std::shared_ptr<const Facts> facts_of(const ShownRun& shown, const LifetimesOptions& options);
  void draw_header(ViewContext& context, const LifetimesOptions& options);
  void build(const ViewContext& context, Key key);
  static std::vector<TokenLife> make_lives(const RunRecord& run, const Key& key);
  void draw_picture(ViewContext& context, ImVec2 room);
  void draw_marks(const ViewContext& context, ImVec2 min, ImVec2 max) const;
  void mark_row(int row, ImVec2 min, ImVec2 max, Colour colour) const;
  void handle_mouse(ViewContext& context, ImVec2 min, ImVec2 max, bool clicked);
  void draw_card(const TokenLife& life, float pitch) const;
  std::string fate_of(const TokenLife& life) const;
  int row_of(std::int32_t token) const;  // -1: it has none
  TokenSpan rows() const { return lifetime_rows(drawn_.options, lives_.size()); }

  ViewServices services_;
  FactsKey facts_key_;
  std::shared_ptr<const Facts> facts_;  // null: being made
  Debounced<FactsKey, std::shared_ptr<const Facts>> debounced_;
  FigureDrawing drawing_;
  Rebuild<Key> rebuild_;
  Key drawn_;  // what the picture, the tokens and the run are of
  std::shared_ptr<const RunRecord> run_;
  std::vector<TokenLife> lives_;  // of all rows
  SpanMouse mouse_;
};

}  // namespace kvscope::views
