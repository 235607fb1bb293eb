// One dense pass that scores a text by every gate.
#include "engine/decode/gate_pass.h"

#include <algorithm>
#include <cmath>

#include "engine/core/study/measure/what_if.h"
#include "engine/core/support/error.h"
#include "engine/decode/run.h"
#include "kernels/device.h"
#include "tests/engine/gated_model.h"
#include "tests/support/mlstm_variants.h"
#include "tests/support/skip.h"
#include "tests/support/torch_catch.h"  // before LibTorch

namespace kvscope {
namespace {

using Catch::Matchers::Contains;

constexpr int kTokens = 600;  // two chunks of the pass

std::vector<GateFile> gates() {
  return {test::random_gate(GateKind::sp_kv), test::random_gate(GateKind::wg_kv), test::random_gate(GateKind::dms),
          test::random_gate(GateKind::kvpop_mlstm, 16), test::random_gate(GateKind::kvzap_mlp)};
}
const engine::LoadedModel& model() {
  static const engine::LoadedModel loaded = test::gated_model(gates());
  return loaded;
}
const std::vector<std::int32_t>& ids() {
  static const std::vector<std::int32_t> all = test::some_ids(kTokens, 512, 31);
  return all;
}

/// Over all heads the most of max |a - b| / max(1, max |b|) over a head's tokens, where both say NaN or neither. A random
/// gate's score may be a small difference of large terms, whose rounding is the head's and not the token's.
double difference(const HeadSeries<float>& a, const HeadSeries<float>& b) {
  double most = 0;
  for (int layer = 0; layer < a.n_layers(); ++layer) {
    for (int head = 0; head < a.n_kv_heads(); ++head) {
      const auto &x = a.row(layer, head), &y = b.row(layer, head);
      REQUIRE(x.size() == y.size());
      double apart = 0, size = 1;
      for (std::size_t t = 0; t < x.size(); ++t) {
        REQUIRE(std::isnan(x[t]) == std::isnan(y[t]));
        if (std::isnan(x[t])) continue;
        apart = std::max(apart, std::abs(static_cast<double>(x[t]) - y[t]));
        size = std::max(size, std::abs(static_cast<double>(y[t])));
      }
      most = std::max(most, apart / size);
    }
  }
  return most;
}

TEST_CASE("gate scores: each gate's are those of a run under its policy that evicts nothing", "[engine][gates]") {
  const ScoresOfGates all = engine::gate_scores(model(), {ids()});
  REQUIRE(all.size() == 5);
  const char* keeps_all[] = {"sp-kv:threshold=0,strict=0", "wg-kv:threshold=0,strict=0", "dms:threshold=-1000000",
                             "kvpop:budget=600", "kvzap:threshold=-100"};
  for (std::size_t i = 0; i < 5; ++i) {
    CAPTURE(keeps_all[i]);
    const RunRecord run = test::feed(model(), ids(), kTokens, keeps_all[i]).record;
    CHECK(all[i].gate.kind == model().gates()[i].scorer->kind());
    CHECK(all[i].text == model().gates()[i].scorer->description());
    CHECK(all[i].gate.delay == (i == 3 ? 16 : model().gates()[i].scorer->delay()));
    // The prompt of a run is read in other chunks: float32 sums in another order.
    CHECK(difference(all[i].scores, run.scores) < 1e-5);
  }
}

TEST_CASE("gate scores: CUDA's are the CPU's", "[engine][gates][cuda]") {
  if (kernels::device_count() == 0) return test::skip("no CUDA device");
  const engine::LoadedModel on_cuda = test::gated_model(gates(), "cuda");
  const ScoresOfGates cpu = engine::gate_scores(model(), {ids()}), cuda = engine::gate_scores(on_cuda, {ids()});
  REQUIRE(cuda.size() == cpu.size());
  for (std::size_t i = 0; i < cpu.size(); ++i) {
    CAPTURE(cpu[i].text);
    CHECK(cuda[i].text == cpu[i].text);
    CHECK(difference(cuda[i].scores, cpu[i].scores) < 1e-4);  // float32 sums in another order, through two layers
  }
}

/// Scores of a run that evicts nothing, whose first `prompt` tokens are read at once.
HeadSeries<float> variant_scores(const MlstmVariant& variant, const char* device, int prompt) {
  const engine::LoadedModel model =
      test::gated_model({test::random_gate(GateKind::kvpop_mlstm, 16, /*kernel=*/1, variant)}, device);
  return test::feed(model, ids(), prompt, "kvpop:budget=600,window=16").record.scores;
}

TEST_CASE("gate scores: of the mLSTM's variants those of steps are those of a prompt", "[engine][gates]") {
  const MlstmVariant variant = test::mlstm_variants()[GENERATE(0u, 1u, 2u, 3u, 4u)];
  CAPTURE(static_cast<int>(variant.feature_map), variant.head_norm, variant.cached_values, variant.skip);
  CHECK(difference(variant_scores(variant, "cpu", kTokens / 2), variant_scores(variant, "cpu", kTokens)) < 1e-4);
}

TEST_CASE("gate scores: of the mLSTM's variants CUDA's are the CPU's, in prompts and in steps",
          "[engine][gates][cuda]") {
  if (kernels::device_count() == 0) return test::skip("no CUDA device");
  const MlstmVariant variant = test::mlstm_variants()[GENERATE(0u, 1u, 2u, 3u, 4u)];
  CAPTURE(static_cast<int>(variant.feature_map), variant.head_norm, variant.cached_values, variant.skip);
  const int prompt = GENERATE(as<int>{}, kTokens, kTokens / 2);  // without as<int>, of references
  CHECK(difference(variant_scores(variant, "cuda", prompt), variant_scores(variant, "cpu", prompt)) < 1e-4);
}

TEST_CASE("gate scores: what a full run is previewed as by them is the run of a gate that evicts, in the first layer",
          "[engine][gates]") {
  // Above it the hidden states are those of a run that evicts: that is what a preview does not know.
  const RunRecord full = test::feed(model(), ids(), kTokens, "full").record;
  const ScoresOfGates all = engine::gate_scores(model(), {full.ids});
  const auto median = [&](std::size_t gate) {
    std::vector<float> row = all[gate].scores.row(0, 0);
    std::nth_element(row.begin(), row.begin() + kTokens / 2, row.end());
    return std::to_string(row[kTokens / 2]);
  };
  for (const std::string& policy : {"wg-kv:window=16,threshold=" + median(1), std::string("kvpop:keep=25%"),
                                    "sp-kv:sinks=2,window=16,threshold=" + median(0)}) {
    CAPTURE(policy);
    REQUIRE(lacks_scores(full, PolicySpec::parse(policy)));
    const RunRecord preview = what_if(full, PolicySpec::parse(policy), all);
    const RunRecord run = test::feed(model(), ids(), kTokens, policy).record;
    CHECK(preview.policy == run.policy);
    int differ = 0, leave = 0;
    for (int head = 0; head < full.model.n_kv_heads; ++head) {
      for (int t = 0; t < kTokens; ++t) {
        differ += preview.evict_at.row(0, head)[t] != run.evict_at.row(0, head)[t];
        leave += run.evict_at.row(0, head)[t] < kUndecided;
      }
    }
    CHECK(leave > 100);
    CHECK(differ <= 2);  // a near-tie of two roundings
  }
}

TEST_CASE("gate scores: the same text gives the same bytes, and what cannot be read is refused", "[engine][gates]") {
  const ScoresOfGates once = engine::gate_scores(model(), {ids()}), twice = engine::gate_scores(model(), {ids()});
  for (std::size_t i = 0; i < once.size(); ++i) CHECK(difference(once[i].scores, twice[i].scores) == 0);
  CHECK_THROWS_WITH(engine::gate_scores(model(), {{}}), Contains("0 tokens"));
  CHECK_THROWS_WITH(engine::gate_scores(model(), {{5, 512}}), Contains("512"));
  CHECK_THROWS_WITH(engine::gate_scores(model(), {{-1}}), Contains("-1"));
  CHECK_THROWS_WITH(engine::gate_scores(test::gated_model({}), {ids()}), Contains("without any gate"));
  int asked = 0;
  engine::Hooks hooks;
  hooks.cancelled = [&] { return ++asked > 1; };
  CHECK_THROWS_WITH(engine::gate_scores(model(), {ids()}, hooks), Contains("cancelled"));
}

}  // namespace
}  // namespace kvscope
