#pragma once
// The values of a layer x head map of what is on show, counted again when the runs, the query or the metric are others; more
// than a frame has time for is counted beside the window.

#include <memory>
#include <optional>
#include <vector>

#include "engine/core/support/background.h"
#include "views/figure/layer_head_map_figure.h"
#include "views/frame/view_services.h"
#include "views/selection/view_state.h"
#include "views/widgets/rebuild.h"

namespace kvscope::views {

// Of several runs.
std::vector<RunKey> keys_of(const std::vector<ShownRun>& shown);
std::vector<std::shared_ptr<const RunRecord>> records_of(const std::vector<ShownRun>& shown);
std::vector<const RunRecord*> pointers_to(const std::vector<std::shared_ptr<const RunRecord>>& runs);
/// Whether the metric's maps of these runs are counted within a frame, some 20 ms: a mean over queries looks at every lifetime
/// once for each of them.
bool is_counted_at_once(const std::vector<std::shared_ptr<const RunRecord>>& runs, Metric metric);

class CountedMaps {
 public:
  explicit CountedMaps(const ViewServices& services) : background_(services.wake) {}

  /// Of these runs, which are there. Throws what layer_head_maps() throws.
  void update(const std::vector<ShownRun>& runs, const LayerHeadMapOptions& options);
  bool empty() const { return !counted_; }
  /// What update() counted last, which may be what was on show before. Not while empty().
  const LayerHeadMaps& maps() const { return counted_->maps; }
  std::vector<const RunRecord*> runs() const;
  /// The look of `now` on what these values are of: a thumb that is dragged never waits for them.
  LayerHeadMapOptions with_look(LayerHeadMapOptions now) const;
  /// Rises with every count.
  std::uint64_t n() const { return n_; }

 private:
  struct Key {
    std::vector<RunKey> runs;
    Metric metric;
    std::int32_t q;
    MapCompare compare;
    Aggregate aggregate;
    bool operator==(const Key&) const = default;
  };
  using Runs = std::vector<std::shared_ptr<const RunRecord>>;
  struct Counted {
    LayerHeadMapOptions options;
    LayerHeadMaps maps;
    Runs runs;
  };
  void take(Counted counted);

  Rebuild<Key> recount_;
  Background<Counted> background_;
  std::optional<Counted> counted_;
  std::uint64_t n_ = 0;
};

}  // namespace kvscope::views
