// Runs in a batch and runs alone.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/core/protocol/events.h"
#include "engine/core/support/error.h"
#include "engine/decode/generation_batch.h"
#include "kernels/device.h"
#include "tests/engine/small_model.h"
#include "tests/support/folders.h"
#include "tests/support/skip.h"
#include "tests/support/torch_catch.h"  // before LibTorch

namespace kvscope {
namespace {

using engine::Generation;
using engine::GenerationBatch;
using engine::LoadedModel;

/// All that a step says but how long it took and what the id is spelt like, as bits.
nlohmann::json said(StepFacts facts) {
  facts.seconds = 0;
  return protocol::to_json(facts, 0);
}

/// Prompts of different lengths and answers of different lengths; every third is sampled.
RunRequest request_of(int index, const std::string& policy) {
  RunRequest request =
      test::request(test::some_ids(20 + 13 * index, 512, 7 + index), policy, index % 4 == 1 ? 3 : 24 + index);
  if (index % 3 == 2) {
    request.sampling.temperature = 0.8;
    request.sampling.seed = static_cast<std::uint64_t>(index);
  }
  return request;
}

void check_batch(const LoadedModel& model, int n, const std::vector<std::string>& policies) {
  std::vector<RunRequest> requests;
  for (int i = 0; i < n; ++i) {
    requests.push_back(request_of(i, policies[static_cast<std::size_t>(i) % policies.size()]));
  }
  GenerationBatch batch(model, requests);
  std::vector<std::vector<nlohmann::json>> together(static_cast<std::size_t>(n));
  const std::vector<StepFacts> prefilled = batch.prefill();
  for (int i = 0; i < n; ++i) together[i].push_back(said(prefilled[i]));
  while (!batch.finished()) {
    for (const GenerationBatch::Step& step : batch.step()) together[step.index].push_back(said(step.facts));
  }
  CHECK(batch.step().empty());
  for (int i = 0; i < n; ++i) {
    CAPTURE(n, i);
    Generation alone(model, requests[i]);
    std::size_t at = 0;
    REQUIRE(together[i].at(at++) == said(alone.prefill()));
    while (!alone.finished()) REQUIRE(together[i].at(at++) == said(alone.step()));
    REQUIRE(at == together[i].size());
    CHECK(batch.run(i).ids() == alone.ids());
    const std::span<const float> found = batch.run(i).logits(), expected = alone.logits();
    CHECK(std::equal(found.begin(), found.end(), expected.begin(), expected.end()));
  }
}

const std::vector<std::string> kPolicies = {"kvpop:budget=48,sinks=4,window=16",
                                            "full",
                                            "streaming:sinks=4,window=32",
                                            "kvpop:budget=40,sinks=2,window=16,decay=0.97,stride=8",
                                            "threshold:threshold=0.02,sinks=4,window=16",
                                            "kvpop:budget=40,sinks=4,window=16,capacity=pooled"};

TEST_CASE("a batch says of each run what the run says alone, bit for bit", "[engine][batch]") {
  const int n = GENERATE(1, 2, 5, 9);
  check_batch(test::small_model(), n, kPolicies);
}

TEST_CASE("a batch has one run at least and 32 at most", "[engine][batch]") {
  const LoadedModel model = test::small_model();
  CHECK_THROWS_AS(GenerationBatch(model, {}), Error);
  CHECK_THROWS_AS(GenerationBatch(model, std::vector<RunRequest>(33, request_of(0, "full"))), Error);
}

TEST_CASE("on CUDA a batch says of each run what the run says alone, bit for bit", "[engine][batch][cuda]") {
  if (kernels::device_count() == 0) return test::skip("no CUDA device");
  const int n = GENERATE(1, 2, 9, 32);
  check_batch(test::small_model(1, 16, "cuda"), n, kPolicies);
}

TEST_CASE("on CUDA a batch of the sample model in bfloat16 is its runs", "[engine][batch][cuda]") {
  if (kernels::device_count() == 0) return test::skip("no CUDA device");
  const std::filesystem::path sample = test::in_source("samples/models/kvscope-tiny");
  check_batch(LoadedModel::load(sample, {"cuda", "bfloat16"}), 10, {"kvpop:budget=100,sinks=4,window=64", "full"});
}

}  // namespace
}  // namespace kvscope
