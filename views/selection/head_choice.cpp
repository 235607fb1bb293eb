#include "views/selection/head_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/support/error.h"
#include "views/figure/token_facts.h"

namespace kvscope::views {
namespace {

constexpr int kWindowOfHybrids = 128;  // SP-KV section 4

HeadQuestion question_of(const HeadBoard& board, HeadStrategy strategy) {
  HeadQuestion question{.strategy = strategy};
  const bool has_own_number = strategy == HeadStrategy::a || strategy == HeadStrategy::b;
  if (!has_own_number) question.share = board.share;
  if (strategy == HeadStrategy::c) question.seed = static_cast<std::uint64_t>(board.seed);
  return question;
}

std::vector<std::uint8_t> mask_of(const RunRecord& run, const HeadBoard& board) {
  return local_heads_of(board.global, run.model.n_layers, run.model.n_kv_heads);
}

}  // namespace

LocalSizes board_sizes(const RunRecord& run) {
  LocalSizes sizes = local_sizes({&run}, {}, {});
  if (sizes.window < 1) sizes.window = kWindowOfHybrids;
  return sizes;
}

std::optional<HeadStrategy> board_strategy(const HeadBoard& board) {
  const auto found = std::ranges::find(kHeadStrategies, board.rule);
  if (found == std::end(kHeadStrategies)) return std::nullopt;
  return static_cast<HeadStrategy>(found - std::begin(kHeadStrategies));
}

HeadSelection board_selection(const RunRecord& run, const std::vector<std::int64_t>& entries, const HeadBoard& board) {
  const std::vector<std::uint8_t> local = mask_of(run, board);
  HeadSelection selection{.n_layers = run.model.n_layers,
                          .n_kv_heads = run.model.n_kv_heads,
                          .coverage = coverage_of(entries, local),
                          .rule = "hand"};
  for (const std::uint8_t is_local : local) selection.full.push_back(is_local != 0 ? 0.0f : 1.0f);
  const auto strategy = board_strategy(board);
  if (!strategy) return selection;
  try {
    HeadSelection chosen = choose_heads({&run}, entries, question_of(board, *strategy));
    if (chosen.full == selection.full) return chosen;  // of another run the strategy may choose others
  } catch (const Error&) {
  }
  return selection;
}

void fill_board(HeadBoard& board, const RunRecord& run, const std::vector<std::int64_t>& entries,
                HeadStrategy strategy) {
  const HeadSelection chosen = choose_heads({&run}, entries, question_of(board, strategy));
  HeadSet global;
  for (int i = 0; i < chosen.n_heads(); ++i) {
    if (chosen.full[static_cast<std::size_t>(i)] > 0) global.add({i / chosen.n_kv_heads, i % chosen.n_kv_heads});
  }
  board.global = std::move(global);
  board.rule = chosen.rule;
}

PairedNll paired_nll(const RunRecord& a, const RunRecord& b) {
  PairedNll result;
  const auto n = std::min({static_cast<std::size_t>(common_prefix(a, b)), a.logprobs.size(), b.logprobs.size()});
  for (std::size_t t = 0; t < n; ++t) {
    if (std::isnan(a.logprobs[t]) || std::isnan(b.logprobs[t])) continue;
    result.a -= static_cast<double>(a.logprobs[t]), result.b -= static_cast<double>(b.logprobs[t]);
    ++result.n;
  }
  const double count = result.n > 0 ? result.n : std::numeric_limits<double>::quiet_NaN();
  result.a /= count, result.b /= count;
  return result;
}

}  // namespace kvscope::views
