// A wrong argument is refused by name and value, by every back end, before memory is touched.
#include <catch2/catch.hpp>
#include <cmath>
#include <stdexcept>

#include "kernels/decode_attention.h"
#include "kernels/future_attention.h"
#include "kernels/lifetime_attention.h"
#include "kernels/mlstm_step.h"
#include "kernels/retain_step.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "tests/kernels/backend.h"

using namespace kvscope::kernels;
using namespace kvscope::test;
using Catch::Matchers::Contains;

TEST_CASE("validate: a bad size is refused by name and value", "[kernels][validate]") {
  float x[16] = {};
  const RmsNormArgs norm = {.x = x, .weight = x, .out = x, .n_rows = 1, .x_stride = 0, .dim = 0, .eps = 0};
  CHECK_THROWS_WITH(rms_norm(norm, {}), "rms_norm: dim is 0; expected 1 ... 16384");
  CHECK_THROWS_WITH(rms_norm(norm, {Backend::reference}), "rms_norm: dim is 0; expected 1 ... 16384");
  const RopeArgs odd = {.x = x, .n_tokens = 1, .n_heads = 1, .head_dim = 65};
  CHECK_THROWS_WITH(rope(odd, {}), "rope: head_dim is 65; expected an even number");
  const MlstmStepArgs step = {.n_heads = 1, .d_key = 300, .d_value = 1};
  CHECK_THROWS_WITH(mlstm_step(step, {}), "mlstm_step: d_key is 300; expected 1 ... 256");
}

TEST_CASE("validate: sizes that do not fit together are refused", "[kernels][validate]") {
  const LifetimeAttentionArgs heads = {.n_heads = 6, .n_kv_heads = 4, .head_dim = 64};
  CHECK_THROWS_WITH(lifetime_attention(heads, {}),
                    "lifetime_attention: n_heads is 6; expected a multiple of n_kv_heads");
  const LifetimeAttentionArgs keys = {
      .q_start = 10, .q_len = 5, .kv_len = 14, .n_heads = 1, .n_kv_heads = 1, .head_dim = 64};
  CHECK_THROWS_WITH(lifetime_attention(keys, {}), Contains("kv_len is 14; expected 15 ..."));
  const FutureAttentionArgs stride = {
      .mass_stride = 3, .q_len = 4, .kv_len = 4, .n_heads = 1, .n_kv_heads = 1, .head_dim = 64};
  CHECK_THROWS_WITH(future_attention(stride, {Backend::reference}), Contains("mass_stride is 3; expected 4 ..."));
}

TEST_CASE("validate: a soft cap that is not a finite positive number is refused", "[kernels][validate]") {
  LifetimeAttentionArgs args = {.n_heads = 1, .n_kv_heads = 1, .head_dim = 64, .variant = {.soft_cap = -1}};
  CHECK_THROWS_WITH(lifetime_attention(args, {}), Contains("lifetime_attention: soft_cap is -1.000000; expected 0 or"));
  args.variant.soft_cap = INFINITY;
  CHECK_THROWS_WITH(lifetime_attention(args, {Backend::reference}), Contains("soft_cap is inf"));
  const FutureAttentionArgs future = {.n_heads = 1, .n_kv_heads = 1, .head_dim = 64, .soft_cap = NAN};
  CHECK_THROWS_WITH(future_attention(future, {}), Contains("future_attention: soft_cap is nan"));
}

TEST_CASE("validate: a missing pointer is refused by name", "[kernels][validate]") {
  const DecodeAttentionArgs args = {.cache = {.n_kv_heads = 1, .head_dim = 64, .page_size = 16, .max_pages = 1},
                                    .n_heads = 1};
  CHECK_THROWS_WITH(decode_attention(args, {}), "decode_attention: cache.slot_position is null");
  CHECK_THROWS_AS(decode_attention(args, {}), std::invalid_argument);
}

TEST_CASE("validate: a window of 0 cannot be decided, since token q is not in the cache yet", "[kernels][validate]") {
  std::int32_t some = 0;
  RetainDecision decision;
  const RetainStepArgs args = {
      .cache = {.slot_position = &some, .n_slots = &some, .n_kv_heads = 1, .page_size = 16, .max_pages = 1},
      .policy = {.rule = RetainRule::window, .window = 0, .decay_stride = 1},
      .decision = &decision,
      .slot = &some};
  CHECK_THROWS_WITH(retain_step(args, {}), Contains("window is 0; expected 1 ..."));
}

TEST_CASE("validate: CUDA refuses a head_dim that it was not compiled for", "[kernels][validate][cuda]") {
  if (skip_without_device()) return;
  Memory memory(Backend::cuda);
  auto* x = memory.put(std::vector<float>(72 * 4, 0.0f));
  const LifetimeAttentionArgs args = {.q = x,
                                      .k = x,
                                      .v = x,
                                      .o = x,
                                      .q_len = 1,
                                      .kv_len = 1,
                                      .n_heads = 1,
                                      .n_kv_heads = 1,
                                      .head_dim = 72,
                                      .scale = 1};
  CHECK_THROWS_WITH(lifetime_attention(args, {Backend::cuda}),
                    "lifetime_attention: head_dim is 72; expected 64, 80, 96, 128, 192 or 256");
}
