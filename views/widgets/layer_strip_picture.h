#pragma once
// The picture of the layers x tokens strip, made beside the window: what is there is drawn where it belongs, zoomed or
// moved, until what is asked for is there.

#include <imgui.h>

#include <atomic>
#include <chrono>
#include <cstdint>

#include "engine/core/support/background.h"
#include "views/figure/colormap.h"
#include "views/figure/token_span.h"
#include "views/frame/view_services.h"
#include "views/widgets/heat_map.h"
#include "views/widgets/rebuild.h"

namespace kvscope::views {

class LayerStripPicture {
 public:
  explicit LayerStripPicture(const ViewServices& services);
  ~LayerStripPicture();
  LayerStripPicture(const LayerStripPicture&) = delete;
  LayerStripPicture& operator=(const LayerStripPicture&) = delete;

  /// What the frame wants to show, `columns` pixels wide. A picture of few lifetimes is made here and now, others on a
  /// thread, first of what is shown and then of the whole run, so that zooming out finds something.
  void ask(const ShownRun& shown, std::int32_t q, TokenSpan span, int columns);
  void draw(ImDrawList& list, ImVec2 min, ImVec2 max, TokenSpan shown) const;
  /// Whether what was asked for last is what is drawn.
  bool is_current() const { return detail_.key == wanted_; }
  /// Lifetimes that ask() itself looked at, all in all; for tests.
  std::int64_t n_looked_at() const { return looked_at_; }

  static constexpr std::int64_t kAtOnce = 1 << 20;  // lifetimes: half a millisecond

 private:
  using Clock = std::chrono::steady_clock;
  struct Key {
    RunKey run;
    std::int32_t q = -1;
    TokenSpan span;
    int columns = 0;
    Colormap colours = Colormap::viridis;
    bool operator==(const Key&) const = default;
  };
  struct Job {
    Key key;
    std::shared_ptr<const RunRecord> run;
    bool overview;
  };
  struct Done {
    Job job;
    Image image;
    Clock::duration cost;
  };
  struct Layer {
    Key key;
    HeatMap map;
  };
  void take_done();
  void post(Job job);
  static std::int64_t cost(const RunRecord& run, TokenSpan span);
  static Image make(const Job& job, const std::atomic<bool>* stop);
  void show(Layer& layer, const Key& key, const Image& image);
  bool is_due(const Key& key, bool follows) const;

  ViewServices services_;
  Layer detail_, overview_;
  Key wanted_;
  std::int64_t looked_at_ = 0;
  Clock::time_point finished_{};
  Clock::duration cost_{};
  std::atomic<bool> stop_ = false;
  Background<Done> background_;  // last: its thread ends before what its jobs refer to
};

}  // namespace kvscope::views
