// How fast the CPU kernels of a decode step read memory. Prints, asserts nothing:
//   kernel_tests '[.bench]'
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <numeric>

#include "kernels/cpu/gemv.h"
#include "kernels/cpu/parallel_for.h"
#include "kernels/project.h"
#include "tests/kernels/numbers.h"

using namespace kvscope::kernels;
using namespace kvscope::test;

namespace {

/// Median seconds of `n` calls after a few that do not count.
template <typename Body>
double median_seconds(int n, const Body& body) {
  std::vector<double> seconds;
  for (int i = 0; i < n + 3; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    body();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  seconds.erase(seconds.begin(), seconds.begin() + 3);
  std::nth_element(seconds.begin(), seconds.begin() + n / 2, seconds.end());
  return seconds[n / 2];
}

/// All of `data` with all cores, as rows of 4096.
void read_all(const std::vector<float>& data) {
  constexpr int kRow = 4096, kRows = 64;
  cpu::parallel_for(static_cast<std::int64_t>(data.size()) / (kRow * kRows), 2 * kRow * kRows, [&](std::int64_t i) {
    float y[kRows];
    cpu::best_gemv().f32(data.data() + i * kRow * kRows, data.data(), kRow, kRows, 1, y, kRows);
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

  void run() {
    at_ = 0;
    for (int layer = 0; layer < shape_.n_layers; ++layer) {
      project(shape_.q_rows + 2 * shape_.kv_rows, shape_.hidden, Epilogue::store);
      project(shape_.hidden, shape_.q_rows, Epilogue::add);
      project(2L * shape_.ff, shape_.hidden, Epilogue::swiglu);
      project(shape_.hidden, shape_.ff, Epilogue::add);
    }
    project(shape_.vocab, shape_.hidden, Epilogue::logits);
  }

 private:
  void project(std::int64_t n_rows, int dim, Epilogue epilogue) {
    const bool adds = epilogue == Epilogue::add;
    cpu::project({.weight = weights_.data() + at_ * size_of(dtype_),
                  .x = adds ? static_cast<const void*>(x_.data()) : residual_.data(),
                  .norm_weight = adds ? nullptr : norm_.data(),
                  .out = adds ? static_cast<void*>(residual_.data()) : wide_.data(),
                  .n_rows = n_rows,
                  .dim = dim,
                  .epilogue = epilogue,
                  .dtype = dtype_});
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
  const std::vector<float> block(64 << 20, 1.0f);
  const double bandwidth = 4.0 * block.size() / median_seconds(9, [&] { read_all(block); });
  std::printf("%s; reading 256 MB: %.1f GB/s\n", cpu::best_gemv().name, bandwidth / 1e9);
  const Shape shapes[] = {{"sample", 256, 768, 512, 256, 6, 4096}, {"Qwen3-0.6B", 1024, 3072, 2048, 1024, 28, 151'936}};
  for (const Shape& shape : shapes) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      if (shape.n_layers > 6 && dtype == DType::f32) continue;  // 2.4 GB
      Step step(shape, dtype);
      const double seconds = median_seconds(shape.n_layers > 6 ? 9 : 300, [&] { step.run(); });
      std::printf("%-10s %s: %7.1f MB, %8.3f ms, %5.1f GB/s\n", shape.name, dtype == DType::f32 ? "f32 " : "bf16",
                  static_cast<double>(step.bytes()) / 1e6, 1e3 * seconds,
                  static_cast<double>(step.bytes()) / seconds / 1e9);
    }
  }
}
