#include "engine/core/study/measure/answer_difference.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <unordered_map>

#include "engine/core/study/measure/compare_runs.h"

namespace kvscope {
namespace {

using Symbols = std::vector<std::int32_t>;

std::string_view piece_of(const RunRecord& run, std::int32_t t) {
  const auto i = static_cast<std::size_t>(t);
  return i < run.pieces.size() ? run.pieces[i] : std::string_view();
}

/// Whether an id means the same in both. Models of one size of vocabulary may differ in it: then some id has other bytes.
bool have_one_tokenizer(const RunRecord& a, const RunRecord& b) {
  if (a.model.vocab_size != b.model.vocab_size) return false;
  if (!a.model.weights_hash.empty() && a.model.weights_hash == b.model.weights_hash) return true;
  std::unordered_map<std::int32_t, std::string_view> pieces;
  for (std::int32_t t = a.prompt_len; t < a.n_tokens(); ++t)
    pieces.emplace(a.ids[static_cast<std::size_t>(t)], piece_of(a, t));
  for (std::int32_t t = b.prompt_len; t < b.n_tokens(); ++t) {
    const auto known = pieces.find(b.ids[static_cast<std::size_t>(t)]);
    if (known != pieces.end() && known->second != piece_of(b, t)) return false;
  }
  return true;
}

/// Tokens of the answer as numbers that are equal where the bytes are.
Symbols text_symbols(const RunRecord& run, std::unordered_map<std::string_view, std::int32_t>& known) {
  Symbols symbols;
  for (std::int32_t t = run.prompt_len; t < run.n_tokens(); ++t)
    symbols.push_back(known.emplace(piece_of(run, t), static_cast<std::int32_t>(known.size())).first->second);
  return symbols;
}

Symbols answer_ids(const RunRecord& run) {
  return {run.ids.begin() + std::min(run.prompt_len, run.n_tokens()), run.ids.end()};
}

/// Adds tokens that differ, to the difference before them where nothing is between.
void add_difference(std::vector<AnswerPart>& differences, std::int32_t a, std::int32_t n_a, std::int32_t b,
                    std::int32_t n_b) {
  if (n_a == 0 && n_b == 0) return;
  AnswerPart* last = differences.empty() ? nullptr : &differences.back();
  if (last != nullptr && last->a + last->n_a == a && last->b + last->n_b == b) {
    last->n_a += n_a, last->n_b += n_b;
  } else {
    differences.push_back({a, n_a, b, n_b});
  }
}

/// The longest common subsequence of a and b, whose first tokens are at these positions, as the differences around it. Of
/// several longest ones it is that which leaves out A's tokens as late as it can.
void align_tokens(std::span<const std::int32_t> a, std::span<const std::int32_t> b, std::int32_t at_a,
                  std::int32_t at_b, std::vector<AnswerPart>& differences) {
  const std::size_t n = a.size(), m = b.size();
  std::vector<std::uint8_t> leaves_a(n * m, 0);  // whether the best rest from (i, j) on is without a[i], not b[j]
  std::vector<std::int32_t> now(m + 1, 0), below(m + 1, 0);  // lengths of the rests
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t j = m; j-- > 0;) {
      const bool leaves = below[j] > now[j + 1];
      leaves_a[i * m + j] = leaves;
      now[j] = a[i] == b[j] ? below[j + 1] + 1 : leaves ? below[j] : now[j + 1];
    }
    std::swap(now, below);
  }
  std::size_t i = 0, j = 0;
  const auto differ = [&](std::int32_t n_a, std::int32_t n_b) {
    add_difference(differences, at_a + static_cast<std::int32_t>(i), n_a, at_b + static_cast<std::int32_t>(j), n_b);
    i += static_cast<std::size_t>(n_a), j += static_cast<std::size_t>(n_b);
  };
  while (i < n && j < m) {
    if (a[i] == b[j]) {
      ++i, ++j;
    } else {
      leaves_a[i * m + j] != 0 ? differ(1, 0) : differ(0, 1);
    }
  }
  differ(static_cast<std::int32_t>(n - i), static_cast<std::int32_t>(m - j));
}

