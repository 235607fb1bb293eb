#pragma once
// When a picture is made again: when what it shows changed, and not more often than its own cost allows.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>

#include "views/selection/view_state.h"

namespace kvscope::views {

/// Which state of which run a picture shows. Compared by owner: another run at the same address is not the same run.
struct RunKey {
  std::weak_ptr<const RunRecord> run;
  std::uint64_t revision = 0;
  RunKey() = default;
  explicit RunKey(const ShownRun* shown) {
    if (shown != nullptr) run = shown->run, revision = shown->revision;
  }
  bool operator==(const RunKey& other) const {
    return revision == other.revision && !run.owner_before(other.run) && !other.run.owner_before(run);
  }
};

/// A picture stayed as it was for its cost: somebody has to draw another frame then, though nothing happens in between. A
/// frame before it has nothing new to show.
inline constexpr auto kNoRedraw = std::chrono::steady_clock::time_point::max();
inline std::chrono::steady_clock::time_point redraw_at = kNoRedraw;
inline void want_frame(std::chrono::steady_clock::time_point at = {}) { redraw_at = std::min(redraw_at, at); }

/// Key is a struct with operator==. A picture that took t milliseconds to make is made again after 4 t at the earliest,
/// so that scrubbing through a huge run costs a fifth of the frames' time, and a small one follows at once.
template <typename Key>
class Rebuild {
 public:
  /// True if the picture of `key` must be made now; then call done() after it. `at_once`: what is there is of no use.
  bool due(const Key& key, bool at_once = false) {
    if (valid_ && !at_once && key == key_) return false;
    const auto now = Clock::now();
    if (valid_ && !at_once && now - finished_ < 4 * cost_) {
      want_frame(finished_ + 4 * cost_);
      return false;
    }
    key_ = key;
    started_ = now;
    return true;
  }
  void done() {
    valid_ = true;
    finished_ = Clock::now();
    cost_ = finished_ - started_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  bool valid_ = false;
  Key key_{};
  Clock::time_point started_{}, finished_{};
  Clock::duration cost_{};
};

}  // namespace kvscope::views
