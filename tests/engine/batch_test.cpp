// Generations in a batch and Generations alone.
#include <algorithm>
#include <filesystem>
#include <map>

#include "engine/core/support/error.h"
#include "engine/decode/generation_batch.h"
#include "kernels/device.h"
#include "tests/engine/reported_run.h"
#include "tests/engine/small_model.h"
#include "tests/support/folders.h"
#include "tests/support/skip.h"
#include "tests/support/torch_catch.h"  // before LibTorch

namespace kvscope {
namespace {

using engine::Generation;
using engine::GenerationBatch;
using engine::LoadedModel;
using test::said;

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

/// n runs through a batch of `room`: run i joins i % 3 steps after the one before, as soon as there is room.
void check_batch(const LoadedModel& model, int n, int room, const std::vector<std::string>& policies) {
  std::vector<Generation> runs;
  std::map<const Generation*, std::vector<nlohmann::json>> together;
  for (int i = 0; i < n; ++i)
    runs.emplace_back(model, request_of(i, policies[static_cast<std::size_t>(i) % policies.size()]));
  GenerationBatch batch(model, room);
  const auto step = [&] {
    for (const GenerationBatch::Step& step : batch.step()) {
      REQUIRE_FALSE(step.error);
      together[step.run].push_back(said(step.facts));
      if (step.run->finished()) batch.leave(*step.run);
    }
  };
  for (int i = 0; i < n; ++i) {
    for (int waited = 0; waited < i % 3 || batch.size() == room; ++waited) step();
    together[&runs[i]].push_back(said(runs[i].prefill()));
    batch.join(runs[i]);
  }
  while (batch.size() > 0) step();
  CHECK(batch.step().empty());
  for (int i = 0; i < n; ++i) {
    CAPTURE(n, room, i);
    Generation alone(model, runs[i].request());
    const std::vector<nlohmann::json>& found = together[&runs[i]];
    std::size_t at = 0;
    REQUIRE(found.at(at++) == said(alone.prefill()));
    while (!alone.finished()) REQUIRE(found.at(at++) == said(alone.step()));
    REQUIRE(at == found.size());
    CHECK(runs[i].ids() == alone.ids());
    const std::span<const float> logits = runs[i].logits(), expected = alone.logits();
    CHECK(std::equal(logits.begin(), logits.end(), expected.begin(), expected.end()));
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
  check_batch(test::small_model(), n, n, kPolicies);
}

TEST_CASE("a run that takes the place of another in a batch says what it says alone", "[engine][batch]") {
  check_batch(test::small_model(), 9, GENERATE(1, 3), kPolicies);
}

TEST_CASE("a batch has room for one run at least and for 32 at most", "[engine][batch]") {
  const LoadedModel model = test::small_model();
  CHECK_THROWS_AS(GenerationBatch(model, 0), Error);
  CHECK_THROWS_AS(GenerationBatch(model, 33), Error);
  CHECK_NOTHROW(GenerationBatch(model, 32));
}

TEST_CASE("on CUDA a batch says of each run what the run says alone, bit for bit", "[engine][batch][cuda]") {
  if (kernels::device_count() == 0) return test::skip("no CUDA device");
  const int n = GENERATE(1, 2, 9, 32);
  check_batch(test::small_model(1, 16, "cuda"), n, n, kPolicies);
}

TEST_CASE("on CUDA a run that takes the place of another in a batch says what it says alone", "[engine][batch][cuda]") {
  if (kernels::device_count() == 0) return test::skip("no CUDA device");
  check_batch(test::small_model(1, 16, "cuda"), 20, GENERATE(1, 3), kPolicies);
}

TEST_CASE("on CUDA a batch of the sample model in bfloat16 is its runs", "[engine][batch][cuda]") {
  if (kernels::device_count() == 0) return test::skip("no CUDA device");
  const std::filesystem::path sample = test::in_source("samples/models/kvscope-tiny");
  check_batch(LoadedModel::load(sample, {"cuda", "bfloat16"}), 10, 10, {"kvpop:budget=100,sinks=4,window=64", "full"});
}

TEST_CASE("attention timed alone between two steps changes no step", "[engine][batch]") {
  const LoadedModel model = test::small_model();
  for (const char* policy : {"full", "kvpop:budget=40,sinks=2,window=16", "h2o:budget=24,window=8", "quest:read=16"}) {
    CAPTURE(policy);
    std::vector<nlohmann::json> plain, timed;
    for (std::vector<nlohmann::json>* steps : {&plain, &timed}) {
      Generation run(model, request_of(3, policy));
      run.prefill();
      GenerationBatch batch(model, 1);
      batch.join(run);
      while (!run.finished()) {
        steps->push_back(said(batch.step().at(0).facts));
        if (steps == &timed) CHECK(batch.attention_seconds(2) > 0);
      }
    }
    CHECK(plain == timed);
  }
}

}  // namespace
}  // namespace kvscope
