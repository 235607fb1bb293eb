// The same model on CPU and CUDA.
#include <filesystem>

#include "engine/decode/eviction/slot_cache.h"
#include "kernels/device.h"
#include "tests/engine/policy_cases.h"
#include "tests/engine/small_model.h"
#include "tests/support/folders.h"
#include "tests/support/skip.h"
#include "tests/support/torch_catch.h"  // before LibTorch

namespace kvscope {
namespace {

TEST_CASE("CPU and CUDA keep the same tokens of a small model in float32", "[engine][cuda]") {
  if (kernels::device_count() == 0) return test::skip("no CUDA device");
  const std::string policy =
      GENERATE(as<std::string>{}, "full", "streaming:sinks=4,window=32", "kvpop:budget=48,sinks=4,window=16",
               "kvpop:keep=25%,sinks=2,window=16,decay=0.99,stride=4", "threshold:threshold=0.02,sinks=4,window=16");
  const int prompt_len = GENERATE(1, 60, 150);
  CAPTURE(policy, prompt_len);
  const std::vector<std::int32_t> ids = test::some_ids(150);
  const test::Fed cpu = test::feed(test::small_model(), ids, prompt_len, policy);
  const test::Fed cuda = test::feed(test::small_model(1, 16, "cuda"), ids, prompt_len, policy);
  CHECK(cpu.record.evict_at == cuda.record.evict_at);
  CHECK(cpu.kept == cuda.kept);
  CHECK(test::relative_difference(cuda.logits, cpu.logits) < 1e-4);  // float32 sums in another order
}

TEST_CASE("on CUDA a prompt in chunks leaves the cache of the prompt at once on the CPU", "[engine][cuda]") {
  if (kernels::device_count() == 0) return test::skip("no CUDA device");
  const std::string policy =
      GENERATE(as<std::string>{}, "full", "streaming:sinks=4,window=32", "kvpop:budget=48,sinks=4,window=16",
               "kvpop:keep=25%,sinks=2,window=16,decay=0.99,stride=4", "threshold:threshold=0.02,sinks=4,window=16");
  const int chunk = GENERATE(1, 7, 64, 100);
  CAPTURE(policy, chunk);
  const std::vector<std::int32_t> ids = test::some_ids(300);
  const test::Fed cpu = test::feed(test::small_model(), ids, 300, policy, {.chunk = 300});
  const test::Fed cuda = test::feed(test::small_model(1, 16, "cuda"), ids, 290, policy, {.chunk = chunk});
  CHECK(cpu.record.evict_at == cuda.record.evict_at);
  CHECK(cpu.kept == cuda.kept);
  CHECK(test::relative_difference(cuda.logits, cpu.logits) < 1e-4);  // float32 sums in another order
}

TEST_CASE("in bfloat16 a prompt in chunks is as near to float32 as the prompt at once", "[engine][cuda]") {
  if (kernels::device_count() == 0) return test::skip("no CUDA device");
  const std::string policy = GENERATE(as<std::string>{}, "full", "streaming:sinks=4,window=400");
  CAPTURE(policy);
  const engine::LoadedModel model = engine::LoadedModel::random(test::small_config(), 1, {"cuda", "bfloat16"}, 16);
  const std::vector<std::int32_t> ids = test::some_ids(1000);
  const test::Fed exact = test::feed(test::small_model(1, 16, "cuda"), ids, 1000, policy, {.chunk = 1000});
  const auto error = [&](int chunk) {
    return test::relative_difference(test::feed(model, ids, 1000, policy, {.chunk = chunk}).logits, exact.logits);
  };
  const double at_once = error(1000);
  CHECK(at_once < 0.05);  // bfloat16 has 8 bits; two layers
  for (const int chunk : {64, 200, 333}) CHECK(error(chunk) < 2 * at_once + 0.01);
}

TEST_CASE("CPU and CUDA decode the same text and the same oracle from the sample model", "[engine][cuda]") {
  if (kernels::device_count() == 0) return test::skip("no CUDA device");
  const std::filesystem::path sample = test::in_source("samples/models/kvscope-tiny");
  if (!std::filesystem::exists(sample / "model.safetensors")) return test::skip("the sample model is not there");
  RunRequest request = test::request({}, "kvpop:budget=96,sinks=4,window=64", 48);
  request.prompt = "The code of the amber falcon is 4821.\n";
  for (int i = 0; i < 12; ++i) request.prompt += "Every house in the street has a garden with an old wall around it. ";
  request.prompt += "\nWhat is the code of the amber falcon?";
  request.oracle = true;
  const RunRecord cpu = engine::record_run(engine::LoadedModel::load(sample, {"cpu", "float32"}), request);
  const RunRecord cuda = engine::record_run(engine::LoadedModel::load(sample, {"cuda", "float32"}), request);
  CHECK(cpu.ids == cuda.ids);
  CHECK(cpu.evict_at == cuda.evict_at);
  for (int layer = 0; layer < cpu.model.n_layers; ++layer) {
    for (int head = 0; head < cpu.model.n_kv_heads; ++head) {
      for (int t = 0; t + 64 < cpu.n_tokens(); ++t) {
        REQUIRE(cuda.future_mass.row(layer, head)[t] == Approx(cpu.future_mass.row(layer, head)[t]).margin(1e-5));
      }
    }
  }
}

TEST_CASE("CUDA in bfloat16 decodes a small model without a value that is not finite", "[engine][cuda]") {
  if (kernels::device_count() == 0) return test::skip("no CUDA device");
  const engine::LoadedModel model = engine::LoadedModel::random(test::small_config(), 1, {"cuda", "auto"}, 16);
  CHECK(model.info().dtype == "bfloat16");
  const RunRecord run =
      engine::record_run(model, test::request(test::some_ids(200), "kvpop:keep=25%,sinks=4,window=16", 60));
  CHECK(run.n_tokens() == 260);  // Generation throws on logits that are not finite
}

TEST_CASE("on CUDA heads of 192 and 256 channels give the logits of the CPU", "[engine][cuda]") {
  if (kernels::device_count() == 0) return test::skip("no CUDA device");
  ModelConfig config = test::wide_config();
  config.head_dim = GENERATE(192, 256);
  config.n_kv_heads = GENERATE(1, 2, 4);
  const std::string policy =
      GENERATE(as<std::string>{}, "full", "streaming:sinks=4,window=32", "h2o:budget=40,window=16",
               "quest:read=32,dense=1", "kvpop:budget=48,sinks=4,window=16");
  const int prompt_len = GENERATE(1, 130, 150);
  CAPTURE(config.head_dim, config.n_kv_heads, policy, prompt_len);
  const auto logits_on = [&](const char* device, const char* dtype) {
    const engine::LoadedModel model = engine::LoadedModel::random(config, 1, {device, dtype}, 16);
    return test::feed(model, test::some_ids(150), prompt_len, policy).logits;
  };
  const std::vector<float> expected = logits_on("cpu", "float32");
  CHECK(test::relative_difference(logits_on("cuda", "float32"), expected) < 1e-4);  // float32 sums in another order
  if (policy != "full" && !policy.starts_with("streaming")) return;  // rounding may let another token stay
  CHECK(test::relative_difference(logits_on("cuda", "bfloat16"), expected) < 0.05);  // 8 bits, two layers
}

}  // namespace
}  // namespace kvscope
