// SP-KV's locally bidirectional predictor (App. C.4) in the engine: its scores come half a kernel late and wait for the window's
// end, however a text is divided into calls. What a score is: gate_rules_test.cpp; what every policy keeps to: conformance_test.cpp.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/core/study/measure/what_if.h"
#include "engine/core/support/error.h"
#include "engine/decode/gate_pass.h"
#include "engine/decode/generation_batch.h"
#include "engine/jobs/job.h"
#include "engine/model/device.h"
#include "tests/engine/gated_model.h"
#include "tests/support/folders.h"
#include "tests/support/skip.h"
#include "tests/support/temp_folder.h"
#include "tests/support/torch_catch.h"  // before LibTorch

namespace kvscope {
namespace {

using Catch::Matchers::Contains;

constexpr int kTokens = 150;

GateFile gate_of(int kernel) {
  GateFile gate = test::random_gate(GateKind::sp_kv, /*delay=*/0, kernel);
  gate.config.window = std::max(gate.config.window, gate.config.delay);
  for (float& tap : gate.tensors["conv"].values) tap *= 3 / std::sqrt(static_cast<float>(kernel));
  return gate;
}

/// Greatest difference of scores, where both or neither are known.
double difference(const HeadSeries<float>& a, const HeadSeries<float>& b) {
  double most = 0;
  for (int layer = 0; layer < a.n_layers(); ++layer) {
    for (int head = 0; head < a.n_kv_heads(); ++head) {
      const auto &x = a.row(layer, head), &y = b.row(layer, head);
      REQUIRE(x.size() == y.size());
      for (std::size_t t = 0; t < x.size(); ++t) {
        REQUIRE(std::isnan(x[t]) == std::isnan(y[t]));
        if (!std::isnan(x[t])) most = std::max(most, std::abs(static_cast<double>(x[t]) - y[t]));
      }
    }
  }
  return most;
}

/// As run() records it: feed() leaves out whose scores these are.
RunRecord scored(RunRecord run) {
  run.scorer = {.kind = "sp_kv", .delay = 4, .text = "SP-KV, delay 4"};
  return run;
}

int count_left(const RunRecord& run) {
  int n = 0;
  for (int head = 0; head < 4; ++head)
    n += static_cast<int>(
        std::ranges::count_if(run.evict_at.row(head / 2, head % 2), [](auto at) { return at < kUndecided; }));
  return n;
}

TEST_CASE("bidirectional: a text in one call, in chunks, and in chunks and steps is the same run",
          "[engine][bidirectional]") {
  // A kernel within the window, one of which half is the window, one longer than most chunks.
  const auto [kernel, policy] = GENERATE(table<int, const char*>({{9, "sp-kv:threshold=0.5,sinks=1,window=16"},
                                                                  {33, "sp-kv:threshold=0.5,sinks=1,window=16"},
                                                                  {65, "sp-kv:threshold=0.5,window=40"},
                                                                  {9, "top-k:budget=40,sinks=2,window=16"}}));
  CAPTURE(kernel, policy);
  const engine::LoadedModel model = test::gated_model({gate_of(kernel)});
  const std::vector<std::int32_t> ids = test::some_ids(kTokens, 512, 41);
  const test::Fed whole = test::feed(model, ids, kTokens, policy);
  CHECK(count_left(whole.record) > 100);
  CHECK(model.scorer()->delay() == kernel / 2);
  const auto [prompt_len, chunk] = GENERATE(table<int, int>(
      {{kTokens, 1}, {kTokens, 7}, {kTokens, 32}, {kTokens, 149}, {1, 0}, {3, 0}, {60, 0}, {100, 13}, {149, 64}}));
  CAPTURE(prompt_len, chunk);
  const test::Fed parts = test::feed(model, ids, prompt_len, policy, {.chunk = chunk});
  CHECK(parts.kept == whole.kept);
  CHECK(parts.record.evict_at == whole.record.evict_at);
  // A product of one row and of many: float32 sums in another order.
  CHECK(difference(parts.record.scores, whole.record.scores) < 1e-5);
  CHECK(test::relative_difference(parts.logits, whole.logits) < 1e-4);
}

TEST_CASE("bidirectional: a kernel that is the identity decides as the gate without one", "[engine][bidirectional]") {
  GateFile gate = gate_of(9);
  std::vector<float>& taps = gate.tensors["conv"].values;
  for (std::size_t i = 0; i < taps.size(); ++i) taps[i] = i % 9 == 4 ? 1.0f : 0.0f;
  GateFile plain = gate;
  plain.tensors.erase("conv");
  plain.config.kernel = 1;
  plain.config.delay = 0;
  const std::string dtype = GENERATE("float32", "bfloat16");
  const engine::LoadedModel with = test::gated_model({gate}, "cpu", dtype),
                            without = test::gated_model({plain}, "cpu", dtype);
  const std::vector<std::int32_t> ids = test::some_ids(kTokens, 512, 42);
  for (const int prompt_len : {100, 40}) {  // the math library's products of more than 128 rows vary (ops::linear)
    CAPTURE(prompt_len, dtype);
    const test::Fed a = test::feed(with, ids, prompt_len, "sp-kv:threshold=0.5,window=16"),
                    b = test::feed(without, ids, prompt_len, "sp-kv:threshold=0.5,window=16");
    CHECK(a.kept == b.kept);
    CHECK(a.logits == b.logits);  // of the same decisions, and of nothing else
    for (int head = 0; head < 4; ++head) {
      const auto &x = a.record.scores.row(head / 2, head % 2), &y = b.record.scores.row(head / 2, head % 2);
      // Of the same units, but by the product of a prompt's many rows here and of a step's one row there.
      for (std::size_t t = 0; t + 4 < x.size(); ++t) REQUIRE(x[t] == Approx(y[t]).margin(1e-6));
    }
  }
}

TEST_CASE("bidirectional: what if and gate scores are those of the run, in the first layer",
          "[engine][bidirectional]") {
  // Above it the hidden states are those of a run that evicts, which no preview knows.
  const engine::LoadedModel model = test::gated_model({gate_of(9)});
  const std::vector<std::int32_t> ids = test::some_ids(kTokens, 512, 43);
  const RunRecord full = test::feed(model, ids, kTokens, "full").record,
                  open = scored(test::feed(model, ids, kTokens, "sp-kv:threshold=0,window=16").record);
  const ScoresOfGates scores = engine::gate_scores(model, {ids});
  CHECK(difference(scores[0].scores, open.scores) < 1e-5);
  for (const char* policy :
       {"sp-kv:threshold=0.5,window=16", "sp-kv:threshold=0.45,sinks=3,window=4", "sp-kv:threshold=0.5,window=50"}) {
    CAPTURE(policy);
    const RunRecord run = scored(test::feed(model, ids, 77, policy).record);
    CHECK(count_left(run) > 50);
    for (const RunRecord& preview :
         {what_if(open, PolicySpec::parse(policy)), what_if(full, PolicySpec::parse(policy), scores)}) {
      for (int head = 0; head < 2; ++head) CHECK(preview.evict_at.row(0, head) == run.evict_at.row(0, head));
    }
    CHECK(what_if(run, PolicySpec::parse(policy)).evict_at == run.evict_at);  // and of the run's own scores all of it
  }
}

TEST_CASE("bidirectional: a window that ends before the last token is seen is refused, with what it needs",
          "[engine][bidirectional]") {
  const engine::LoadedModel model = test::gated_model({gate_of(9)});
  const std::vector<std::int32_t> ids = test::some_ids(40, 512, 44);
  CHECK_THROWS_WITH(test::feed(model, ids, 40, "sp-kv:window=3"),
                    Contains("window: 3; expected at least 4, because this gate looks that many tokens ahead"));
  CHECK_NOTHROW(test::feed(model, ids, 40, "sp-kv:window=4"));
  CHECK(model.gate_numbers().scorers[0].delay == 4);
  CHECK(model.info().scorer == "SP-KV, delay 4, gate 0");
}

TEST_CASE("bidirectional: sequences of a batch remember their own tokens", "[engine][bidirectional]") {
  const engine::LoadedModel model = test::gated_model({gate_of(9)});
  std::vector<RunRequest> requests;
  for (const int length : {3, 30, 61})
    requests.push_back(test::request(test::some_ids(length, 512, 45), "sp-kv:window=16", 40));
  std::vector<engine::Generation> runs;
  engine::GenerationBatch batch(model, 3);
  for (const RunRequest& request : requests) {
    runs.emplace_back(model, request);
    runs.back().prefill();
  }
  for (engine::Generation& run : runs) batch.join(run);
  while (!batch.step().empty()) continue;
  for (int i = 0; i < 3; ++i) {
    CAPTURE(i);
    engine::Generation alone(model, requests[static_cast<std::size_t>(i)]);
    alone.prefill();
    while (!alone.finished()) alone.step();
    CHECK(runs[i].ids() == alone.ids());
    const std::span<const float> found = runs[i].logits(), expected = alone.logits();
    CHECK(std::equal(found.begin(), found.end(), expected.begin(), expected.end()));
  }
}

TEST_CASE("bidirectional: what a training of the sample leaves is read and run, and evicts by what it has learnt",
          "[engine][bidirectional]") {
  const std::filesystem::path sample = test::in_source("samples/models/kvscope-tiny");
  const test::TempFolder scratch;
  const nlohmann::json recipe = {{"name", "test"},
                                 {"seed", 3},
                                 {"data", {{"kind", "text"}, {"length", 96}, {"facts_share", 0}}},
                                 {"gate",
                                  {{"method", "sp-kv"},
                                   {"kernel", 17},
                                   {"hidden", 8},
                                   {"window", 16},
                                   {"sinks", 1},
                                   {"batch", 2},
                                   {"bias", 1},
                                   {"log_every", 1},
                                   {"warm_up", 0},
                                   {"learning_rate", 0.02},
                                   {"stages", {{{"price", 0.5}, {"steps", 8}}}}}}};
  engine::JobContext context;
  engine::train_job({{"recipe", recipe},
                     {"base", sample.string()},
                     {"data", test::in_source("samples/prompts/heldout.txt")},
                     {"output", (scratch / "out").string()},
                     {"device", "cpu"},
                     {"threads", 1}},
                    context);
  const std::string folder = (scratch / "out/sp-kv-k17-0.5").string();
  const engine::LoadedModel model = engine::LoadedModel::load(sample, {"cpu", "float32", {folder}});
  const std::vector<std::int32_t> ids = test::some_ids(kTokens, 512, 46);
  const RunRecord open = test::feed(model, ids, kTokens, "sp-kv:threshold=0").record;
  CHECK(model.gate_numbers().scorers[0].delay == 8);
  CHECK(open.geometry().window == 16);  // the gate's own
  std::vector<float> row = open.scores.row(0, 0);
  std::nth_element(row.begin(), row.begin() + 60, row.end() - 8);
  const std::string policy = "sp-kv:threshold=" + std::to_string(row[60]);
  const test::Fed at_once = test::feed(model, ids, kTokens, policy), stepped = test::feed(model, ids, 20, policy);
  CHECK(at_once.kept[0] == stepped.kept[0]);
  CHECK(at_once.kept[0].size() < kTokens - 40);
  CHECK(at_once.kept[0].size() > 40);
}

TEST_CASE("bidirectional: CUDA keeps what the CPU keeps, in a prompt and in steps", "[engine][bidirectional][cuda]") {
  if (engine::cuda_status().n_devices == 0) return test::skip("no CUDA device");
  const int kernel = GENERATE(9, 33);
  const engine::LoadedModel cpu = test::gated_model({gate_of(kernel)}),
                            cuda = test::gated_model({gate_of(kernel)}, "cuda");
  const std::vector<std::int32_t> ids = test::some_ids(kTokens, 512, 47);
  for (const int prompt_len : {1, 60, kTokens}) {
    CAPTURE(kernel, prompt_len);
    const char* policy = "sp-kv:threshold=0.5,sinks=1,window=16";
    const test::Fed a = test::feed(cpu, ids, prompt_len, policy), b = test::feed(cuda, ids, prompt_len, policy);
    CHECK(b.kept == a.kept);
    CHECK(difference(b.record.scores, a.record.scores) < 1e-4);  // float32 sums in another order, through two layers
    CHECK(test::relative_difference(b.logits, a.logits) < 1e-3);
  }
}

}  // namespace
}  // namespace kvscope
