#include "views/figure/layer_strip_image.h"

#include <limits>

namespace kvscope::views {
namespace {

/// One layer as query q sees it.
class LayerCounter {
 public:
  LayerCounter(const RunRecord& run, int layer, std::int32_t q)
      : run_(run), layer_(layer), q_(q), made_(run.status == RunStatus::running ? std::min(q, run.queries() - 1) : q) {
    const RetentionGeometry geometry = run.geometry();
    contested_ = {geometry.n_sink, made_ - geometry.window + 1};
  }

  /// Mean number of heads that see the chosen tokens of the span; NaN if there are none.
  float mean(TokenSpan span) const {
    const TokenSpan inside{std::max(span.begin, contested_.begin), std::min(span.end, contested_.end)};
    std::int64_t seen = 0, n = 0;
    if (!inside.empty()) {
      for (int h = 0; h < run_.evict_at.n_kv_heads(); ++h) seen += count_seen(h, inside);
      n += inside.size();
    }
    // Sinks and window are kept by rule, but for what a policy evicts all the same.
    const auto add_evicted = [&](std::int32_t from, std::int32_t to) {
      for (std::int32_t t = from; t < std::min(to, made_ + 1); ++t) {
        if (lifetime(0, t) > made_) continue;
        for (int h = 0; h < run_.evict_at.n_kv_heads(); ++h) seen += lifetime(h, t) > q_;
        ++n;
      }
    };
    const bool any = !contested_.empty();
    add_evicted(span.begin, any ? std::min(span.end, contested_.begin) : span.end);
    if (any) add_evicted(std::max(span.begin, contested_.end), span.end);
    if (n == 0) return std::numeric_limits<float>::quiet_NaN();
    return static_cast<float>(static_cast<double>(seen) / static_cast<double>(n));
  }

 private:
  std::int32_t lifetime(int kv_head, std::int32_t t) const {
    const auto& row = run_.evict_at.row(layer_, kv_head);
    return static_cast<std::size_t>(t) < row.size() ? row[static_cast<std::size_t>(t)] : kUndecided;
  }
  std::int64_t count_seen(int kv_head, TokenSpan span) const {
    const auto& row = run_.evict_at.row(layer_, kv_head);
    const auto known = std::min<std::int32_t>(span.end, static_cast<std::int32_t>(row.size()));
    std::int32_t seen = std::max(0, span.end - std::max(span.begin, known));  // not decided: still there
    for (std::int32_t t = span.begin; t < known; ++t) seen += row[static_cast<std::size_t>(t)] > q_;
    return seen;
  }

  const RunRecord& run_;
  int layer_;
  std::int32_t q_, made_;
  TokenSpan contested_;
};

}  // namespace

LayerStrip layer_strip(const RunRecord& run, std::int32_t q, const SpanCells& cells, const std::atomic<bool>* stop) {
  LayerStrip strip{cells.cells, run.evict_at.n_layers(), {}};
  strip.heads.assign(static_cast<std::size_t>(strip.rows) * static_cast<std::size_t>(strip.columns),
                     std::numeric_limits<float>::quiet_NaN());
  for (int layer = 0; layer < strip.rows; ++layer) {
    if (stop != nullptr && stop->load(std::memory_order_relaxed)) break;
    const LayerCounter counter(run, layer, q);
    float* row = &strip.heads[static_cast<std::size_t>(layer) * static_cast<std::size_t>(strip.columns)];
    for (int c = 0; c < strip.columns; ++c) row[c] = counter.mean(cells.tokens(c));
  }
  return strip;
}

Image layer_strip_image(const LayerStrip& strip, int n_kv_heads, Colormap map) {
  Image image{{}, strip.columns, strip.rows, {}};
  image.pixels.reserve(strip.heads.size());
  for (const float heads : strip.heads) image.pixels.push_back(heads_colour(map, heads, n_kv_heads));
  return image;
}

}  // namespace kvscope::views
