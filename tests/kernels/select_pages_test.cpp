#include "kernels/select_pages.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "kernels/decode_attention.h"
#include "kernels/page_bounds.h"
#include "kernels/step_graph.h"
#include "tests/kernels/cache_fixture.h"
#include "tests/kernels/numbers.h"

using namespace kvscope::kernels;
using namespace kvscope::test;
using Catch::Matchers::Contains;

namespace {

struct Problem {
  HostCache cache;
  std::vector<float> q;       // [n_heads, head_dim]
  std::vector<float> bounds;  // [n_kv_heads, max_pages, 2, head_dim]
  std::int32_t position;
  int n_heads;
  int n_pages, read_window, max_selected;
};

struct Result {
  std::vector<std::int32_t> page_table, slot_position, n_slots, selected;
  bool operator==(const Result&) const = default;
};

SelectPagesArgs put(const Problem& p, const SlotCacheView& view, Memory& memory) {
  const std::size_t n_heads = p.cache.n_kv_heads, n_pages = n_heads * p.max_selected;
  return {.cache = view,
          .q = memory.put(pack(p.q, p.cache.dtype)),
          .bounds = memory.put(pack(p.bounds, p.cache.dtype)),
          .position = memory.put(std::vector<std::int32_t>{p.position}),
          .n_heads = p.n_heads,
          .n_pages = p.n_pages,
          .read_window = p.read_window,
          .max_selected = p.max_selected,
          .rank = memory.put(std::vector<PageRank>(n_heads * p.cache.max_pages, 0xeeeeeeeeu)),
          .page_table = memory.put(std::vector<std::int32_t>(n_pages, -77)),
          .slot_position = memory.put(std::vector<std::int32_t>(n_pages * p.cache.page_size, -77)),
          .n_slots = memory.put(std::vector<std::int32_t>(n_heads, -77)),
          .selected = memory.put(std::vector<std::int32_t>(n_pages, -77))};
}

Result run(Backend backend, const Problem& p) {
  Memory memory(backend);
  const SelectPagesArgs args = put(p, upload(p.cache, memory), memory);
  select_pages(args, {backend});
  return {memory.get(args.page_table), memory.get(args.slot_position), memory.get(args.n_slots),
          memory.get(args.selected)};
}

/// Page size 2, five pages with one group of two heads: q_0 = 1 in channel 0, q_1 = -1 in channel 1, and in these
///
///     page   channel 0   channel 1   q_0 gives   q_1 gives   score
///     0       -1 ... 2     0 ... 1       2           0         2
///     1        0 ... .5   -3 ... 1       .5          3         3
///     2       -5 ... 1     2 ... 4       1          -2         1
///     3        1 ... 2     0 ... 0       2           0         2
///     4       -9 ... -8    9 ... 9      -8          -9        -8     holds the newest token, in its first slot
///
/// Slot s holds position s, but slot 3 is free.
Problem golden_problem() {
  Problem p = {empty_cache({9}, 64, 6, DType::f32, 91, 2)};
  p.bounds = poison(6 * 2 * 64);
  const float low[5][2] = {{-1, 0}, {0, -3}, {-5, 2}, {1, 0}, {-9, 9}};
  const float high[5][2] = {{2, 1}, {0.5f, 1}, {1, 4}, {2, 0}, {-8, 9}};
  for (int page = 0; page < 5; ++page) {
    std::fill_n(p.bounds.begin() + page * 128, 128, 0.0f);
    std::copy_n(low[page], 2, p.bounds.begin() + page * 128);
    std::copy_n(high[page], 2, p.bounds.begin() + page * 128 + 64);
  }
  for (int slot = 0; slot < 9; ++slot) p.cache.slot_position[slot] = slot == 3 ? -1 : slot;
  p.n_heads = 2;
  p.q = std::vector<float>(128, 0.0f);
  p.q[0] = 1;
  p.q[64 + 1] = -1;
  p.position = 8;
  p.n_pages = 1;
  p.read_window = 1;
  p.max_selected = 5;
  return p;
}

/// The pages, without what is behind the last.
std::vector<std::int32_t> pages_read(Backend backend, const Problem& p) {
  std::vector<std::int32_t> pages = run(backend, p).selected;
  const auto end = std::find(pages.begin(), pages.end(), -1);
  CHECK(std::all_of(end, pages.end(), [](std::int32_t page) { return page == -1; }));
  pages.erase(end, pages.end());
  return pages;
}

using Pages = std::vector<std::int32_t>;

void check_golden_scores(Backend backend) {
  Problem p = golden_problem();
  const Pages expected[6] = {{4}, {1, 4}, {0, 1, 4}, {0, 1, 3, 4}, {0, 1, 2, 3, 4}, {0, 1, 2, 3, 4}};
  for (p.n_pages = 1; p.n_pages <= 6; ++p.n_pages) {
    CAPTURE(p.n_pages);
    p.max_selected = std::max(5, p.n_pages);
    CHECK(pages_read(backend, p) == expected[p.n_pages - 1]);
  }
  p.n_pages = 3;
  p.max_selected = 5;
  const auto& table = p.cache.page_table;
  CHECK(run(backend, p) == Result{.page_table = {table[0], table[1], table[4], 0, 0},
                                  .slot_position = {0, 1, 2, -1, 8, -1, -1, -1, -1, -1},
                                  .n_slots = {5},
                                  .selected = {0, 1, 4, -1, -1}});
}

void check_golden_window(Backend backend) {
  Problem p = golden_problem();
  p.n_pages = 2;
  p.read_window = 3;  // positions 6, 7, 8: pages 3 and 4, which leave no room for page 1
  CHECK(pages_read(backend, p) == Pages{3, 4});
  p.n_pages = 1;  // the window is read whatever the budget
  CHECK(pages_read(backend, p) == Pages{3, 4});
  p.n_pages = 3;
  CHECK(pages_read(backend, p) == Pages{1, 3, 4});

  // The last positions lie in reused slots all over the cache.
  p.cache.slot_position = {9, 1, 2, 11, 10, 5, 6, 7, 8, -1, -1, -1};
  p.position = 11;
  p.n_pages = 1;
  CHECK(pages_read(backend, p) == Pages{0, 1, 2});
  p.max_selected = 2;  // no room for all of the window: its newest tokens
  CHECK(pages_read(backend, p) == Pages{1, 2});
  p.max_selected = 1;
  CHECK(pages_read(backend, p) == Pages{1});
}

void check_golden_edges(Backend backend) {
  Problem p = golden_problem();
  p.n_pages = 2;
  p.bounds[2 * 128 + 7] = p.bounds[2 * 128 + 64 + 7] = NAN;  // read, so that it is seen
  CHECK(pages_read(backend, p) == Pages{2, 4});
  p = golden_problem();
  p.n_pages = 4;
  p.cache.slot_position[2] = -1;  // nothing is left in page 1
  std::fill_n(p.bounds.begin() + 128, 128, NAN);
  CHECK(pages_read(backend, p) == Pages{0, 2, 3, 4});
  p.q.assign(128, 0);  // equal scores: the lower pages
  p.n_pages = 3;
  CHECK(pages_read(backend, p) == Pages{0, 2, 4});
  p.cache.n_slots = {0};
  CHECK(run(backend, p) == Result{Pages(5, 0), Pages(10, -1), {0}, Pages(5, -1)});
}

/// Random bounds and slots; keys are not looked at. `in_order`: slot s holds position s but for holes, else positions
/// are anywhere and pages may be empty.
Problem random_problem(const std::vector<int>& n_slots, int max_pages, int group_size, int head_dim, DType dtype,
                       bool in_order) {
  const int n_kv_heads = static_cast<int>(n_slots.size());
  Problem p = {{n_kv_heads, head_dim, 16, max_pages, dtype}};
  p.cache.k_pool = p.cache.v_pool = poison(16 * head_dim);
  p.cache.n_slots = n_slots;
  p.cache.page_table.resize(static_cast<std::size_t>(n_kv_heads) * max_pages);
  std::iota(p.cache.page_table.rbegin(), p.cache.page_table.rend(), 5);
  p.cache.slot_position.assign(static_cast<std::size_t>(n_kv_heads) * p.cache.capacity(), -1);
  std::mt19937 random(92);
  p.position = *std::max_element(n_slots.begin(), n_slots.end()) - 1;
  for (int head = 0; head < n_kv_heads; ++head) {
    std::int32_t* position = p.cache.slot_position.data() + static_cast<std::ptrdiff_t>(head) * p.cache.capacity();
    for (int slot = 0; slot < n_slots[head]; ++slot) {
      const bool is_free = in_order ? slot % 5 == 4 : random() % 16 != 0;
      if (!is_free) position[slot] = in_order ? slot : static_cast<std::int32_t>(random() % (p.position + 1));
    }
  }
  // Tokens of a page are alike: low and high lie on both sides of a middle. Rounding makes equal scores.
  const std::size_t n = static_cast<std::size_t>(n_kv_heads) * max_pages;
  const auto middle = random_normal(n * head_dim, 93), width = random_normal(n * head_dim, 94);
  p.bounds.resize(2 * n * head_dim);
  for (std::size_t i = 0; i < n * head_dim; ++i) {
    const std::size_t at = i / head_dim * 2 * head_dim + i % head_dim;
    p.bounds[at] = rounded(middle[i] - std::abs(width[i]), dtype);
    p.bounds[at + head_dim] = rounded(middle[i] + std::abs(width[i]), dtype);
  }
  p.n_heads = n_kv_heads * group_size;
  p.q = rounded(random_normal(static_cast<std::size_t>(p.n_heads) * head_dim, 95), dtype);
  p.n_pages = 5;
  p.read_window = 20;
  p.max_selected = std::min(max_pages, 40);
  return p;
}

double score_of(const Problem& p, int kv_head, int page) {
  const int dim = p.cache.head_dim, group_size = p.n_heads / p.cache.n_kv_heads;
  const float* low = p.bounds.data() + (static_cast<std::size_t>(kv_head) * p.cache.max_pages + page) * 2 * dim;
  double best = -INFINITY;
  for (int head = kv_head * group_size; head < (kv_head + 1) * group_size; ++head) {
    double score = 0;
    for (int i = 0; i < dim; ++i) {
      const double q = p.q[static_cast<std::size_t>(head) * dim + i];
      score += std::max(q * low[i], q * low[dim + i]);
    }
    best = std::max(best, score);
  }
  return best;
}

/// What the header promises, from the definition in double.
void check_promises(const Problem& p, const Result& result) {
  const HostCache& cache = p.cache;
  for (int head = 0; head < cache.n_kv_heads; ++head) {
    int n_candidates = 0, n_forced = 0, n_forced_read = 0, n_read = 0;
    double least_read = INFINITY, most_unread = -INFINITY;
    for (int page = 0; page * cache.page_size < cache.n_slots[head]; ++page) {
      const auto row = cache.slot_position.begin() + static_cast<std::ptrdiff_t>(head) * cache.capacity();
      const std::int32_t newest = *std::max_element(row + page * cache.page_size, row + (page + 1) * cache.page_size);
      const auto selected = result.selected.begin() + static_cast<std::ptrdiff_t>(head) * p.max_selected;
      const bool is_read = std::find(selected, selected + p.max_selected, page) != selected + p.max_selected;
      const bool is_forced = newest > p.position - p.read_window;
      n_candidates += newest >= 0;
      n_read += is_read;
      n_forced += is_forced;
      n_forced_read += is_forced && is_read;
      if (newest < 0) CHECK_FALSE(is_read);
      if (newest < 0 || is_forced) continue;
      const double score = score_of(p, head, page);
      if (is_read) least_read = std::min(least_read, score);
      if (!is_read) most_unread = std::max(most_unread, score);
    }
    CAPTURE(head);
    CHECK(n_read == std::min({n_candidates, p.max_selected, std::max(p.n_pages, n_forced)}));
    CHECK(n_forced_read == std::min(n_forced, p.max_selected));
    CHECK(most_unread <= least_read + 1e-4);  // scores of size 100, summed in float32
  }
}

void check_random(Backend backend, const Problem& p) {
  const Result result = run(backend, p);
  CHECK(result == run(Backend::reference, p));
  check_promises(p, result);
}

void check_shapes(Backend backend) {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const int head_dim = GENERATE(64, 80, 96, 128, 192, 256);
  const int group_size = GENERATE(1, 4, 12);
  const bool in_order = GENERATE(true, false);
  CAPTURE(head_dim, group_size, in_order, static_cast<int>(dtype));
  Problem p = random_problem({1, 16, 17, 700, 1600, 0}, 100, group_size, head_dim, dtype, in_order);
  for (const int n_pages : {1, 7, 40, 100}) {
    p.n_pages = n_pages;
    p.max_selected = std::max(40, n_pages);
    CAPTURE(n_pages);
    check_random(backend, p);
  }
}

/// As many pages as each version of the choice takes, and the smallest number of which the next one takes.
void check_long(Backend backend) {
  const int max_pages = GENERATE(2048, 2049, 8192, 8193, 20'000);
  const bool in_order = GENERATE(true, false);
  CAPTURE(max_pages, in_order);
  Problem p = random_problem({max_pages * 16, max_pages * 16 - 9, 40}, max_pages, 4, 64, DType::bf16, in_order);
  for (const int n_pages : {2, 128, max_pages - 1}) {
    p.n_pages = n_pages;
    p.max_selected = std::max(200, n_pages);
    CAPTURE(n_pages);
    check_random(backend, p);
  }
  p.q.assign(p.q.size(), 0);  // all scores equal: the cut goes through them
  p.n_pages = max_pages / 2;
  p.max_selected = p.n_pages;
  check_random(backend, p);
}

/// A cache of real keys, its bounds, and room for all of its pages.
Problem cache_problem(Backend backend, DType dtype) {
  Problem p = {empty_cache({1, 130, 700, 0}, 64, 44, dtype, 96)};
  fill_slots(p.cache, 5, 97);
  p.n_heads = 4 * 4;
  p.q = rounded(random_normal(p.n_heads * 64, 98, 2), dtype);
  p.position = 3 * 698;  // of slot 698: 699 is free
  p.n_pages = p.max_selected = 44;
  p.read_window = 1;
  Memory memory(backend);
  auto* bounds = memory.put(poison(4 * 44 * 2 * 64, dtype));
  const PageBoundsArgs args = {.cache = upload(p.cache, memory), .decision = nullptr, .bounds = bounds};
  page_bounds(args, {backend});
  p.bounds = unpack(memory.get(bounds), dtype);
  return p;
}

struct Attention {
  std::vector<std::byte> o;
  std::vector<float> lse;
  bool operator==(const Attention&) const = default;
};

Attention attend(Backend backend, const Problem& p, const SlotCacheView& view, Memory& memory) {
  auto* o = memory.put(poison(p.q.size(), view.dtype));
  auto* lse = memory.put(poison(p.n_heads));
  const std::int64_t n_scratch = decode_attention_scratch_floats(p.n_heads, view);
  const DecodeAttentionArgs args = {.cache = view,
                                    .q = memory.put(pack(p.q, view.dtype)),
                                    .o = o,
                                    .lse = lse,
                                    .n_heads = p.n_heads,
                                    .scale = 0.125f,
                                    .scratch = memory.put(std::vector<float>(n_scratch + 1, 0.0f))};
  decode_attention(args, {backend});
  return {memory.get(o), memory.get(lse)};
}

void check_all_pages(Backend backend) {
  const Problem p = cache_problem(backend, GENERATE(DType::f32, DType::bf16));
  Memory memory(backend);
  const SlotCacheView view = upload(p.cache, memory);
  const SelectPagesArgs args = put(p, view, memory);
  select_pages(args, {backend});
  CHECK(memory.get(args.n_slots) == p.cache.n_slots);
  CHECK(memory.get(args.slot_position) == p.cache.slot_position);
  const Attention all = attend(backend, p, view, memory);
  const Attention selected = attend(backend, p, selected_view(args), memory);
  CHECK(std::equal(all.o.begin(), all.o.end(), selected.o.begin(), selected.o.end()));
  CHECK(all.lse == selected.lse);
}

/// The reference takes a head's tokens in the order of their slots, so that leaving pages out and freeing their slots
/// are the same sum.
void check_some_pages(Backend backend) {
  Problem p = cache_problem(backend, GENERATE(DType::f32, DType::bf16));
  p.n_pages = 6;
  const Result result = run(backend, p);
  Memory memory(Backend::reference);
  Problem freed = p;
  for (int head = 0; head < 4; ++head) {
    const auto selected = result.selected.begin() + head * p.max_selected;
    for (int slot = 0; slot < p.cache.capacity(); ++slot) {
      if (std::find(selected, selected + p.max_selected, slot / 16) != selected + p.max_selected) continue;
      freed.cache.slot_position[head * p.cache.capacity() + slot] = -1;
    }
  }
  HostCache compact = p.cache;
  compact.page_table = result.page_table;
  compact.slot_position = result.slot_position;
  compact.n_slots = result.n_slots;
  const Attention expected = attend(Backend::reference, p, upload(freed.cache, memory), memory);
  const Attention all = attend(Backend::reference, p, upload(p.cache, memory), memory);
  CHECK(attend(Backend::reference, p, upload(compact, memory), memory) == expected);
  CHECK_FALSE(expected == all);
}

/// Selection and attention of several tokens one after the other, which share what select_pages writes: a captured
/// graph runs them without a pause, each launch beginning while the one before still ends.
void check_graph() {
  constexpr int kSteps = 6;
  Problem p = cache_problem(Backend::cuda, DType::bf16);
  p.n_pages = 6;
  Memory memory(Backend::cuda);
  const SlotCacheView view = upload(p.cache, memory);
  SelectPagesArgs select = put(p, view, memory);
  const std::int64_t n_scratch = decode_attention_scratch_floats(p.n_heads, selected_view(select));
  DecodeAttentionArgs attention = {.cache = selected_view(select),
                                   .n_heads = p.n_heads,
                                   .scale = 0.125f,
                                   .scratch = memory.put(std::vector<float>(n_scratch + 1, 0.0f))};
  std::vector<std::byte*> q, o;
  for (int step = 0; step < kSteps; ++step) {
    q.push_back(memory.put(pack(random_normal(p.q.size(), 200 + step, 2), DType::bf16)));
    o.push_back(memory.put(poison(p.q.size(), DType::bf16)));
  }
  const auto enqueue = [&](int step, Place place) {
    select.q = attention.q = q[step];
    attention.o = o[step];
    select_pages(select, place);
    decode_attention(attention, place);
  };
  std::vector<std::vector<std::byte>> expected;
  std::vector<std::vector<std::int32_t>> pages;
  for (int step = 0; step < kSteps; ++step) {
    enqueue(step, {Backend::cuda});
    expected.push_back(memory.get(o[step]));
    pages.push_back(memory.get(select.selected));
    if (step > 0) CHECK(pages[step] != pages[step - 1]);
  }
  StepGraph graph;
  graph.capture([&](Place recording) {
    for (int step = 0; step < kSteps; ++step) enqueue(step, recording);
  });
  for (int i = 0; i < 20; ++i) graph.launch(nullptr);
  wait_for(nullptr);
  for (int step = 0; step < kSteps; ++step) CHECK(memory.get(o[step]) == expected[step]);
}

}  // namespace

TEST_CASE("select_pages: the best pages are those found by hand", "[kernels][select_pages]") {
  check_golden_scores(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("select_pages: the window is always read, its newest tokens first", "[kernels][select_pages]") {
  check_golden_window(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("select_pages: empty pages are never read, broken ones always, of equal ones the lower",
          "[kernels][select_pages]") {
  check_golden_edges(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("select_pages: attention over all pages is attention, bit for bit", "[kernels][select_pages]") {
  check_all_pages(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("select_pages: attention over some pages is attention over their tokens", "[kernels][select_pages]") {
  check_some_pages(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("select_pages: the CPU version takes the reference's pages and the best ones", "[kernels][select_pages]") {
  check_shapes(Backend::cpu);
}

TEST_CASE("select_pages: the CPU version takes the reference's pages of thousands", "[kernels][select_pages]") {
  check_long(Backend::cpu);
}

TEST_CASE("select_pages: a rank orders scores as numbers are", "[kernels][select_pages]") {
  const float scores[] = {-INFINITY, -3e38f, -1, -1e-40f, 0, 1e-40f, 1, 1.0000001f, 3e38f, INFINITY};
  for (int i = 1; i < 10; ++i) CHECK(rank_of_score(scores[i - 1]) < rank_of_score(scores[i]));
  CHECK(rank_of_score(-0.0f) == rank_of_score(0.0f));
  CHECK(rank_of_score(-INFINITY) > kNoTokens);
  CHECK(rank_of_score(INFINITY) == kBestScore);
  CHECK(rank_of_score(NAN) == kBestScore);
  CHECK(rank_of_age(0) > rank_of_age(1));
  CHECK(rank_of_age(1 << 30) > kBestScore);
}

TEST_CASE("select_pages: refuses what it cannot do, by name", "[kernels][select_pages][validate]") {
  Problem p = golden_problem();
  Memory memory(Backend::cpu);
  const SelectPagesArgs good = put(p, upload(p.cache, memory), memory);
  SelectPagesArgs args = good;
  args.n_pages = 0;
  CHECK_THROWS_WITH(select_pages(args, {}), Contains("select_pages: n_pages is 0; expected 1 ..."));
  args = good;
  args.read_window = 0;
  CHECK_THROWS_WITH(select_pages(args, {}), Contains("select_pages: read_window is 0; expected 1 ..."));
  args = good;
  args.n_pages = 4;
  args.max_selected = 3;
  CHECK_THROWS_WITH(select_pages(args, {}), Contains("select_pages: max_selected is 3; expected 4 ..."));
  args = good;
  args.selected = nullptr;
  CHECK_THROWS_WITH(select_pages(args, {Backend::reference}), "select_pages: selected is null");
}

TEST_CASE("select_pages: on CUDA the pages are those found by hand", "[kernels][select_pages][cuda]") {
  if (skip_without_device()) return;
  check_golden_scores(Backend::cuda);
  check_golden_window(Backend::cuda);
  check_golden_edges(Backend::cuda);
}

TEST_CASE("select_pages: on CUDA attention over all pages is attention, bit for bit", "[kernels][select_pages][cuda]") {
  if (skip_without_device()) return;
  check_all_pages(Backend::cuda);
}

TEST_CASE("select_pages: on CUDA attention over some pages is attention over their tokens",
          "[kernels][select_pages][cuda]") {
  if (skip_without_device()) return;
  check_some_pages(Backend::cuda);
}

TEST_CASE("select_pages: the CUDA version takes the reference's pages and the best ones",
          "[kernels][select_pages][cuda]") {
  if (skip_without_device()) return;
  check_shapes(Backend::cuda);
}

TEST_CASE("select_pages: the CUDA version takes the reference's pages of thousands", "[kernels][select_pages][cuda]") {
  if (skip_without_device()) return;
  check_long(Backend::cuda);
}

TEST_CASE("select_pages: on CUDA attention reads the selection of its own step", "[kernels][select_pages][cuda]") {
  if (skip_without_device()) return;
  check_graph();
}
