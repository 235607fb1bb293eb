#pragma once
// The oracle's verdicts on all evictions of the shown runs, made on a thread where they take longer than a frame.

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/core/study/heads/span_loss.h"
#include "views/frame/view_services.h"
#include "views/widgets/debounced.h"
#include "views/widgets/rebuild.h"

namespace kvscope::views {

/// Of each run in its order. Runs that go on and runs without an oracle have none.
struct Judged {
  std::vector<RunKey> keys;
  std::vector<std::shared_ptr<const EvictionVerdicts>> verdicts;  // never null
  std::vector<Eviction> worst;                                    // of the first run
};

class JudgedRuns {
 public:
  static constexpr int kMisses = 50;

  explicit JudgedRuns(const ViewServices& services) : debounced_(services.wake) {}
  /// Null while they are being made.
  std::shared_ptr<const Judged> of(std::span<const ShownRun> runs);

 private:
  using Answer = std::shared_ptr<const Judged>;
  std::vector<RunKey> keys_;
  Answer last_;
  Debounced<std::vector<RunKey>, Answer> debounced_;
};

}  // namespace kvscope::views
