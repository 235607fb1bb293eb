// Columns of the softmax matrix, against the whole matrix and against the oracle that adds them up.
#include "engine/decode/token_attention.h"

#include <cmath>
#include <limits>

#include "engine/core/support/error.h"
#include "engine/decode/dense_teacher.h"
#include "engine/model/transformer.h"
#include "tests/engine/plain_layer.h"
#include "tests/engine/small_model.h"
#include "tests/support/torch_catch.h"  // before LibTorch

namespace kvscope::engine {
namespace {

/// Dense attention by loops in double over rows, columns and heads; keeps p[layer][head][q][t].
class LoopHook final : public AttentionHook {
 public:
  at::Tensor attend(int, const LayerTokens& tokens) override {
    const at::Tensor q = tokens.q.to(at::kDouble).contiguous(), k = tokens.k.to(at::kDouble).contiguous(),
                     v = tokens.v.to(at::kDouble).contiguous();
    const auto n = q.size(0), heads = q.size(1), kv_heads = k.size(1), d = q.size(2);
    at::Tensor o = at::zeros({n, heads, d}, at::kDouble), p = at::zeros({heads, n, n}, at::kDouble);
    const auto qa = q.accessor<double, 3>(), ka = k.accessor<double, 3>(), va = v.accessor<double, 3>();
    auto oa = o.accessor<double, 3>(), pa = p.accessor<double, 3>();
    for (std::int64_t h = 0; h < heads; ++h) {
      const std::int64_t group = h / (heads / kv_heads);
      for (std::int64_t i = 0; i < n; ++i) {
        double sum = test::sink_weight(tokens.scores, static_cast<int>(h));
        for (std::int64_t t = 0; t <= i; ++t) {
          double dot = 0;
          for (std::int64_t c = 0; c < d; ++c) dot += qa[i][h][c] * ka[t][group][c];
          sum += pa[h][i][t] = test::weight_of(tokens.scores, dot);
        }
        for (std::int64_t t = 0; t <= i; ++t) {
          pa[h][i][t] /= sum;
          for (std::int64_t c = 0; c < d; ++c) oa[i][h][c] += pa[h][i][t] * va[t][group][c];
        }
      }
    }
    all.push_back(p);
    return o.to(tokens.q.scalar_type());
  }
  std::vector<at::Tensor> all;
};

TEST_CASE("attention of chosen tokens: every query's share is that of the whole softmax matrix",
          "[engine][attention]") {
  const int n = 70;
  const bool is_plain = GENERATE(true, false);
  const LoadedModel model =
      is_plain ? test::small_model()
               : LoadedModel::random(test::small_variant_config(), 1, {"cpu", "float32"}, /*scorer_window=*/16);
  const std::vector<std::int32_t> ids = test::some_ids(n);
  LoopHook hook;
  forward(model.config(), model.weights(), ids_tensor(model.weights(), ids.data(), n), 0, hook);
  for (int layer = 0; layer < 2; ++layer) {
    const TokenAttention found = token_attention(model, {.ids = ids, .layer = layer, .tokens = {0, 41, 69}});
    REQUIRE(found.n_heads == 4);
    REQUIRE(found.n_queries == n);
    REQUIRE(found.probability.size() == std::size_t{3} * 4 * n);
    const auto p = hook.all[static_cast<std::size_t>(layer)].accessor<double, 3>();
    for (std::size_t i = 0; i < 3; ++i) {
      for (int head = 0; head < 4; ++head) {
        for (int q = 0; q < n; ++q) {
          const float share = found.row(i, head)[q];
          if (q < found.tokens[i]) {
            REQUIRE(std::isnan(share));
          } else {
            REQUIRE(share == Approx(p[head][q][found.tokens[i]]).epsilon(1e-4).margin(1e-7));  // float32 against double
          }
        }
      }
    }
  }
}

TEST_CASE("attention of chosen tokens: over all tokens each query's shares add up to one, in chunks too",
          "[engine][attention]") {
  const int n = 530;  // more than the 512 queries of a chunk
  const LoadedModel model = test::small_model();
  const std::vector<std::int32_t> ids = test::some_ids(n);
  std::vector<double> sum(static_cast<std::size_t>(n) * 4, 0);
  for (int first = 0; first < n; first += TokenAttentionRequest::kMostTokens) {
    TokenAttentionRequest request{.ids = ids, .layer = 1, .tokens = {}};
    for (int t = first; t < std::min(n, first + TokenAttentionRequest::kMostTokens); ++t) request.tokens.push_back(t);
    const TokenAttention found = token_attention(model, request);
    for (std::size_t i = 0; i < request.tokens.size(); ++i) {
      for (int head = 0; head < 4; ++head) {
        for (int q = request.tokens[i]; q < n; ++q)
          sum[static_cast<std::size_t>(head) * n + q] += found.row(i, head)[q];
      }
    }
  }
  for (const double of_query : sum) REQUIRE(of_query == Approx(1).epsilon(1e-5));
}

TEST_CASE("attention of chosen tokens: its mean over the queries behind the window is what the oracle goes by",
          "[engine][attention][oracle]") {
  const int n = 90, window = 16;
  const bool is_plain = GENERATE(true, false);
  const LoadedModel model =
      is_plain ? test::small_model() : LoadedModel::random(test::small_variant_config(), 1, {"cpu", "float32"}, window);
  const std::vector<std::int32_t> ids = test::some_ids(n);
  DenseTeacher teacher(model, n, window, OracleSpec::parse("agg=max"));
  teacher.absorb(ids);
  const HeadSeries<float> mass = teacher.future_mass();
  const TokenAttention found = token_attention(model, {.ids = ids, .layer = 1, .tokens = {5, 30, 60}});
  for (std::size_t i = 0; i < found.tokens.size(); ++i) {
    const int token = found.tokens[i];
    for (int kv_head = 0; kv_head < 2; ++kv_head) {
      double most = 0;
      for (int head = 2 * kv_head; head < 2 * kv_head + 2; ++head) {
        double sum = 0;
        for (int q = token + window; q < n; ++q) sum += found.row(i, head)[q];
        most = std::max(most, sum / (n - token - window));
      }
      CHECK(mass.row(1, kv_head)[static_cast<std::size_t>(token)] == Approx(most).epsilon(1e-4));
    }
  }
}

TEST_CASE("attention of chosen tokens: what is not there is refused by name", "[engine][attention]") {
  const LoadedModel model = test::small_model();
  const std::vector<std::int32_t> ids = test::some_ids(20);
  const auto refusal = [&](const TokenAttentionRequest& request) -> std::string {
    try {
      token_attention(model, request);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  CHECK(refusal({.ids = ids, .layer = 2, .tokens = {0}}) == "attention: layer: 2; expected 0 ... 1");
  CHECK(refusal({.ids = ids, .layer = -1, .tokens = {0}}) == "attention: layer: -1; expected 0 ... 1");
  CHECK(refusal({.ids = ids, .layer = 0, .tokens = {20}}) == "attention: token: 20; expected 0 ... 19");
  CHECK(refusal({.ids = ids, .layer = 0, .tokens = {3, 3}}) == "attention: tokens: a token twice");
  CHECK(refusal({.ids = ids, .layer = 0, .tokens = {}}) == "attention: tokens: 0; expected 1 ... 16");
  CHECK(refusal({.ids = {}, .layer = 0, .tokens = {0}}).find("attention: ids: 0") == 0);
  CHECK(refusal({.ids = {1 << 30}, .layer = 0, .tokens = {0}}).find("attention: id:") == 0);
  Hooks hooks;
  hooks.cancelled = [] { return true; };
  CHECK_THROWS_WITH(token_attention(model, {.ids = ids, .layer = 0, .tokens = {0}}, hooks),
                    Catch::Matchers::Contains("cancelled"));
}

}  // namespace
}  // namespace kvscope::engine
