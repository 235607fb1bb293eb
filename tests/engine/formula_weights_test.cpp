// Random weights: one value each, wherever and however they are made.
#include "engine/model/formula_weights.h"

#include <chrono>
#include <cmath>
#include <ctime>
#include <functional>

#include "engine/core/support/hash.h"
#include "engine/core/support/seconds_since.h"
#include "engine/model/device.h"
#include "kernels/device.h"
#include "tests/support/model_folder.h"
#include "tests/support/skip.h"
#include "tests/support/torch_catch.h"  // before LibTorch

namespace kvscope::engine {
namespace {

constexpr std::uint64_t kSeed = 7;
// A matrix, an embedding, a norm and a bias; the matrix has elements for several threads.
const std::vector<std::pair<std::string, std::vector<std::int64_t>>> kTensors = {
    {"model.layers.0.mlp.down_proj.weight", {5150, 301}},
    {"model.embed_tokens.weight", {97, 33}},
    {"model.norm.weight", {50}},
    {"model.layers.0.self_attn.q_proj.bias", {50}}};

at::Tensor expected(const std::string& name, const std::vector<std::int64_t>& shape) {
  return at::tensor(test::formula_tensor(name, shape, kSeed), at::kFloat).view(shape);
}

at::Tensor filled(const std::string& name, const std::vector<std::int64_t>& shape, at::TensorOptions options) {
  at::Tensor out = at::empty(shape, options);
  fill_by_formula(out, name, kSeed);
  return out.cpu();
}

TEST_CASE("random weights are the formula's, in float32 and rounded to bfloat16", "[engine][model]") {
  for (const auto& [name, shape] : kTensors) {
    INFO(name);
    CHECK(at::equal(filled(name, shape, at::kFloat), expected(name, shape)));
    CHECK(at::equal(filled(name, shape, at::kBFloat16), expected(name, shape).to(at::kBFloat16)));
  }
}

TEST_CASE("random weights made by operations of tensors, part by part, have the same bits", "[engine][model]") {
  const auto& [name, shape] = kTensors[0];
  const at::Tensor whole = expected(name, shape).view({-1});
  const std::uint64_t start = fnv1a64(name) + kSeed;
  const auto scale = static_cast<float>(std::sqrt(3.0 / 301));
  for (const std::int64_t begin : {0, 1000}) {
    CHECK(at::equal(formula_elements(start, begin, 5000, scale, at::kCPU), whole.narrow(0, begin, 5000)));
  }
}

TEST_CASE("random weights have the same bits on a GPU", "[engine][model][cuda]") {
  if (kernels::device_count() == 0) return test::skip("no CUDA device");
  open_cuda(0);
  for (const auto& [name, shape] : kTensors) {
    INFO(name);
    CHECK(at::equal(filled(name, shape, at::TensorOptions(at::kBFloat16).device(at::kCUDA)),
                    expected(name, shape).to(at::kBFloat16)));
  }
}

TEST_CASE("seconds for 1e9 random weights", "[model][.bench]") {
  const at::ScalarType dtype = GENERATE(at::kFloat, at::kBFloat16);
  const std::vector<std::int64_t> shape = {12288, 4096};  // one of Qwen3-8B's matrices
  const double billions = 12288 * 4096 / 1e9;
  const auto report = [&](const char* how, const std::function<void(at::Tensor&)>& make) {
    const std::clock_t processor = std::clock();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 8; ++i) {
      at::Tensor out = at::empty(shape, dtype);
      make(out);
    }
    WARN(how << ", " << at::toString(dtype) << ": " << seconds_since(begin) / 8 / billions << " s, "
             << static_cast<double>(std::clock() - processor) / CLOCKS_PER_SEC / 8 / billions << " s of processors");
  };
  const TensorSource source = formula_source(kSeed);
  report("made in float32, then copied", [&](at::Tensor& out) { out.copy_(source("w", shape)); });
  report("made in place", [&](at::Tensor& out) { fill_by_formula(out, "w", kSeed); });
}

}  // namespace
}  // namespace kvscope::engine
