#include "views/figure/lost_fact_image.h"

#include <algorithm>
#include <vector>

#include "views/figure/colormap.h"
#include "views/figure/state_colours.h"

namespace kvscope::views {
namespace {

constexpr double kLeastWidth = 2, kLeastHeight = 1;  // points of a cell

/// The share of the span in each cell, and its worst eviction.
class ShareImage {
 public:
  ShareImage(const RunRecord& run, const LostFactRun& lost, TokenSpan queries, const Box& box)
      : run_(run),
        lost_(lost),
        columns_(queries, static_cast<int>(box.w / kLeastWidth)),
        rows_({0, std::max(1, static_cast<int>(lost.rows.size()))}, static_cast<int>(box.h / kLeastHeight)) {}

  int columns() const { return columns_.cells; }
  int rows() const { return rows_.cells; }

  std::vector<Colour> pixels(bool dark) {
    std::vector<Colour> pixels;
    if (lost_.rows.empty()) return std::vector<Colour>(static_cast<std::size_t>(columns()) * rows());
    for (int r = 0; r < rows_.cells; ++r) {
      const TokenSpan heads = rows_.tokens(r);
      sums_.assign(static_cast<std::size_t>(columns()), 0), counts_.assign(sums_.size(), 0);
      worst_.assign(sums_.size(), kNone);
      for (int i = heads.begin; i < heads.end; ++i)
        add(lost_.loss.heads[static_cast<std::size_t>(lost_.rows[static_cast<std::size_t>(i)])]);
      for (std::size_t c = 0; c < sums_.size(); ++c) pixels.push_back(colour(c, dark));
    }
    return pixels;
  }

 private:
  static constexpr int kNone = -1, kRight = 0, kUnknown = 1, kWrong = 2;  // the greatest is drawn

  void add(const HeadSpan& head) {
    const SpanLoss& loss = lost_.loss;
    const std::vector<std::int32_t> held = span_held(run_, head.layer, head.kv_head, loss.first, loss.last);
    const TokenSpan queries = columns_.span;
    const std::int32_t end = std::min(queries.end, static_cast<std::int32_t>(held.size()));
    for (std::int32_t q = std::max(queries.begin, loss.first); q < end; ++q) {
      const auto c = static_cast<std::size_t>(columns_.of(q));
      sums_[c] += static_cast<double>(held[static_cast<std::size_t>(q)]) / (std::min(q, loss.last) - loss.first + 1);
      ++counts_[c];
    }
    for (const Eviction& eviction : head.evictions) {
      if (!queries.contains(eviction.q)) continue;
      int& worst = worst_[static_cast<std::size_t>(columns_.of(eviction.q))];
      worst = std::max(worst, eviction.verdict == EvictionVerdict::wrong   ? kWrong
                              : eviction.verdict == EvictionVerdict::right ? kRight
                                                                           : kUnknown);
    }
  }

  Colour colour(std::size_t c, bool dark) const {
    if (worst_[c] == kWrong) return eviction_colour(EvictionVerdict::wrong, dark);
    if (worst_[c] == kUnknown) return eviction_colour(EvictionVerdict::unknown, dark);
    if (worst_[c] == kRight) return eviction_colour(EvictionVerdict::right, dark);
    if (counts_[c] == 0) return state_colour(TokenState::future, dark);
    return share_colour(sums_[c] / static_cast<double>(counts_[c]), dark);
  }

  const RunRecord& run_;
  const LostFactRun& lost_;
  SpanCells columns_, rows_;
  std::vector<double> sums_;
  std::vector<std::int64_t> counts_;
  std::vector<int> worst_;
};

}  // namespace

Colour eviction_colour(EvictionVerdict verdict, bool dark) {
  if (verdict == EvictionVerdict::wrong) return verdict_colour(Verdict::missed, dark);
  if (verdict == EvictionVerdict::right) return dark ? Colour{132, 134, 140, 255} : Colour{140, 140, 138, 255};
  return {204, 121, 167, 255};  // reddish purple
}

Colour share_colour(double share, bool dark) {
  return mix(state_colour(TokenState::evicted, dark), state_colour(TokenState::kept, dark), share);
}

Image lost_fact_image(const RunRecord& run, const LostFactRun& lost, TokenSpan queries, const Box& box, bool dark) {
  ShareImage image(run, lost, queries, box);
  return {box, image.columns(), image.rows(), image.pixels(dark)};
}

}  // namespace kvscope::views
