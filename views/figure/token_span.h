#pragma once
// Part of a run along its axis of tokens and queries, and the cells of a picture that shows it.

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace kvscope::views {

/// [begin, end)
struct TokenSpan {
  std::int32_t begin = 0, end = 0;
  std::int32_t size() const { return end - begin; }
  bool empty() const { return end <= begin; }
  bool contains(std::int32_t t) const { return t >= begin && t < end; }
  bool operator==(const TokenSpan&) const = default;
};

inline constexpr int kLeastSpan = 8;                       // tokens that zooming leaves
inline constexpr double kZoomStep = 0.8, kPanStep = 0.15;  // of a notch of the wheel and of a key: factor, share

/// Inside [0, n) and as long as before where there is room; an empty one is the whole run.
inline TokenSpan clamp_span(TokenSpan span, int n) {
  if (span.empty() || span.size() >= n) return {0, n};
  const std::int32_t begin = std::clamp(span.begin, 0, n - span.size());
  return {begin, begin + span.size()};
}

/// `factor` times as long; what lies at the share `at` of it stays there. A factor other than 1 changes the length by a
/// token at least, as far as `least` and the run allow.
inline TokenSpan zoom_span(TokenSpan span, int n, double factor, double at, int least = kLeastSpan) {
  span = clamp_span(span, n);
  int size = static_cast<int>(std::lround(std::clamp(span.size() * factor, 1.0, 2.0 * n + least)));
  if (size == span.size() && factor != 1) size += factor > 1 ? 1 : -1;
  size = std::clamp(size, std::min(least, n), n);
  const auto begin = static_cast<std::int32_t>(std::lround(span.begin + at * (span.size() - size)));
  return clamp_span({begin, begin + size}, n);
}

inline TokenSpan pan_span(TokenSpan span, int n, double tokens) {
  span = clamp_span(span, n);
  const double begin = std::clamp(span.begin + tokens, -1.0 * n, 2.0 * n);
  const auto rounded = static_cast<std::int32_t>(std::lround(begin));
  return clamp_span({rounded, rounded + span.size()}, n);
}

/// A span cut into `cells` whole numbers of tokens, as alike as they can be: at most one more or less. Every token is in
/// exactly one cell, so that a mean over cells leaves none out.
struct SpanCells {
  TokenSpan span;
  int cells = 1;  // at most span.size()
  SpanCells(TokenSpan span, int most) : span(span), cells(std::clamp(most, 1, std::max(1, span.size()))) {}
  std::int32_t begin(int cell) const {
    return span.begin + static_cast<std::int32_t>(static_cast<std::int64_t>(cell) * span.size() / cells);
  }
  TokenSpan tokens(int cell) const { return {begin(cell), begin(cell + 1)}; }
  int of(std::int32_t t) const {
    return static_cast<int>((static_cast<std::int64_t>(t - span.begin + 1) * cells - 1) / span.size());
  }
};

}  // namespace kvscope::views
