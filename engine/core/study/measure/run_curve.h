#pragma once
// What a run is at every position, as few points: negative log-likelihood, tokens and bytes in the cache, how full its pages
// are, density, recall, output error, each as a mean over heads (or layers) with their spread, or as the difference of two runs of the same tokens.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/core/record/run_record.h"
#include "engine/core/study/measure/oracle.h"

namespace kvscope {

enum class RunQuantity : std::uint8_t { nll, cached, density, recall, output_error, cache_bytes, page_occupancy };

struct RunQuantityInfo {
  RunQuantity quantity;
  std::string_view name;        // "nll"
  std::string_view title;       // "NLL"
  std::string_view unit;        // "nats per token"; empty for a share
  std::string_view definition;  // in words
  std::string_view spread_of;   // "KV heads": what low and high go over; empty for one value a position
};
std::span<const RunQuantityInfo> run_quantities();
const RunQuantityInfo& info_of(RunQuantity quantity);

/// Positions first ... last as one point.
struct CurvePoint {
  std::int32_t first = 0, last = 0;
  int n = 0;                 // positions of these that have a value
  double mean = 0;           // over parts, of each part's mean over these positions; of recall over all pairs of part
                             // and position that have a value. NaN without one
  double low = 0, high = 0;  // quartiles over the parts of the same
  double least = 0, greatest = 0;  // of these positions, each its mean over the parts: what `mean` hides
  std::int64_t pairs = 0;          // of part and position that have a value
};
struct RunCurve {
  std::vector<CurvePoint> points;  // ascending, without gaps
  double mean = 0;                 // as that of a point: of recall and a whole run it is mean_of(Oracle).recall
  int n_parts = 0;                 // heads, layers, or 1
  OracleMean oracle{};             // of recall over the same pairs; else n is 0
};

/// Positions first ... first + count - 1; count 0: to the run's end.
struct CurvePart {
  std::int32_t first = 0, count = 0;
};

/// At most `n_points` points over the part's positions, as even as they go. A part that reaches over the run's end is divided
/// as if the run went on, and ends with the run: runs of two lengths have the same points as far as both go. Of a position
/// whose query was not made, or that has no value, there is none. O(parts * n log n) for recall, whatever the part, O(parts * n)
/// else, n up to the part's end.
/// `heads`: layer * n_kv_heads + kv_head of those that count, ascending; empty: all. Output error, which layers have, is that
/// of the layers of these heads; the NLL is the run's.
RunCurve run_curve(const RunRecord& run, RunQuantity quantity, int n_points, std::span<const int> heads = {},
                   CurvePart part = {});
/// B - A, part by part and position by position, over the tokens that both have in common from the start. Throws Error
/// (bad input) for runs of different shapes.
RunCurve run_curve_difference(const RunRecord& a, const RunRecord& b, RunQuantity quantity, int n_points,
                              std::span<const int> heads = {}, CurvePart part = {});
/// What it will cost, in values looked at.
std::int64_t run_curve_cost(const RunRecord& run, RunQuantity quantity, CurvePart part = {});

}  // namespace kvscope