/// How many of n tokens are aligned with m of the other run.
std::size_t aligned(std::size_t n, std::size_t m) {
  constexpr std::size_t kSide = 1 << 11;
  static_assert(kMostAligned == static_cast<std::int64_t>(kSide) * kSide);
  return std::min(n, std::max(kSide, static_cast<std::size_t>(kMostAligned) / std::max<std::size_t>(1, m)));
}

}  // namespace

AnswerDifference answer_difference(const RunRecord& a, const RunRecord& b) {
  AnswerDifference found{.begin_a = std::min(a.prompt_len, a.n_tokens()),
                         .end_a = a.n_tokens(),
                         .begin_b = std::min(b.prompt_len, b.n_tokens()),
                         .end_b = b.n_tokens(),
                         .by_text = !have_one_tokenizer(a, b)};
  std::unordered_map<std::string_view, std::int32_t> known;
  const Symbols of_a = found.by_text ? text_symbols(a, known) : answer_ids(a);
  const Symbols of_b = found.by_text ? text_symbols(b, known) : answer_ids(b);
  // Of equal ends nothing is to be found out.
  std::span<const std::int32_t> rest_a(of_a), rest_b(of_b);
  const auto before = static_cast<std::size_t>(std::ranges::mismatch(rest_a, rest_b).in1 - rest_a.begin());
  rest_a = rest_a.subspan(before), rest_b = rest_b.subspan(before);
  std::size_t after = 0;
  while (after < std::min(rest_a.size(), rest_b.size()) &&
         rest_a[rest_a.size() - 1 - after] == rest_b[rest_b.size() - 1 - after])
    ++after;
  rest_a = rest_a.first(rest_a.size() - after), rest_b = rest_b.first(rest_b.size() - after);

  const std::size_t n = aligned(rest_a.size(), rest_b.size()), m = aligned(rest_b.size(), n);
  const std::int32_t at_a = found.begin_a + static_cast<std::int32_t>(before);
  const std::int32_t at_b = found.begin_b + static_cast<std::int32_t>(before);
  align_tokens(rest_a.first(n), rest_b.first(m), at_a, at_b, found.differences);
  found.unaligned_a = static_cast<std::int32_t>(rest_a.size() - n);
  found.unaligned_b = static_cast<std::int32_t>(rest_b.size() - m);
  add_difference(found.differences, at_a + static_cast<std::int32_t>(n), found.unaligned_a,
                 at_b + static_cast<std::int32_t>(m), found.unaligned_b);
  found.n_same = found.end_a - found.begin_a;
  for (const AnswerPart& part : found.differences) found.n_same -= part.n_a;
  return found;
}

std::optional<Parting> parting(const RunRecord& a, const RunRecord& b, const AnswerDifference& difference) {
  if (difference.differences.empty()) return std::nullopt;
  const AnswerPart& first = difference.differences.front();
  if (first.a >= difference.end_a || first.b >= difference.end_b) return std::nullopt;
  const bool read_the_same = !difference.by_text && same_prompt(a, b);
  return Parting{first.a, first.b, read_the_same ? first.a - 1 : -1};
}

int difference_at(const AnswerDifference& difference, std::int32_t q) {
  const auto& all = difference.differences;
  if (all.empty()) return -1;
  const auto after = std::ranges::upper_bound(all, q, {}, query_of);
  return static_cast<int>(std::max<std::ptrdiff_t>(0, after - all.begin() - 1));
}

int difference_from(const AnswerDifference& difference, std::int32_t q, int direction) {
  const auto& all = difference.differences;
  const auto n = static_cast<int>(all.size());
  if (n == 0) return -1;
  if (direction > 0) return static_cast<int>(std::ranges::upper_bound(all, q, {}, query_of) - all.begin()) % n;
  return (static_cast<int>(std::ranges::lower_bound(all, q, {}, query_of) - all.begin()) + n - 1) % n;
}

}  // namespace kvscope
