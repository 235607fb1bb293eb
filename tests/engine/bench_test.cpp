// The benchmarks: what each compares with its definition, and its rows on a small random model.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/core/support/error.h"
#include "engine/jobs/bench/bench_check.h"
#include "engine/jobs/bench/decode_rows.h"
#include "engine/jobs/bench/floors.h"
#include "engine/jobs/bench/shapes.h"
#include "tests/engine/small_model.h"
#include "tests/support/torch_catch.h"  // before LibTorch

namespace kvscope::engine {
namespace {

using nlohmann::json;

json bench(const std::string& name, json args) {
  args.update({{"name", name}, {"shape", "kvscope-tiny"}, {"device", "cpu"}, {"dtype", "float32"}, {"repeats", 1}});
  JobContext context;
  return bench_job(args, context);
}

/// What every row must have.
void check_rows(const json& result, std::size_t n) {
  CHECK(result.at("status") == "complete");
  REQUIRE(result.at("rows").size() == n);
  for (const json& row : result.at("rows")) {
    INFO(row.dump());
    CHECK(row.at("check_error").get<double>() < 1e-3);
    CHECK(row.at("ratio_to_floor").get<double>() > 0.1);
    CHECK(row.at(row.contains("floor_ms") ? "floor_ms" : "floor_s").get<double>() > 0);
  }
}

TEST_CASE("a benchmark's result that differs from its definition is an error, and so is a missing number",
          "[engine][bench]") {
  const LoadedModel model = test::small_model();
  const std::vector<float> expected{1, -4, 2};
  std::vector<float> found = expected;
  const auto check = [&] { return check_close(found, expected, model, "decode", "full"); };
  CHECK(check() == 0);
  found[0] += 0.002F;
  CHECK(std::abs(check() - 0.0005) < 1e-6);
  found[0] += 0.1F;
  CHECK_THROWS_AS(check(), Error);
  found[0] = NAN;
  CHECK_THROWS_AS(check(), Error);
  found = {1, -4};
  CHECK_THROWS_AS(check(), Error);
}

TEST_CASE("a benchmark's record is checked by one pass under its lifetimes, and a damaged record is an error",
          "[engine][bench]") {
  const LoadedModel model = test::small_model();
  const std::string policy =
      GENERATE("full", "streaming:sinks=4,window=16", "kvpop:budget=40,sinks=4,window=16", "tova:budget=40",
               "snapkv:budget=40,window=8", "random:admit=0.25,sinks=4,window=16");
  CAPTURE(policy);
  RunRecord record = record_run(model, test::request(test::some_ids(100), policy, 8));
  CHECK(check_record(model, record, "capture") < 1e-4);
  RunRecord evicted = record;
  for (int token = 0; token < 50; ++token) evicted.evict_at.row(0, 0)[token] = 60;
  CHECK_THROWS_AS(check_record(model, evicted, "capture"), Error);
  record.logprobs.back() -= 1;
  CHECK_THROWS_AS(check_record(model, record, "capture"), Error);
}

TEST_CASE("a prompt's floor counts the pairs that see each other, under a budget, a threshold and none",
          "[engine][bench]") {
  const LoadedModel model = test::small_model();
  const int n = 400, n_heads = model.config().n_layers * model.config().n_kv_heads;
  for (const char* policy : {"full", "streaming:sinks=4,window=60", "random:budget=100,sinks=4,window=16",
                             "random:admit=0.25,sinks=4,window=32"}) {
    CAPTURE(policy);
    const RunRecord run = test::feed(model, test::some_ids(n), n, policy).record;
    double pairs = 0, kept = 0;
    for (int layer = 0; layer < model.config().n_layers; ++layer) {
      for (int head = 0; head < model.config().n_kv_heads; ++head) {
        for (int t = 0; t < n; ++t) {
          const auto last = std::min<double>(n, run.evict_at.row(layer, head)[t]);  // the first query that lacks it
          pairs += last - t, kept += last == n;
        }
      }
    }
    // Chance does not admit evenly: 100 of 364 older tokens are 0.25 give or take 0.02.
    CHECK(visible_pairs(run.policy, n, kept / n_heads) == Approx(pairs / n_heads).epsilon(0.05));
  }
}

TEST_CASE("the oracle of a benchmark is checked by the whole matrix of probabilities", "[engine][bench]") {
  const std::vector<std::int32_t> ids = test::some_ids(300);  // more than one chunk of the teacher
  for (const int window : {1, 16, 299}) CHECK(check_oracle(test::small_model(), ids, window) < 1e-4);
}

TEST_CASE("steps of a batch are checked by prompts of the same tokens", "[engine][bench]") {
  const LoadedModel model = test::small_model();
  for (const char* policy : {"full", "kvpop:budget=40,sinks=4,window=16", "h2o:budget=40,window=8", "quest:read=32",
                             "oracle:budget=40,window=8"}) {
    CAPTURE(policy);
    CHECK(check_steps(model, policy, 100, 3) < 1e-3);
  }
}

TEST_CASE("bench batch has a row for each batch", "[engine][bench]") {
  const json result = bench("batch", {{"prompt_tokens", 40}, {"max_tokens", 2}, {"batch", "1,3"}});
  check_rows(result, 2);
  CHECK(result["rows"][0]["batch"] == 1);
  CHECK(result["rows"][1]["batch"] == 3);
  CHECK(result["rows"][1]["bytes_per_step"] > result["rows"][0]["bytes_per_step"]);
  CHECK_THROWS_AS(bench("batch", {{"batch", "1,0"}}), Error);
  CHECK_THROWS_AS(bench("batch", {{"batch", "1,33"}}), Error);
  CHECK_THROWS_AS(bench("batch", {{"batch", "8,"}}), Error);
}

TEST_CASE("bench ragged compares a batch of unequal heads with the full cache", "[engine][bench]") {
  const json result = bench("ragged", {{"prompt_tokens", 200}, {"max_tokens", 2}, {"batch", 2}});
  check_rows(result, 2);
  const json &full = result["rows"][0], &ragged = result["rows"][1];
  CHECK(full["policy"] == "full");
  CHECK(full["of_full"] == 1);
  CHECK(ragged["of_full"].get<double>() > 0);
  CHECK(ragged["bytes_per_step"] < full["bytes_per_step"]);
}

TEST_CASE("bench policy measures every policy that needs no gate, and those given", "[engine][bench]") {
  const json result =
      bench("policy", {{"prompt_tokens", 96}, {"max_tokens", 1}, {"policy", {"streaming:sinks=1,window=9"}}});
  const json& rows = result.at("rows");
  check_rows(result, rows.size());
  CHECK(rows[0]["policy"] == "full");
  for (const char* name : {"streaming:sinks=1,window=9", "tova", "h2o", "snapkv", "expected-attention", "quest",
                           "random", "oracle", "kvpop"}) {
    CAPTURE(name);
    CHECK(std::ranges::any_of(rows, [&](const json& row) {
      return row["policy"].get<std::string>().starts_with(name) && row["of_full"].get<double>() > 0;
    }));
  }
}

TEST_CASE("bench oracle tells the transposed pass from the whole", "[engine][bench]") {
  const json result = bench("oracle", {{"prompt_tokens", 300}, {"policy", {"streaming:window=32"}}});
  check_rows(result, 1);
  const json& row = result["rows"][0];
  CHECK(row["window"] == 32);
  CHECK(row["transposed_flops"].get<double>() < row["flops"].get<double>());
  // 6 layers of 8 heads of 64; queries 32 ... 299 of key 0, 33 ... 299 of key 1, ...
  CHECK(row["transposed_flops"].get<double>() == 6 * 8 * 2 * 64 * (268.0 * 269 / 2));
}

TEST_CASE("bench capture says what part of the time prompts, oracles and steps take", "[engine][bench]") {
  const json result = bench("capture", {{"prompt_tokens", 100}, {"max_tokens", 4}, {"prompts", 2}});
  check_rows(result, 2);  // the full cache, and KVpop
  for (const json& row : result["rows"]) {
    double sum = 0;
    for (const char* part : {"prompt_share", "oracle_share", "decode_share"}) {
      CHECK(row[part].get<double>() > 0);
      sum += row[part].get<double>();
    }
    CHECK(sum < 1);  // one thread on a CPU
    CHECK(row["recording_ratio"].get<double>() > 0.5);
    CHECK(row["prompts"] == 2);
    CHECK(row["batch"] == 2);  // a CPU takes up to eight at once
  }
}

TEST_CASE("shapes of benches have as many weights as the published models", "[engine][bench]") {
  const auto [name, weights] =
      GENERATE(table<const char*, double>({{"smollm2-135m", 134'515'008},
                                           {"llama-3.1-8b", 8'030'261'248},
                                           {"qwen3-8b", 8'190'735'360},
                                           {"qwen3-30b-a3b", 30'532'122'624},
                                           {"gpt-oss-20b", 20'914'757'184},
                                           {"gemma-3-12b", 11.77e9}}));  // without its vision tower
  const ModelConfig config = engine::shape_config(name);
  const double vocabulary = static_cast<double>(config.vocab_size) * config.hidden_size;
  CAPTURE(name);
  CHECK(engine::layer_weights(config) + vocabulary * (config.tie_word_embeddings ? 1 : 2) ==
        Approx(weights).epsilon(1e-3));  // norms and biases are not in it
}

TEST_CASE("pairs of a hybrid are counted by layer", "[engine][bench]") {
  ModelConfig config = engine::shape_config("gemma-3-12b");
  const int n = GENERATE(5, 1024, 1500);
  double expected = 0;
  for (const LayerConfig& layer : config.layers) {
    for (int query = 0; query < n; ++query)
      expected += layer.window > 0 ? std::min(query + 1, layer.window) : query + 1;
  }
  const double pairs = n * (n + 1.0) / 2;
  CHECK(engine::pairs_of_layers(config, pairs, n) == expected);
  CHECK(engine::attention_flops(config, pairs, n) == 4 * 256 * 16 * expected);
  CHECK(engine::transposed_flops(config, n, 100) ==
        (n > 100 ? 2 * 256 * 16 * 8 * ((n - 100) * (n - 99.0) / 2) : 0));  // 8 global layers of 48
}

TEST_CASE("bench score scores a text under policies that act after every token", "[engine][bench]") {
  const json result = bench("score", {{"prompt_tokens", 80}});
  check_rows(result, 6);
  for (const json& row : result["rows"]) CHECK(row["nll"].get<double>() > 0);
  CHECK_THROWS_AS(bench("score", {{"policy", {"quest:read=32"}}, {"prompt_tokens", 80}}), Error);
}

TEST_CASE("bench takes several policies in one process", "[engine][bench]") {
  const json policies = {"full", "streaming:sinks=2,window=20"};
  check_rows(bench("decode", {{"prompt_tokens", 40}, {"max_tokens", 2}, {"policy", policies}}), 2);
  check_rows(bench("prefill", {{"prompt_tokens", 64}, {"policy", policies}}), 2);
}

TEST_CASE("bench decode and prefill tell attention from the rest, and both together are the whole", "[engine][bench]") {
  const json decode =
      bench("decode", {{"prompt_tokens", 300}, {"max_tokens", 4}, {"policy", {"full", "quest:read=32"}}});
  for (const json& row : decode["rows"]) {
    const double attention = row["attention_ms"]["median"], rest = row["rest_ms"]["median"];
    CHECK(attention > 0);
    CHECK(attention + rest == Approx(row["ms_per_step"]["median"].get<double>()));  // of one repetition
    CHECK(row["weight_bytes"] > 1e7);
  }
  const json prefill = bench("prefill", {{"prompt_tokens", 300}, {"policy", {"full", "streaming:window=64"}}});
  for (const json& row : prefill["rows"]) {
    const double attention = row["attention_s"]["median"], rest = row["rest_s"]["median"];
    CHECK(attention > 0);
    CHECK(rest > 0);
    CHECK(attention + rest <= row["seconds"]["median"].get<double>());  // which also gives the memory back
  }
}

TEST_CASE("bench scoreboard without a GPU measures small rows and names the others with their commands",
          "[engine][bench]") {
  JobContext context;
  int rows = 0;
  context.row = [&](const std::string&, const json&) { ++rows; };
  const json result = bench_job({{"name", "scoreboard"}, {"device", "cpu"}}, context);
  CHECK(result.at("status") == "complete");
  CHECK(static_cast<std::size_t>(rows) == result.at("rows").size());
  CHECK(rows >= 8);
  for (const json& row : result.at("rows")) {
    CHECK(row.at("measured_ms").get<double>() > 0);
    CHECK(row.at("floor_ms").get<double>() > 0);
  }
  REQUIRE(result.at("missing").size() > 20);
  CHECK(result.at("missing")[0] ==
        json{{"row", "decode qwen3-8b, 1024 tokens, full"},
             {"reason", "no GPU"},
             {"command",
              "kvscope bench decode --shape qwen3-8b --prompt-tokens 1024 --max-tokens 64 --repeats 5 --policy full "
              "--device cuda"}});
  CHECK_THROWS_AS(bench("scoreboard", {}), Error);  // a shape is given
}

}  // namespace
}  // namespace kvscope::engine
