#pragma once
// What the heads that were marked on the map come to, beside all heads.

#include <optional>
#include <string>
#include <vector>

#include "views/frame/view_services.h"
#include "views/selection/view_state.h"
#include "views/widgets/debounced.h"
#include "views/widgets/rebuild.h"  // RunKey

namespace kvscope::views {

class MarkedHeads {
 public:
  explicit MarkedHeads(const ViewServices& services) : debounced_(services.wake) {}
  struct Row {
    std::string metric;       // title
    std::string label;        // with what it counts: "Density (incl. sinks)"
    std::string marked, all;  // "0.31", "0.25"
  };
  struct Rows {
    std::vector<Row> a, b;
  };
  /// The mean of each metric that needs no oracle, and of the map's, over the marked heads that have a value, and over all: of
  /// A and of `b`, which has A's heads and is seen at q_b, by the oracle that both are judged by; b may be null. Counted on a
  /// separate thread: nothing until then.
  std::optional<Rows> rows(const ViewContext& context, const ShownRun* b, std::int32_t q_b);

 private:
  struct Key {
    RunKey a, b;
    std::int32_t q, q_b;
    Metric metric;
    HeadSet heads;
    bool operator==(const Key&) const = default;
  };
  Debounced<Key, Rows> debounced_;
};

/// NaN if none of them has a value.
double mean_over(const HeadMap& map, const HeadSet& heads);

}  // namespace kvscope::views
