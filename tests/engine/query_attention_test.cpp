// The last row of the softmax matrix, against its columns.
#include "engine/decode/query_attention.h"

#include <numeric>

#include "engine/core/support/error.h"
#include "engine/decode/token_attention.h"
#include "tests/engine/small_model.h"
#include "tests/support/torch_catch.h"  // before LibTorch

namespace kvscope::engine {
namespace {

TEST_CASE("attention of a query: each share is the mean over the group of what the token's column has there",
          "[engine][attention]") {
  const int n = GENERATE(70, 530);  // 530: more than the 512 queries of a chunk
  const int kind = GENERATE(0, 1, 2);
  ModelConfig config = kind == 1 ? test::small_variant_config() : test::small_config();
  if (kind == 2) config.layers[0].window = 24;
  const LoadedModel model = LoadedModel::random(config, 1, {"cpu", "float32"}, /*scorer_window=*/16);
  const std::vector<std::int32_t> ids = test::some_ids(n), tokens = {0, 1, 33, n - 25, n - 24, n - 1};
  const QueryAttention found = query_attention(model, {ids});
  REQUIRE((found.n_layers == 2 && found.n_kv_heads == 2 && found.n_tokens == n));
  REQUIRE(found.probability.size() == std::size_t{2} * 2 * static_cast<std::size_t>(n));
  for (int layer = 0; layer < 2; ++layer) {
    const TokenAttention columns = token_attention(model, {.ids = ids, .layer = layer, .tokens = tokens});
    for (int head = 0; head < 2; ++head) {
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        const double mean = (columns.row(i, 2 * head)[n - 1] + columns.row(i, 2 * head + 1)[n - 1]) / 2.0;
        REQUIRE(found.row(layer, head)[tokens[i]] == Approx(mean).epsilon(1e-4).margin(1e-7));
      }
      if (kind != 1)  // no sink, which takes a part
        CHECK(std::accumulate(found.row(layer, head), found.row(layer, head) + n, 0.0) == Approx(1).epsilon(1e-5));
    }
  }
}

TEST_CASE("attention of a query: what is not there is refused by name", "[engine][attention]") {
  const LoadedModel model = test::small_model();
  CHECK_THROWS_WITH(query_attention(model, {}), Catch::Matchers::Contains("query_attention: ids: 0"));
  CHECK_THROWS_WITH(query_attention(model, {{1 << 30}}), Catch::Matchers::Contains("query_attention: id:"));
  Hooks hooks;
  hooks.cancelled = [] { return true; };
  CHECK_THROWS_WITH(query_attention(model, {test::some_ids(20)}, hooks), Catch::Matchers::Contains("cancelled"));
}

}  // namespace
}  // namespace kvscope::engine
