#pragma once
// Which heads stay global in a hybrid: chosen by one of SP-KV's strategies, with the coverage that recorded runs give it.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/policy/head_strategy.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/support/error.h"

namespace kvscope {

/// What is asked for. C and D take `count` heads, or round(share * heads), or a quarter of them; A and B are asked for no
/// number. Where nothing is asked for at all, runs of one hybrid give back the heads that they ran with.
struct HeadQuestion {
  std::optional<HeadStrategy> strategy = {};  // D unless said
  std::optional<double> share = {};           // of all KV heads, 0 to 1
  std::optional<int> count = {};              // KV heads
  std::optional<std::uint64_t> seed = {};     // of C
};

/// All heads keep the same number of tokens: a tie would choose.
class NoRanking : public Error {
 public:
  /// `retained`: tokens outside the window, of each head.
  NoRanking(Parts parts, std::int64_t retained) : Error(std::move(parts)), retained_(retained) {}
  /// For a window: "All heads keep 162 tokens here, so there is no ranking. ..."
  std::string sentence() const;

 private:
  std::int64_t retained_;
};

struct HeadSelection {
  int n_layers = 0, n_kv_heads = 0;
  std::vector<float> full = {};  // [n_layers][n_kv_heads] 1 for a global (full-attention) head, 0 for a local one
  double coverage = 0;           // retained long-range entries in the chosen heads / all of them; NaN for 0 / 0
  std::string rule = {};         // "d", a strategy, or "run": the heads of the runs' own policy
  std::vector<int> tied = {};  // layer * n_kv_heads + kv_head of heads equal at the cut, which the order decided; of D
  int n_tied_chosen = 0;       // how many of them are global
  /// Of D: kinds of the scorers (gate_file.h) whose scores were cut at one threshold for all heads to make the density.
  std::vector<std::string> thresholded = {};

  int n_heads() const { return n_layers * n_kv_heads; }
  int n_selected() const;
};

/// Chooses heads of the model that all runs are of. A long-range entry of a head is a token t <= q - window that is
/// visible at q, the run's last query; sinks outside the window count, as in Metric::density. Entries are summed over
/// the runs; the sum orders heads for D, ties to the lower layer, then the lower head.
///
/// Throws Error for D where all heads retain equally many (of a fixed budget): a tie would decide; for no runs, runs of
/// two shapes, and a question that contradicts itself.
HeadSelection choose_heads(const std::vector<const RunRecord*>& runs, const HeadQuestion& question);

/// [n_layers * n_kv_heads] long-range entries of each head, as choose_heads() counts them. Throws Error for no runs and runs
/// of two shapes.
std::vector<std::int64_t> long_range_entries(const std::vector<const RunRecord*>& runs);
/// The same choice where these were counted before, which is what it costs.
HeadSelection choose_heads(const std::vector<const RunRecord*>& runs, const std::vector<std::int64_t>& entries,
                           const HeadQuestion& question);
/// Retained long-range entries in heads that are not local / all of them; NaN for 0 / 0.
double coverage_of(const std::vector<std::int64_t>& entries, const std::vector<std::uint8_t>& local);

/// "6 of 24 heads global, share 0.25"
std::string describe_count(const HeadSelection& selection);
/// "6 of 24 heads global, share 0.25, coverage 43.21 % of the kept long-range entries"; where there is little room, without
/// what the coverage is of.
std::string describe(const HeadSelection& selection, bool brief = false);

/// Sinks and window of the local heads: those that all runs have.
struct LocalSizes {
  int n_sink = 0, window = 0;
};
/// What the cache of a hybrid takes at a length, keys and values.
struct HybridBytes {
  std::int64_t bytes = 0, dense = 0;  // dense: with every head global
};
/// `context`: tokens; a local head holds sinks and window of them. Of the run's head dimension and dtype; 0 for a model that
/// does not say them.
HybridBytes hybrid_bytes(const ModelInfo& model, const std::vector<std::uint8_t>& local, const LocalSizes& sizes,
                         std::int64_t context);
/// What is given stands. Throws Error (usage) if the runs have different ones and none are given.
LocalSizes local_sizes(const std::vector<const RunRecord*>& runs, std::optional<int> n_sink, std::optional<int> window);

}  // namespace kvscope
