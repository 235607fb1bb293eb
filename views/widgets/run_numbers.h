#pragma once
// The recall of the whole runs on show, each by its own oracle: the number that a run has in the list, in its figures and in
// `kvscope inspect`, whatever head or query is looked at and whatever it is compared with.

#include <optional>

#include "engine/core/study/measure/oracle.h"
#include "views/frame/view_services.h"
#include "views/selection/view_state.h"
#include "views/widgets/debounced.h"
#include "views/widgets/rebuild.h"

namespace kvscope::views {

class RunNumbers {
 public:
  explicit RunNumbers(const ViewServices& services) : services_(services), debounced_(services.wake) {}
  /// Items "inspector.run recall", "inspector.run chance", "inspector.run above chance", each with ".b" for B's. Nothing of runs
  /// without an oracle, or while one goes on.
  void draw(const ShownRun& a, const ShownRun* b);

 private:
  struct Key {
    RunKey a, b;
    bool operator==(const Key&) const = default;
  };
  struct Means {
    OracleMean a, b;
  };
  ViewServices services_;
  Debounced<Key, Means> debounced_;
};

}  // namespace kvscope::views
