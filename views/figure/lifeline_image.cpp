#include "views/figure/lifeline_image.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>

#include "engine/core/study/measure/retention_metrics.h"
#include "views/figure/caption.h"
#include "views/figure/state_colours.h"

namespace kvscope::views {
namespace {

constexpr int kStates = 7;
constexpr std::int32_t kOpen = std::numeric_limits<std::int32_t>::max();

/// A query that read some pages of what its head keeps.
struct Reading {
  std::int32_t q;
  const std::vector<std::int32_t>* pages;
};

class LifelineCounter {
 public:
  LifelineCounter(const RunRecord& run, int layer, int kv_head, const LifelineWindow& window)
      : run_(run),
        geometry_(run.geometry(layer, kv_head)),
        layer_(layer),
        kv_head_(kv_head),
        columns_(window.queries, window.max_columns),
        // While a run goes on, later queries see what the last one left.
        limit_(run.status == RunStatus::running ? run.queries() : kOpen) {
    for (int s = 0; s < kStates; ++s) counts_[s].resize(n()), whole_[s].resize(n() + 1);
    // Divisions took most of the time of a long run.
    for (int c = 0; c <= n(); ++c) begin_.push_back(columns_.begin(c));
    column_.reserve(static_cast<std::size_t>(columns_.span.size()));
    for (int c = 0; c < n(); ++c) column_.insert(column_.end(), static_cast<std::size_t>(queries(c)), c);
    find_readings();
  }

  int n() const { return columns_.cells; }

  /// Pairs of each state in each column, over the tokens of a row.
  void count(TokenSpan tokens) {
    for (int s = 0; s < kStates; ++s) {
      std::ranges::fill(counts_[s], 0);
      std::ranges::fill(whole_[s], 0);
    }
    for (std::int32_t t = tokens.begin; t < tokens.end; ++t) add_token(t);
    for (int s = 0; s < kStates; ++s) {
      std::int64_t tokens_here = 0;
      for (int c = 0; c < n(); ++c) {
        tokens_here += whole_[s][static_cast<std::size_t>(c)];
        if (tokens_here != 0) counts_[s][static_cast<std::size_t>(c)] += tokens_here * queries(c);
      }
    }
    for (const Reading& reading : readings_) take_unread(reading, tokens);
  }
  std::int64_t pairs(TokenState state, int column) const {
    return counts_[static_cast<std::size_t>(state)][static_cast<std::size_t>(column)];
  }
  std::int32_t queries(int column) const {
    return begin_[static_cast<std::size_t>(column) + 1] - begin_[static_cast<std::size_t>(column)];
  }

 private:
  std::int32_t column_of(std::int32_t q) const { return column_[static_cast<std::size_t>(q - columns_.span.begin)]; }

  /// As HeadReads: tokens are told apart only until the head evicts, as slots are positions until then.
  void find_readings() {
    if (run_.reads.empty()) return;
    std::int32_t first_eviction = kOpen;
    for (const std::int32_t e : run_.evict_at.row(layer_, kv_head_)) first_eviction = std::min(first_eviction, e);
    for (const PageRead& read : run_.reads) {
      if (read.layer != layer_ || read.kv_head != kv_head_ || read.q >= first_eviction) continue;
      if (columns_.span.contains(read.q)) readings_.push_back({read.q, &read.pages});
    }
  }

  void add_token(std::int32_t t) {
    if (t >= limit_) return;  // not born, or undecided: background
    const std::int32_t evict_at = lifetime_of(run_, layer_, kv_head_, t);
    const auto happens = [&](std::int64_t q) { return q >= limit_ ? kOpen : static_cast<std::int32_t>(q); };
    const std::int32_t gone = happens(std::max(t, evict_at));
    if (t < geometry_.n_sink) {
      add(TokenState::sink, t, gone);
    } else {
      const std::int32_t left = std::min(gone, happens(static_cast<std::int64_t>(t) + geometry_.window));
      add(TokenState::window, t, left);
      add(TokenState::kept, left, gone);
    }
    add(TokenState::evicted, gone, kOpen);
  }

