#pragma once
// A study of hybrid heads (SP-KV section 4): a signal for each head, choices by it, and what each choice costs.

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "app/studies/hybrid/hybrid_engine.h"

namespace kvscope::app {

struct HybridPoint {
  std::string strategy, label;  // "d", "d:27"; of c with the seed, "c:27:1"
  std::optional<std::uint64_t> seed = {};
  int count = 0;                 // heads that were asked for; of layers there may be others
  GlobalHeads heads = {};        // empty of the gate's own policy and of budgets
  HeadValues shares = {};        // of budgets: what was asked of each head,
  HeadValues kept = {};          // and the share that came of it, mean over the pieces
  std::vector<double> nll = {};  // of each piece
  double turnover_pieces = std::numeric_limits<double>::quiet_NaN();
  double turnover_again = std::numeric_limits<double>::quiet_NaN();
  HeadValues again = {};  // the signal under these heads
  HybridEngine::Answers answers = {};
  /// Whether heads are neither global nor local, but keep what a gate admits.
  bool is_gated() const { return heads.empty(); }
};

struct HybridStudy {
  HeadSignal signal;
  std::optional<HeadSignal> density;  // of the gate's policy, if there is one
  std::vector<HybridPoint> points;
};

/// The points that `counts` give: dense, local, the gate's policy, then each strategy at each count. Heads are chosen later.
std::vector<HybridPoint> planned_points(const HybridPlan& plan, const HeadShape& shape, const std::vector<int>& counts);

/// The label that --point means: itself, or "d:30%" of a share. Throws Error (usage) that lists the points.
std::string label_of(const std::string& point, const std::vector<HybridPoint>& points, const HeadShape& shape);

/// The values of the plan's head directory. Throws Error for one that does not fit the model.
HeadSignal signal_of_file(const HybridPlan& plan, const HeadShape& shape);

/// Whether the signal can be measured while heads are local; why not, if it cannot.
std::optional<std::string> why_not_again(SignalKind signal);

/// Passes over a piece that the study takes at most: choices that turn out the same are measured once.
int n_passes(const HybridPlan& plan, const HeadShape& shape, int n_pieces, const std::vector<HybridPoint>& points);

/// Measures what the engine's journal does not have. Throws Error; what was measured until then is in the journal.
HybridStudy run_hybrid(const HybridPlan& plan, HybridEngine& engine, std::vector<HybridPoint> points);

}  // namespace kvscope::app
