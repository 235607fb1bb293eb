#pragma once
// What each head keeps: its kept shares as a small profile, and the selected head in A, B and the ticked runs.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/support/background.h"
#include "views/figure/fingerprints_figure.h"
#include "views/frame/view.h"
#include "views/frame/view_services.h"
#include "views/imgui_renderer.h"
#include "views/widgets/rebuild.h"

namespace kvscope::views {

class FingerprintView final : public View {
 public:
  explicit FingerprintView(const ViewServices& services)
      : services_(services), drawing_(*services.textures), background_(services.wake) {}
  const char* kind() const override { return "fingerprints"; }
  const char* title() const override { return "Head fingerprints"; }
  Place place() const override { return Place::main; }
  void draw(ViewContext& context) override;
  std::optional<ViewFigure> figure(const ViewContext& context) const override;

 private:
  struct CountKey {
    std::vector<RunKey> runs;
    std::vector<std::string> labels;
    bool operator==(const CountKey&) const = default;
  };
  struct Key {
    std::uint64_t counted;
    FingerprintOptions options;
    float width, height, scale;
    bool dark;
    bool operator==(const Key&) const = default;
  };
  struct Counted {
    std::vector<ShownRun> runs;
    std::vector<std::shared_ptr<const RunFingerprints>> prints;  // of each
  };
  /// A, B and the ticked runs, those of A's shape.
  static std::vector<ShownRun> runs_of(const ViewContext& context);
  static FingerprintOptions options_of(const ViewContext& context, const std::vector<ShownRun>& runs);
  /// A run that is the same as before is not counted again; more than a frame has time for is counted beside the window.
  static Counted counted(const std::vector<ShownRun>& runs, const Counted& before);
  void count(const std::vector<ShownRun>& runs);
  void draw_header(ViewContext& context);
  void draw_sentence(const FingerprintOptions& options);
  void build(const FingerprintOptions& options, ImVec2 room);
  void draw_heads(ViewContext& context, ImVec2 origin);
  void draw_head_card(const HeadFingerprint& head) const;
  void draw_bin_card(int bin) const;

  ViewServices services_;
  FigureDrawing drawing_;
  Rebuild<CountKey> recount_;
  Rebuild<Key> rebuild_;
  Background<Counted> background_;
  Counted counted_;  // empty until something was counted
  std::uint64_t n_counted_ = 0;
  FingerprintOptions drawn_;
  std::uint64_t drawn_count_ = 0;
  int first_bin_ = 0;  // of the one head's axis
};

}  // namespace kvscope::views