  /// One token in this state for queries [from, to).
  void add(TokenState state, std::int32_t from, std::int32_t to) {
    from = std::max(from, columns_.span.begin), to = std::min(to, columns_.span.end);
    if (to <= from) return;
    const auto s = static_cast<std::size_t>(state);
    const auto first = static_cast<std::size_t>(column_of(from)), last = static_cast<std::size_t>(column_of(to - 1));
    if (first == last) {
      counts_[s][first] += to - from;
      return;
    }
    counts_[s][first] += begin_[first + 1] - from;
    counts_[s][last] += to - begin_[last];
    ++whole_[s][first + 1];
    --whole_[s][last];
  }

  void take_unread(const Reading& reading, TokenSpan tokens) {
    const auto c = static_cast<std::size_t>(column_of(reading.q));
    const std::int32_t window = std::max(geometry_.n_sink, reading.q - geometry_.window + 1);
    const auto part = [&](TokenState state, std::int32_t from, std::int32_t to) {
      from = std::max(from, tokens.begin), to = std::min({to, tokens.end, reading.q + 1});
      if (to <= from) return;
      std::int64_t unread = to - from;
      for (auto page = std::ranges::lower_bound(*reading.pages, from / run_.page_size);
           page != reading.pages->end() && *page * run_.page_size < to; ++page) {
        unread -= std::max(0, std::min(to, (*page + 1) * run_.page_size) - std::max(from, *page * run_.page_size));
      }
      counts_[static_cast<std::size_t>(state)][c] -= unread;
      counts_[static_cast<std::size_t>(TokenState::unread)][c] += unread;
    };
    part(TokenState::sink, 0, geometry_.n_sink);
    part(TokenState::kept, geometry_.n_sink, window);
    part(TokenState::window, window, kOpen);
  }

  const RunRecord& run_;
  RetentionGeometry geometry_;
  int layer_, kv_head_;
  SpanCells columns_;
  std::int32_t limit_;
  std::vector<std::int32_t> begin_, column_;  // first query of each column, column of each query
  std::vector<Reading> readings_;
  std::array<std::vector<std::int64_t>, kStates> counts_;
  std::array<std::vector<std::int32_t>, kStates> whole_;  // tokens that begin and end to fill whole columns
};

}  // namespace

Image lifeline_image(const RunRecord& run, int layer, int kv_head, const LifelineWindow& window, bool dark) {
  LifelineCounter counter(run, layer, kv_head, window);
  const SpanCells rows(window.tokens, window.max_rows);
  Image image{{}, counter.n(), rows.cells, std::vector<Colour>(static_cast<std::size_t>(counter.n()) * rows.cells)};
  const Colour nothing = state_colour(TokenState::future, dark);
  constexpr TokenState kPainted[] = {TokenState::sink, TokenState::window, TokenState::kept, TokenState::evicted,
                                     TokenState::unread};
  for (int r = 0; r < rows.cells; ++r) {
    const TokenSpan tokens = rows.tokens(rows.cells - 1 - r);
    counter.count(tokens);
    Colour* pixel = &image.pixels[static_cast<std::size_t>(r) * static_cast<std::size_t>(counter.n())];
    for (int c = 0; c < counter.n(); ++c, ++pixel) {
      std::int64_t red = 0, green = 0, blue = 0, painted = 0;
      const auto add = [&](Colour colour, std::int64_t pairs) {
        red += colour.r * pairs, green += colour.g * pairs, blue += colour.b * pairs;
      };
      for (const TokenState state : kPainted) {
        const std::int64_t pairs = counter.pairs(state, c);
        if (pairs == 0) continue;
        add(state_colour(state, dark), pairs);
        painted += pairs;
      }
      const std::int64_t all = static_cast<std::int64_t>(tokens.size()) * counter.queries(c);
      add(nothing, all - painted);
      const auto mean = [&](std::int64_t sum) { return static_cast<std::uint8_t>((sum + all / 2) / all); };
      *pixel = painted == 0 ? Colour{0, 0, 0, 0} : Colour{mean(red), mean(green), mean(blue), 255};
    }
  }
  return image;
}

Image lifeline_image(const RunRecord& run, int layer, int kv_head, int max_side, bool dark) {
  const TokenSpan all{0, run.n_tokens()};
  return lifeline_image(run, layer, kv_head, {all, all, max_side, max_side}, dark);
}

}  // namespace kvscope::views
