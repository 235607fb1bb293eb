#pragma once
// What the time deck shows of a head: tokens in its cache, and under it how many it evicts.

#include "engine/core/record/run_record.h"
#include "views/figure/figure.h"
#include "views/frame/theme.h"

namespace kvscope::views {

struct DeckPicture {
  Image image;           // one column a bin of queries, which has their mean
  int most_cached = 0;   // tokens in the cache at one query: the height of the upper part
  int most_evicted = 0;  // tokens evicted at one query: the height of the lower part
};

/// The lower part's share of the height.
inline constexpr float kEvictionShare = 0.25f;
/// Of evictions as events. That of an evicted token is pale, to be overlooked.
Colour eviction_colour(bool dark);

/// At most so many columns; occupancy (retention_metrics.h) of sinks, long range and window stacked, evictions upwards from
/// the lower edge on a ground of their own, a row of them wherever there is one.
DeckPicture deck_picture(const RunRecord& run, int layer, int kv_head, int max_columns, const Theme& theme);

}  // namespace kvscope::views
