#include "engine/core/lifetime/pooled_top_k.h"

#include <algorithm>
#include <stdexcept>

namespace kvscope {
namespace {

std::pair<int, std::int32_t> by_head(const PooledTopK::Leaver& one) { return {one.head, one.t}; }

}  // namespace

std::vector<Contest> PooledTopK::Cut::contests(int n_kv_heads) const {
  std::vector<Contest> out;
  for (auto first = left.begin(); first != left.end();) {
    const auto end = std::find_if(first, left.end(), [&](const Leaver& one) { return one.head != first->head; });
    // The first of equals: it is the oldest, which leaves last.
    const auto strongest =
        std::max_element(first, end, [](const Leaver& a, const Leaver& b) { return a.effective < b.effective; });
    out.push_back({.q = q,
                   .layer = static_cast<std::int16_t>(first->head / n_kv_heads),
                   .kv_head = static_cast<std::int16_t>(first->head % n_kv_heads),
                   .newcomer = newcomer,
                   .boundary = strongest->t,
                   .newcomer_effective = lowest,
                   .boundary_effective = strongest->effective,
                   .evicted = strongest->t});
    first = end;
  }
  return out;
}

PooledTopK::PooledTopK(std::vector<RetentionGeometry> of_head, int delay, int interval)
    : of_head_(std::move(of_head)), delay_(delay), interval_(interval), waiting_(of_head_.size()) {
  if (of_head_.empty() || delay < 0 || delay > of_head_[0].window || interval < 1)
    throw std::invalid_argument("PooledTopK: no head, no interval, or a delay that is no part of the window");
  change(std::move(of_head_));
}

void PooledTopK::change(std::vector<RetentionGeometry> of_head) {
  for (const RetentionGeometry& geometry : of_head) {
    if (geometry.top_k < interval_ || geometry.decay_stride < 1 || !(geometry.log_gamma <= 0) ||
        of_head.size() != waiting_.size())
      throw std::invalid_argument(
          "PooledTopK: top_k must be >= interval, decay_stride >= 1 and log_gamma <= 0, of every head");
  }
  std::vector<Slots> before = std::move(slots_);
  of_head_ = std::move(of_head);
  slots_.clear();
  for (const RetentionGeometry& geometry : of_head_) slots_.push_back(slots_of(geometry));
  n_ = 0;
  for (std::size_t head = 0; head < before.size(); ++head) {
    for (const Candidate& one : std::visit([](auto& slots) { return slots.take(); }, before[head]))
      add(static_cast<int>(head), one);
  }
}

PooledTopK::Slots PooledTopK::slots_of(const RetentionGeometry& geometry) {
  if (static_cast<float>(geometry.log_gamma) == 0) return StaticSlots(geometry);
  return DecayingSlots(geometry);
}

bool PooledTopK::leaves_before(const Token& a, const Token& b) {
  if (a.effective != b.effective) return a.effective < b.effective;
  return a.candidate.t != b.candidate.t ? a.candidate.t > b.candidate.t : a.head > b.head;
}

void PooledTopK::add(int head, const Candidate& candidate) {
  std::visit([&](auto& slots) { slots.add(candidate); }, slots_[static_cast<std::size_t>(head)]);
  ++n_;
}

float PooledTopK::effective(int head, const Candidate& candidate, std::int32_t q) const {
  const RetentionGeometry& geometry = of_head_[static_cast<std::size_t>(head)];
  return effective_score(candidate.score, candidate.t, q, static_cast<float>(geometry.log_gamma),
                         geometry.decay_stride);
}

PooledTopK::Token PooledTopK::weakest_of(int head, std::int32_t q) {
  const Candidate weakest =
      std::visit([&](auto& slots) { return slots.weakest(q); }, slots_[static_cast<std::size_t>(head)]);
  return {effective(head, weakest, q), head, weakest};
}

void PooledTopK::tell(int head, std::int32_t t, float score) {
  if (t >= of_head_[0].n_sink) waiting_[static_cast<std::size_t>(head)].push_back({comparable(score), t});
}

PooledTopK::Cut PooledTopK::cut(std::int32_t q) {
  Cut cut{.q = q, .newcomer = q - of_head_[0].window - late()};
  std::vector<Token> entering;
  for (std::size_t head = 0; head < waiting_.size(); ++head) {
    std::deque<Candidate>& waiting = waiting_[head];
    for (; !waiting.empty() && waiting.front().t <= cut.newcomer; waiting.pop_front())
      entering.push_back({0, static_cast<int>(head), waiting.front()});
  }
  const std::size_t places = of_head_.size() * static_cast<std::size_t>(of_head_[0].top_k - kept_free());
  const std::size_t n = n_ + entering.size(), leave = n > places ? n - places : 0;
  if (leave > n / 4) {
    cut_many(leave, std::move(entering), cut);
    return cut;
  }
  for (const Token& token : entering) add(token.head, token.candidate);
  if (leave > 0) cut_few(leave, cut);
  return cut;
}

/// The weakest of every head stand in a heap.
void PooledTopK::cut_few(std::size_t n, Cut& cut) {
  const auto stronger = [](const Token& a, const Token& b) { return leaves_before(b, a); };
  std::vector<Token> front;
  const auto push = [&](int head) {
    if (std::visit([](const auto& slots) { return slots.size(); }, slots_[static_cast<std::size_t>(head)]) == 0) return;
    front.push_back(weakest_of(head, cut.q));
    std::ranges::push_heap(front, stronger);
  };
  for (int head = 0; head < static_cast<int>(slots_.size()); ++head) push(head);
  for (; n > 0; --n, --n_) {
    std::ranges::pop_heap(front, stronger);
    const Token gone = front.back();
    front.pop_back();
    cut.left.push_back({gone.head, gone.candidate.t, gone.effective});
    std::visit([](auto& slots) { slots.remove_weakest(); }, slots_[static_cast<std::size_t>(gone.head)]);
    push(gone.head);
  }
  if (!front.empty()) cut.lowest = front.front().effective;
  std::ranges::sort(cut.left, {}, by_head);
}

/// A prompt's end: most of what it left goes, and never sees a slot.
void PooledTopK::cut_many(std::size_t n, std::vector<Token> entering, Cut& cut) {
  for (std::size_t head = 0; head < slots_.size(); ++head) {
    for (const Candidate& one : std::visit([](auto& slots) { return slots.take(); }, slots_[head]))
      entering.push_back({0, static_cast<int>(head), one});
  }
  n_ = 0;
  for (Token& token : entering) token.effective = effective(token.head, token.candidate, cut.q);
  std::vector<Token> ranked = entering;  // whose order is that of heads, and need not be made again
  const auto weakest = ranked.begin() + static_cast<std::ptrdiff_t>(n);
  std::nth_element(ranked.begin(), weakest, ranked.end(), leaves_before);
  if (weakest != ranked.end()) cut.lowest = weakest->effective;
  for (const Token& token : entering) {
    if (weakest == ranked.end() || leaves_before(token, *weakest)) {
      cut.left.push_back({token.head, token.candidate.t, token.effective});
    } else {
      add(token.head, token.candidate);
    }
  }
  if (!std::ranges::is_sorted(cut.left, {}, by_head)) std::ranges::sort(cut.left, {}, by_head);
}

void pooled_top_k(const HeadSeries<float>& scores, std::vector<RetentionGeometry> of_head, int delay,
                  const PooledCuts& cuts, std::int32_t n_queries, LifetimeMap& evict_at,
                  std::vector<Contest>* contests) {
  static const std::vector<float> none;
  const int n_kv_heads = evict_at.n_kv_heads(), n_heads = evict_at.n_layers() * n_kv_heads;
  const std::int32_t n_sink = of_head.at(0).n_sink, n_left = n_queries - of_head[0].window;
  PooledTopK pool(std::move(of_head), delay, cuts.apart());
  for (int head = 0; head < n_heads; ++head) {
    const std::vector<float>& row = scores.empty() ? none : scores.row(head / n_kv_heads, head % n_kv_heads);
    std::vector<std::int32_t>& out = evict_at.row(head / n_kv_heads, head % n_kv_heads);
    if (n_left > n_sink && static_cast<std::int32_t>(row.size()) < n_left)
      throw std::invalid_argument("pooled_top_k: a score is missing for a token that has left the window");
    for (std::int32_t t = 0; t < std::min(n_left, static_cast<std::int32_t>(row.size())); ++t)
      pool.tell(head, t, row[static_cast<std::size_t>(t)]);
    for (std::size_t t = 0; t < out.size(); ++t)
      out[t] = static_cast<std::int32_t>(t) < std::max(n_sink, n_left) ? kNever : kUndecided;
  }
  for (std::int32_t q = 0; q < n_queries; ++q) {
    if (!cuts.before(q)) continue;
    const PooledTopK::Cut cut = pool.cut(q);
    for (const PooledTopK::Leaver& one : cut.left)
      evict_at.row(one.head / n_kv_heads, one.head % n_kv_heads)[static_cast<std::size_t>(one.t)] = q;
    if (contests == nullptr) continue;
    const std::vector<Contest> met = cut.contests(n_kv_heads);
    contests->insert(contests->end(), met.begin(), met.end());
  }
}

}  // namespace kvscope
