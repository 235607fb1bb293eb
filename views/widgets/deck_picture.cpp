#include "views/widgets/deck_picture.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/core/study/measure/retention_metrics.h"
#include "views/figure/colormap.h"
#include "views/figure/state_colours.h"
#include "views/figure/token_span.h"

namespace kvscope::views {
namespace {

constexpr int kPictureRows = 48;
constexpr int kEvictionRows = static_cast<int>(kPictureRows * kEvictionShare),
              kCacheRows = kPictureRows - kEvictionRows - 1;

/// [n_tokens]: tokens of the head that leave at each query.
std::vector<int> evictions(const RunRecord& run, int layer, int kv_head) {
  std::vector<int> at_query(run.ids.size(), 0);
  for (const std::int32_t q : run.evict_at.row(layer, kv_head)) {
    if (q >= 0 && static_cast<std::size_t>(q) < at_query.size()) ++at_query[static_cast<std::size_t>(q)];
  }
  return at_query;
}

int highest(const Occupancy& occ) {
  int most = 0;
  for (std::size_t q = 0; q < occ.sinks.size(); ++q)
    most = std::max(most, occ.sinks[q] + occ.long_range[q] + occ.window[q]);
  return most;
}

/// One column of the picture, from its lower edge up.
struct Column {
  Image& image;
  int at;
  void fill(int from, int to, Colour colour) {
    for (int row = from; row < to; ++row)
      image.pixels[static_cast<std::size_t>(image.rows - 1 - row) * static_cast<std::size_t>(image.columns) +
                   static_cast<std::size_t>(at)] = colour;
  }
};

}  // namespace

Colour eviction_colour(bool dark) { return dark ? Colour{214, 133, 178, 255} : Colour{163, 61, 120, 255}; }

DeckPicture deck_picture(const RunRecord& run, int layer, int kv_head, int max_columns, const Theme& theme) {
  const Occupancy occ = occupancy(run, layer, kv_head);
  const std::vector<int> left = evictions(run, layer, kv_head);
  const int n = static_cast<int>(occ.sinks.size());
  const SpanCells cells({0, n}, max_columns);
  DeckPicture picture{
      .image = {{},
                cells.cells,
                kPictureRows,
                std::vector<Colour>(static_cast<std::size_t>(cells.cells) * kPictureRows, Colour{0, 0, 0, 0})},
      .most_cached = highest(occ),
      .most_evicted = left.empty() ? 0 : *std::ranges::max_element(left)};
  for (int c = 0; c < cells.cells && n > 0; ++c) {
    const TokenSpan bin = cells.tokens(c);
    double sinks = 0, kept = 0, all = 0, evicted = 0;
    for (auto q = static_cast<std::size_t>(bin.begin); q < static_cast<std::size_t>(bin.end); ++q) {
      sinks += occ.sinks[q];
      kept += occ.sinks[q] + occ.long_range[q];
      all += occ.sinks[q] + occ.long_range[q] + occ.window[q];
      evicted += q < left.size() ? left[q] : 0;
    }
    const auto level = [&](double sum, int most, int rows) {
      return most == 0 ? 0 : static_cast<int>(std::lround(sum / bin.size() / most * rows));
    };
    const auto cached = [&](double sum) {
      return kPictureRows - kCacheRows + level(sum, picture.most_cached, kCacheRows);
    };
    Column column{picture.image, c};
    column.fill(kPictureRows - kCacheRows, cached(sinks), state_colour(TokenState::sink, theme.dark));
    column.fill(cached(sinks), cached(kept), state_colour(TokenState::kept, theme.dark));
    column.fill(cached(kept), cached(all), state_colour(TokenState::window, theme.dark));
    column.fill(0, kEvictionRows, mix(theme.palette.panel, state_colour(TokenState::evicted, theme.dark), 0.6));
    if (evicted > 0)
      column.fill(0, std::max(1, level(evicted, picture.most_evicted, kEvictionRows)), eviction_colour(theme.dark));
  }
  return picture;
}

}  // namespace kvscope::views
