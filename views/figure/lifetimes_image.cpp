#include "views/figure/lifetimes_image.h"

#include <algorithm>
#include <array>
#include <vector>

#include "views/figure/colormap.h"
#include "views/figure/lost_fact_image.h"
#include "views/figure/state_colours.h"

namespace kvscope::views {
namespace {

/// In the order in which equally many count.
enum LifeKind : int { kWrongLife, kUnjudgedLife, kRightLife, kKeptLife, kSinkLife, kWindowLife, kNoLife, kLifeKinds };

constexpr int kLifeCounts = 8;  // kLifeKinds, and one that makes it a vector of the machine

std::array<Colour, kLifeKinds> life_colours(bool dark) {
  return {pale_life_colour(EvictionVerdict::wrong, dark), pale_life_colour(EvictionVerdict::unknown, dark),
          pale_life_colour(EvictionVerdict::right, dark), state_colour(TokenState::kept, dark),
          state_colour(TokenState::sink, dark),           state_colour(TokenState::window, dark),
          state_colour(TokenState::future, dark)};
}

/// Without a branch: which state wins changes from cell to cell.
int most_common(const std::array<std::int32_t, kLifeCounts>& counts) {
  std::int64_t best = -1;
  for (int k = 0; k < kLifeKinds; ++k)
    best = std::max(best, std::int64_t{counts[static_cast<std::size_t>(k)]} * kLifeCounts + (kLifeKinds - 1 - k));
  return kLifeKinds - 1 - static_cast<int>(best % kLifeCounts);
}

/// How many tokens of a row of cells are in each state, column by column.
class LifeCounter {
 public:
  LifeCounter(TokenSpan queries, std::int32_t end, int max_columns)
      : columns_(queries, max_columns),
        end_(end),
        changes_(static_cast<std::size_t>(columns_.cells) + 1),
        touched_(changes_.size()) {
    // Divisions took most of the time of a long run.
    column_.reserve(static_cast<std::size_t>(queries.size()) + 1);
    for (int c = 0; c < columns_.cells; ++c)
      column_.insert(column_.end(), static_cast<std::size_t>(columns_.tokens(c).size()), c);
    column_.push_back(columns_.cells);
  }

  int columns() const { return columns_.cells; }

  void add(const TokenLife& life) {
    add(life.sink ? kSinkLife : kWindowLife, life.t, life.left_window);
    add(kKeptLife, life.left_window, life.gone);
    const LifeKind after = life.verdict == EvictionVerdict::wrong   ? kWrongLife
                           : life.verdict == EvictionVerdict::right ? kRightLife
                                                                    : kUnjudgedLife;
    if (life.evicted) add(after, life.gone, end_);
  }

  /// Calls paint(column, state) for each, and forgets the tokens.
  template <typename Paint>
  void take(int n_tokens, Paint paint) {
    std::array<std::int32_t, kLifeCounts> now{};
    now[kNoLife] = n_tokens;
    int most = kNoLife;
    for (std::size_t c = 0; c < changes_.size(); ++c) {
      if (touched_[c] != 0) {
        for (int k = 0; k < kLifeCounts; ++k) now[k] += changes_[c][k];
        most = most_common(now);
        changes_[c] = {}, touched_[c] = 0;
      }
      if (c + 1 < changes_.size()) paint(static_cast<int>(c), most);
    }
  }

 private:
  /// In that state at the queries [from, to): in the columns whose last query is one of them.
  void add(LifeKind kind, std::int32_t from, std::int32_t to) {
    const TokenSpan span = columns_.span;
    from = std::max(from, span.begin), to = std::min(to, span.end);
    if (to <= from) return;
    const auto first = static_cast<std::size_t>(column_[static_cast<std::size_t>(from - span.begin)]);
    const auto last = static_cast<std::size_t>(column_[static_cast<std::size_t>(to - span.begin)]);
    if (first == last) return;
    ++changes_[first][kind], --changes_[first][kNoLife], touched_[first] = 1;
    --changes_[last][kind], ++changes_[last][kNoLife], touched_[last] = 1;
  }

  SpanCells columns_;
  std::int32_t end_;
  std::vector<std::int32_t> column_;                            // of each query, and of the one after the last
  std::vector<std::array<std::int32_t, kLifeCounts>> changes_;  // tokens that begin and end in a state
  std::vector<std::uint8_t> touched_;                           // whether any does
};

}  // namespace

Colour pale_life_colour(EvictionVerdict verdict, bool dark) {
  return mix(state_colour(TokenState::future, dark), eviction_colour(verdict, dark), 0.5);
}

Image lifetimes_image(std::span<const TokenLife> rows, TokenSpan queries, std::int32_t end, int max_columns,
                      int max_rows, bool dark) {
  LifeCounter counter(queries, end, max_columns);
  const SpanCells cells({0, static_cast<std::int32_t>(rows.size())}, max_rows);
  Image image{{}, counter.columns(), cells.cells, {}};
  image.pixels.resize(static_cast<std::size_t>(image.columns) * static_cast<std::size_t>(image.rows));
  const auto colours = life_colours(dark);
  for (int r = 0; r < cells.cells; ++r) {
    const TokenSpan tokens = cells.tokens(r);
    for (std::int32_t i = tokens.begin; i < tokens.end; ++i) counter.add(rows[static_cast<std::size_t>(i)]);
    Colour* pixels = &image.pixels[static_cast<std::size_t>(r) * static_cast<std::size_t>(image.columns)];
    counter.take(tokens.size(), [&](int c, int kind) { pixels[c] = colours[static_cast<std::size_t>(kind)]; });
  }
  return image;
}

}  // namespace kvscope::views
