// What readers of config.json believe of the kernels (engine/core/files/weights/kernel_limits.h) is what the kernels take.
#include <algorithm>
#include <catch2/catch.hpp>

#include "engine/core/files/weights/kernel_limits.h"
#include "kernels/expert_mlp.h"
#include "kernels/lifetime_attention.h"
#include "kernels/project.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "kernels/route_experts.h"
#include "tests/kernels/backend.h"

using namespace kvscope::kernels;
using namespace kvscope::test;

static_assert(kvscope::kMaxProductRow == kMaxProjectDim && kvscope::kMaxProductRow == kMaxExpertFf);
static_assert(kvscope::kMaxNormRow == kMaxExpertDim && kvscope::kMaxExperts == kMaxRoutedExperts);
static_assert(kvscope::kMaxExpertsPerToken == kMaxChosenExperts);

namespace {

template <typename Call>
bool takes(const Call& call) {
  try {
    call();
    return true;
  } catch (const std::invalid_argument&) {
    return false;
  }
}

/// One query on one key of one head.
bool attends(int head_dim, Backend backend, float* x) {
  return takes([&] {
    lifetime_attention({.q = x,
                        .k = x,
                        .v = x,
                        .o = x + head_dim,
                        .q_len = 1,
                        .kv_len = 1,
                        .n_heads = 1,
                        .n_kv_heads = 1,
                        .head_dim = head_dim,
                        .scale = 1},
                       {backend});
  });
}

}  // namespace

TEST_CASE("limits: the CPU attends with the heads that a configuration may have, and no others", "[kernels][limits]") {
  std::vector<float> x(1024);
  for (int head_dim = 1; head_dim <= kvscope::kMaxHeadDim + 8; ++head_dim) {
    CAPTURE(head_dim);
    const bool may = head_dim % kvscope::kHeadDimStep == 0 && head_dim <= kvscope::kMaxHeadDim;
    CHECK(attends(head_dim, Backend::cpu, x.data()) == may);
    if (!may) continue;
    std::int32_t position = 0;
    CHECK(takes([&] {
      rope({.x = x.data(),
            .positions = &position,
            .inv_freq = x.data() + 512,
            .n_tokens = 1,
            .n_heads = 1,
            .head_dim = head_dim},
           {});
    }));
  }
}

TEST_CASE("limits: the widest row that a configuration may have is normed, and none wider", "[kernels][limits]") {
  std::vector<float> x(kvscope::kMaxNormRow + 1), out(x.size());
  for (const int dim : {kvscope::kMaxNormRow, kvscope::kMaxNormRow + 1}) {
    CHECK(takes([&] {
            rms_norm({.x = x.data(),
                      .weight = x.data(),
                      .out = out.data(),
                      .n_rows = 1,
                      .x_stride = dim,
                      .dim = dim,
                      .eps = 1e-6f},
                     {});
          }) == (dim == kvscope::kMaxNormRow));
  }
}

TEST_CASE("limits: CUDA attends with the heads that are said to run there, and no others", "[kernels][limits][cuda]") {
  if (skip_without_device()) return;
  Memory memory(Backend::cuda);
  auto* x = memory.put(std::vector<float>(1024, 0.0f));
  for (int head_dim = 8; head_dim <= kvscope::kMaxHeadDim; head_dim += 8) {
    CAPTURE(head_dim);
    CHECK(attends(head_dim, Backend::cuda, x) == (std::ranges::count(kvscope::kCudaHeadDims, head_dim) > 0));
  }
}
