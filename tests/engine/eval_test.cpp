// Evaluation: decoding under given lifetimes against the engine's own, and the job as a whole.

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/core/support/error.h"
#include "engine/core/support/random.h"
#include "engine/decode/generation.h"
#include "engine/jobs/job.h"
#include "engine/jobs/tasks/eval_policy.h"
#include "engine/jobs/tasks/scored_decoding.h"
#include "tests/support/skip.h"

using namespace kvscope;
using namespace kvscope::engine;
namespace fs = std::filesystem;

namespace {

const fs::path kModel = fs::path(KVSCOPE_SOURCE_DIR) / "samples/models/kvscope-tiny";

LoadedModel small_random_model() {
  ModelConfig config;
  config.vocab_size = 97;
  config.hidden_size = 64;
  config.intermediate_size = 96;
  config.n_layers = 3;
  config.n_heads = 4;
  config.n_kv_heads = 2;
  config.head_dim = 64;
  config.max_positions = 256;
  config.tie_word_embeddings = true;
  config.set_family(*find_family("Qwen3ForCausalLM"));
  return LoadedModel::random(config, 5, {.device = "cpu", .dtype = "float32"});
}

std::vector<std::int32_t> random_ids(int n) {
  Random random(23);
  std::vector<std::int32_t> ids;
  for (int i = 0; i < n; ++i) ids.push_back(static_cast<std::int32_t>(random.below(97)));
  return ids;
}

}  // namespace

TEST_CASE("decoding under given lifetimes writes what the engine writes under the policy of these lifetimes") {
  const LoadedModel model = small_random_model();
  const auto text = GENERATE("full", "streaming:sinks=2,window=22");
  const std::vector<std::int32_t> prompt = random_ids(80);
  constexpr int kAnswer = 12;
  RunRequest request;
  request.prompt_ids = prompt;
  request.policy = PolicySpec::parse(text);
  request.max_tokens = kAnswer;
  request.stop_at_eos = false;
  Generation run(model, request);
  run.prefill();
  while (!run.finished()) run.step();
  std::vector<std::int32_t> answer(run.ids().begin() + 80, run.ids().end());

  LifetimeMap lifetimes(3, 2);
  lifetimes.resize(80 + kAnswer, kNever);
  for (int layer = 0; layer < 3; ++layer) {
    for (int head = 0; head < 2; ++head) {
      policy_lifetimes(request.policy, 80 + kAnswer, {}, 80 + kAnswer, lifetimes.row(layer, head));
    }
  }
  CHECK(answers_under(model, lifetimes, prompt, answer));
  for (const std::size_t wrong : {std::size_t{0}, answer.size() / 2, answer.size() - 1}) {
    auto other = answer;
    other[wrong] = (other[wrong] + 1) % 97;
    CHECK_FALSE(answers_under(model, lifetimes, prompt, other));
  }
}

TEST_CASE("random scores are uniform, differ between heads and depend on the seed alone") {
  ModelConfig config;
  config.n_layers = 2;
  config.n_kv_heads = 3;
  const HeadSeries<float> scores = random_scores(config, 4000, 9);
  CHECK(scores == random_scores(config, 4000, 9));
  CHECK_FALSE(scores == random_scores(config, 4000, 10));
  CHECK(scores.row(0, 1) != scores.row(1, 0));
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < 3; ++head) {
      const auto& row = scores.row(layer, head);
      double sum = 0;
      for (const float x : row) sum += x / 4000.0;
      CHECK(sum == Approx(0.5).margin(0.03));  // six deviations of a mean of 4000
      CHECK(*std::min_element(row.begin(), row.end()) >= 0);
      CHECK(*std::max_element(row.begin(), row.end()) < 1);
    }
  }
}

TEST_CASE("the oracle recalls itself entirely, and random retention its share of the eligible tokens") {
  const LoadedModel model = small_random_model();
  TaskSequence sequence;
  sequence.ids = random_ids(201);  // 200 positions
  const EvalPolicy oracle = EvalPolicy::parse("oracle:budget=40,sinks=2,window=8", 200);
  CHECK(sequence_recall(model, oracle, sequence, prepare_sequence(model, oracle, sequence, 1), {}) == Approx(1));

  const EvalPolicy random = EvalPolicy::parse("random:budget=40,sinks=2,window=8", 200);
  double recall = 0, chance = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    recall += sequence_recall(model, random, sequence, prepare_sequence(model, random, sequence, seed), {}) / 20;
  }
  for (int q = 40; q < 200; ++q) chance += 30.0 / (q - 8 + 1 - 2) / 160;  // top_k over eligible tokens
  CHECK(recall == Approx(chance).margin(0.02));  // 20 seeds and 6 heads of correlated counts: deviation below 0.005
}

TEST_CASE("policies of an evaluation are parsed with budgets that refer to the whole sequence") {
  const EvalPolicy random = EvalPolicy::parse("random:keep=25%", 2048);
  CHECK(random.kind == EvalKind::random);
  CHECK(random.budget == 512);
  CHECK(random.spec.geometry(100).budget() == 512);
  CHECK(EvalPolicy::parse("full", 2048).budget == 0);
  CHECK(EvalPolicy::parse("streaming:sinks=4,window=252", 2048).budget == 256);
  CHECK(EvalPolicy::parse("threshold:threshold=0", 2048).budget == 0);
  CHECK_THROWS_AS(EvalPolicy::parse("oracle:budget=10", 2048), Error);  // less than sinks and window
  CHECK_THROWS_AS(EvalPolicy::parse("bogus:budget=512", 2048), Error);
}

TEST_CASE("the sample model answers held-out questions with a full cache, through the whole evaluation") {
  if (!fs::exists(kModel / "model.safetensors")) return test::skip("no sample model");
  JobContext context;
  std::vector<std::string> rows;
  context.row = [&](const std::string& text, const nlohmann::json&) { rows.push_back(text); };
  const auto result =
      eval_job({{"model", kModel}, {"policies", {"full"}}, {"questions", 2}, {"device", "cpu"}}, context);
  REQUIRE(result["status"] == "done");
  REQUIRE(result["rows"].size() == 1);
  for (const char* task : {"reversal", "fact_recall"}) {
    CHECK(result["rows"][0]["tasks"][task]["asked"] == 2);
    CHECK(result["rows"][0]["tasks"][task]["right"] == 2);
  }
  CHECK(rows.size() == 1);
  CHECK(result["markdown"].get<std::string>().find("(2 of 2)") != std::string::npos);
}

TEST_CASE("a cancelled evaluation says so, and wrong arguments are errors") {
  if (!fs::exists(kModel / "model.safetensors")) return test::skip("no sample model");
  const std::atomic<bool> cancelled{true};
  JobContext context;
  context.cancelled = &cancelled;
  CHECK(eval_job({{"model", kModel}, {"questions", 1}, {"device", "cpu"}}, context)["status"] == "cancelled");
  CHECK_THROWS_AS(eval_job({{"model", kModel}, {"tasks", {"juggling"}}}, context), Error);
  CHECK_THROWS_AS(eval_job({{"questions", 3}}, context), Error);
  CHECK_THROWS_AS(eval_job({{"model", kModel}, {"questions", 0}}, context), Error);
}
