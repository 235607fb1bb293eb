#pragma once
// What later queries give the selected token in the selected head, and where A and B evict it.

#include <string>

#include "views/figure/token_attention_figure.h"
#include "views/frame/view.h"
#include "views/frame/view_services.h"
#include "views/imgui_renderer.h"
#include "views/widgets/rebuild.h"
#include "views/widgets/span_mouse.h"

namespace kvscope::views {

class TokenAttentionView final : public View {
 public:
  explicit TokenAttentionView(const ViewServices& services) : services_(services), drawing_(*services.textures) {}
  const char* kind() const override { return "token_attention"; }
  const char* title() const override { return "Attention"; }
  Place place() const override { return Place::main; }
  void draw(ViewContext& context) override;
  std::optional<ViewFigure> figure(const ViewContext& context) const override;

 private:
  struct Key {
    RunKey a, b;
    TokenAttentionOptions options;
    float width, height, scale;
    bool dark;
    bool operator==(const Key&) const = default;
  };
  /// The answer is there, and it is to what is selected.
  static bool answered(const ViewContext& context);
  TokenAttentionOptions options_of(const ViewContext& context) const;
  /// B, if it has the tokens that the attention is of.
  const ShownRun* b_of(const ViewContext& context) const;
  void note(const ViewContext& context, const std::string& text) const;
  void draw_plot(ViewContext& context, const TokenAttentionOptions& options, ImVec2 room);
  void handle_mouse(ViewContext& context, const TokenAttentionOptions& options, ImVec2 origin);

  ViewServices services_;
  FigureDrawing drawing_;
  Rebuild<Key> rebuild_;
  SpanMouse mouse_;
  int scale_ = 0;  // logarithmic, linear
};

}  // namespace kvscope::views
