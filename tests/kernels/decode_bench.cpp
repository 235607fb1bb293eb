// How fast the CPU kernels of a decode step read memory. Prints, asserts nothing:
//   kernel_tests '[.bench]'
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <numeric>

#include "kernels/admit_step.h"
#include "kernels/cpu/gemv.h"
#include "kernels/decode_attention.h"
#include "kernels/logit_summary.h"
#include "kernels/parallel_for.h"
#include "kernels/project.h"
#include "tests/kernels/cache_fixture.h"
#include "tests/kernels/numbers.h"

using namespace kvscope::kernels;
using namespace kvscope::test;

namespace {

struct Seconds {
  double median, best;  // the best of many is what the kernel can do; the median what a busy machine lets it do
};

/// Of `n` calls after a few that do not count.
template <typename Body>
Seconds seconds_of(int n, const Body& body) {
  std::vector<double> seconds;
  for (int i = 0; i < n + 3; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    body();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(seconds.begin() + 3, seconds.end());
  return {seconds[3 + n / 2], seconds[3]};
}

/// `n` floats with all cores, as rows of 4096.
void read_all(const float* data, std::int64_t n) {
  constexpr int kRow = 4096, kRows = 16;
  static const std::vector<float> x(kRow, 1.0f);
  parallel_for(n / (kRow * kRows), 2 * kRow * kRows, [&](std::int64_t i) {
    float y[kRows];
    cpu::best_gemv().multiply(DType::f32, data, i * kRow * kRows, x.data(), kRow, kRows, 1, y, kRows);
  });
}

struct Shape {
  const char* name;
  int hidden, ff, q_rows, kv_rows, n_layers;
  std::int64_t vocab;
};

/// The linear layers of one decode step, each layer with weights of its own.
class Step {
 public:
  Step(const Shape& shape, DType dtype) : shape_(shape), dtype_(dtype) {
    const std::int64_t h = shape.hidden;
    layer_ = h * (shape.q_rows + 2 * shape.kv_rows) + h * shape.q_rows + 3 * h * shape.ff;
    n_weights_ = layer_ * shape.n_layers + h * shape.vocab;
    const auto pattern = pack(random_normal(1 << 16, 91, 0.02f), dtype);
    weights_.resize(n_weights_ * size_of(dtype));
    for (std::size_t at = 0; at < weights_.size(); at += pattern.size()) {
      std::copy_n(pattern.begin(), std::min(pattern.size(), weights_.size() - at), weights_.begin() + at);
    }
    norm_ = pack(std::vector<float>(shape.hidden, 1.0f), dtype);
    residual_ = random_normal(shape.hidden, 92);
    x_ = pack(random_normal(std::max({shape.ff, shape.q_rows, shape.hidden}), 93), dtype);
    wide_.resize(std::max<std::int64_t>(shape.vocab, 2L * shape.ff) * sizeof(float));
  }

  std::size_t bytes() const { return weights_.size(); }
  const std::byte* weights() const { return weights_.data(); }

  void run() {
    for (int layer = 0; layer < shape_.n_layers; ++layer) run_layer(layer);
    project(shape_.vocab, shape_.hidden, Epilogue::logits);
  }

  void run_layer(int layer) {
    at_ = layer * layer_;
    project(shape_.q_rows + 2 * shape_.kv_rows, shape_.hidden, Epilogue::store);
    project(shape_.hidden, shape_.q_rows, Epilogue::add);
    project(2L * shape_.ff, shape_.hidden, Epilogue::swiglu);
    project(shape_.hidden, shape_.ff, Epilogue::add);
  }
  std::int64_t layer_bytes() const { return layer_ * static_cast<std::int64_t>(size_of(dtype_)); }

 private:
  void project(std::int64_t n_rows, int dim, Epilogue epilogue) {
    const bool adds = epilogue == Epilogue::add;
    kvscope::kernels::project({.weight = weights_.data() + at_ * size_of(dtype_),
                               .x = adds ? static_cast<const void*>(x_.data()) : residual_.data(),
                               .norm_weight = adds ? nullptr : norm_.data(),
                               .out = adds ? static_cast<void*>(residual_.data()) : wide_.data(),
                               .n_rows = n_rows,
                               .dim = dim,
                               .epilogue = epilogue,
                               .dtype = dtype_},
                              {});
    at_ += n_rows * dim;
  }

  Shape shape_;
  DType dtype_;
  std::int64_t layer_, n_weights_, at_ = 0;
  std::vector<std::byte> weights_, norm_, x_, wide_;
  std::vector<float> residual_;
};

}  // namespace

TEST_CASE("decode step on CPU: linear layers against the memory's speed", "[.bench]") {
  const Shape shapes[] = {{"sample", 256, 768, 512, 256, 6, 4096}, {"Qwen3-0.6B", 1024, 3072, 2048, 1024, 28, 151'936}};
  std::printf("%s\n", cpu::best_gemv().name);
  for (const Shape& shape : shapes) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      if (shape.n_layers > 6 && dtype == DType::f32) continue;  // 2.4 GB
      Step step(shape, dtype);
      const Seconds whole = seconds_of(shape.n_layers > 6 ? 5 : 300, [&] { step.run(); });
      std::printf("%-10s %s: step of %6.1f MB: median %8.3f ms, best %8.3f ms, %5.1f GB/s\n", shape.name,
                  dtype == DType::f32 ? "f32 " : "bf16", static_cast<double>(step.bytes()) / 1e6, 1e3 * whole.median,
                  1e3 * whole.best, static_cast<double>(step.bytes()) / whole.best / 1e9);
      // Layer after layer, none of which is in a cache; and the same bytes merely read, in turn.
      int layer = 0;
      const int n = 20 * shape.n_layers;
      const auto* bytes = reinterpret_cast<const float*>(step.weights());
      const Seconds layers = seconds_of(n, [&] { step.run_layer(layer++ % shape.n_layers); });
      const Seconds reads = seconds_of(
          n, [&] { read_all(bytes + layer++ % shape.n_layers * (step.layer_bytes() / 4), step.layer_bytes() / 4); });
      std::printf("%-10s       layer of %4.1f MB: best %5.1f GB/s; merely read: best %5.1f GB/s\n", "",
                  static_cast<double>(step.layer_bytes()) / 1e6, step.layer_bytes() / layers.best / 1e9,
                  step.layer_bytes() / reads.best / 1e9);
    }
  }
}

TEST_CASE("decode step on CPU: attention and admission of one layer of the sample model", "[.bench]") {
  constexpr int kKvHeads = 4, kGroup = 2, kDim = 64, kDelay = 64;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const int n_slots : {64, 512, 4096}) {
      Memory memory(Backend::cpu);
      HostCache cache = empty_cache(std::vector<int>(kKvHeads, n_slots), kDim, n_slots / 16, dtype, 3);
      cache.k_pool = random_normal(cache.k_pool.size(), 94);
      cache.v_pool = random_normal(cache.v_pool.size(), 95);
      for (std::size_t i = 0; i < cache.slot_position.size(); ++i) {
        cache.slot_position[i] = static_cast<std::int32_t>(i % n_slots);
      }
      cache.slot_priority = random_normal(cache.slot_priority.size(), 99);
      const SlotCacheView view = upload(cache, memory);
      const auto* q = memory.put(pack(random_normal(kKvHeads * kGroup * kDim, 96), dtype));
      auto* o = memory.put(poison(kKvHeads * kGroup * kDim, dtype));
      const DecodeAttentionArgs attention = {
          .cache = view, .q = q, .o = o, .lse = nullptr, .n_heads = kKvHeads * kGroup, .scale = 0.125f};
      const Seconds attended = seconds_of(500, [&] { decode_attention(attention, {}); });

      const auto numbers = [&](std::size_t n) { return memory.put(random_normal(n, 97, 0.1f)); };
      std::int32_t position = n_slots - 1;  // takes the last slot each time; the contest looks at all the others
      RetainDecision decision[kKvHeads];
      AdmitStepArgs admit = {.cache = view,
                             .qkv = memory.put(pack(random_normal((kGroup + 2) * kKvHeads * kDim, 98), dtype)),
                             .inv_freq = numbers(kDim / 2),
                             .position = &position,
                             .q = o,
                             .n_heads = kKvHeads * kGroup,
                             .policy = {.rule = RetainRule::top_k, .window = 16, .top_k = n_slots},
                             .decision = decision};
      admit.scorer = {.project = numbers(kKvHeads * 2 * kDim * (2 * kDim + 3)),
                      .bias = numbers(kKvHeads * 3),
                      .read = numbers(kKvHeads * kDim),
                      .c = numbers(kKvHeads * kDim * kDim),
                      .z = numbers(kKvHeads * kDim),
                      .m = numbers(kKvHeads),
                      .queries = numbers(kKvHeads * kDelay * kDim),
                      .direct = numbers(kKvHeads * kDelay),
                      .delay = kDelay};
      const Seconds admitted = seconds_of(500, [&] {
        std::fill_n(view.n_slots, kKvHeads, n_slots - 1);
        admit_step(admit, {});
      });
      std::printf(
          "sample layer %s, %4d slots: attention %6.1f us (median %6.1f), admit_step with scorer %6.1f us (%6.1f)\n",
          dtype == DType::f32 ? "f32 " : "bf16", n_slots, 1e6 * attended.best, 1e6 * attended.median,
          1e6 * admitted.best, 1e6 * admitted.median);
    }
  }
}
