// kvscope score against transformers; tests/engine/make_golden_logits.py made the numbers.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/core/study/measure/oracle.h"
#include "engine/core/study/measure/output_error.h"
#include "engine/core/support/json_file.h"
#include "engine/core/trace/trace_file.h"
#include "tests/app/process.h"
#include "tests/support/folders.h"
#include "tests/support/golden.h"
#include "tests/support/model_folder.h"
#include "tests/support/skip.h"

namespace kvscope {
namespace {

using nlohmann::json;

const json& golden() {
  static const json file = test::read_golden("tests/engine/golden/score.json");
  return file;
}

TensorType file_type(const json& model) {
  const std::string dtype = model["config"]["torch_dtype"];
  return dtype == "float32" ? TensorType::f32 : dtype == "float16" ? TensorType::f16 : TensorType::bf16;
}

json score(const std::filesystem::path& model, const std::filesystem::path& text, std::vector<std::string> more = {}) {
  std::vector<std::string> words = {"score",    model.string(), "--text-file", text.string(), "--json",
                                    "--device", "cpu",          "--dtype",     "float32"};
  words.insert(words.end(), more.begin(), more.end());
  const test::Result result = test::kvscope_run(words);
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return json::parse(result.out);
}

}  // namespace

TEST_CASE("score gives the log-probabilities of transformers, for each family, from one file or shards", "[score]") {
  if (test::real_engine().empty()) return test::skip("kvscope-engine is not built");
  const json& model = golden()["models"][GENERATE(0, 1, 2)];
  const int n_shards = GENERATE(1, 3);
  const test::TemporaryFolder folder;
  test::write_model_folder(folder / "model", model["config"], model["seed"], {file_type(model), n_shards});
  std::ofstream(folder / "text.txt", std::ios::binary) << golden()["text"].get<std::string>();
  const json result = score(folder / "model", folder / "text.txt");
  CAPTURE(model["config"].dump(), n_shards);
  CHECK(result["ids"] == model["ids"]);
  const std::vector<double> expected = model["logprobs"];
  REQUIRE(result["logprobs"].size() == expected.size() + 1);
  CHECK(result["logprobs"][0].is_null());
  double greatest = 0, difference = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    greatest = std::max(greatest, std::abs(expected[i]));
    difference = std::max(difference, std::abs(result["logprobs"][i + 1].get<double>() - expected[i]));
  }
  // As for logits: float32 sums in other orders, 1e-4 asked for, about 1e-6 seen.
  CHECK(difference < 1e-4 * greatest);
  CHECK(std::abs(result["nll"].get<double>() - model["nll"].get<double>()) < 1e-4 * model["nll"].get<double>());
}

TEST_CASE("score under a policy differs only where the policy has evicted something", "[score]") {
  if (test::real_engine().empty()) return test::skip("kvscope-engine is not built");
  const json& model = golden()["models"][0];
  const test::TemporaryFolder folder;
  test::write_model_folder(folder / "model", model["config"], model["seed"], {file_type(model)});
  std::ofstream(folder / "text.txt", std::ios::binary) << golden()["text"].get<std::string>();
  const json full = score(folder / "model", folder / "text.txt");
  const json streaming = score(folder / "model", folder / "text.txt", {"--policy", "streaming:sinks=4,window=60"});
  CHECK(streaming["policy"] == "streaming:sinks=4,window=60");
  const std::size_t n = full["logprobs"].size();
  REQUIRE(n > 100);
  int different = 0;
  for (std::size_t i = 1; i < n; ++i) {
    const double change = std::abs(full["logprobs"][i].get<double>() - streaming["logprobs"][i].get<double>());
    CAPTURE(i, change);
    // Query 64 is the first without token 4; its row is of token 65.
    if (i < 64) CHECK(change < 1e-4);  // the same sums, perhaps in other tiles
    different += change > 1e-3;
  }
  CHECK(different > 50);
}

TEST_CASE("score prints each token, the mean NLL and the perplexity that follows from it", "[score]") {
  if (test::real_engine().empty()) return test::skip("kvscope-engine is not built");
  const json& model = golden()["models"][2];
  const test::TemporaryFolder folder;
  test::write_model_folder(folder / "model", model["config"], model["seed"], {file_type(model)});
  const auto result = test::kvscope_run({"score", (folder / "model").string(), "--text", "The code is 4821.\n",
                                         "--device", "cpu", "--dtype", "float32", "--quiet"});
  INFO(result.out + result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(result.err.empty());
  CHECK(result.out.starts_with("position"));
  double nll = 0, perplexity = 0;
  const auto last = result.out.rfind("nll ");
  REQUIRE(last != std::string::npos);
  REQUIRE(std::sscanf(result.out.c_str() + last, "nll %lf nats per token, perplexity %lf", &nll, &perplexity) == 2);
  CHECK(nll > 0);
  CHECK(std::abs(std::log(perplexity) - nll) < 1e-3);
  CHECK(result.out.find("density undefined (no token left the window)") != std::string::npos);
  CHECK(result.out.find("dense: no query missed a token") != std::string::npos);
  const auto summary = test::kvscope_run({"score", (folder / "model").string(), "--text", "The code is 4821.\n",
                                          "--device", "cpu", "--dtype", "float32", "--quiet", "--summary"});
  CHECK(summary.out == result.out.substr(last));  // the same without the line of each token
  CHECK(test::kvscope_run({"score", (folder / "model").string(), "--text", "a", "--summary", "--json"}).exit_code == 1);
}

TEST_CASE("score measures six policies as six: none with a dense prompt is dense in silence", "[score]") {
  if (test::real_engine().empty() || !std::filesystem::exists(test::sample_model() / "model.safetensors"))
    return test::skip("kvscope-engine or the sample model is not built");
  const test::TemporaryFolder folder;
  const std::filesystem::path text = folder / "text.txt";  // the sample's beginning: every token is one step
  write_file_atomic(text, test::read_text(test::in_source("samples/prompts/2-fact-recall.txt")).substr(0, 900));
  const json full = score(test::sample_model(), text, {"--policy", "full"});
  CHECK(full["dense"] == true);
  CHECK(full["difference"] == 0.0);
  CHECK(full["density"] == 1.0);
  std::set<double> nlls = {full["nll"]};
  for (const std::string& policy :
       {std::string("tova:keep=20%"), std::string("h2o:keep=20%,window=32"), std::string("snapkv:keep=20%,window=32"),
        std::string("expected-attention:keep=20%"), std::string("quest:dense=0,read=20%")}) {
    CAPTURE(policy);
    const json result = score(test::sample_model(), text, {"--policy", policy});
    CHECK(result["dense"] == false);
    CHECK(result["chunk"] == 1);
    // Of another process: on a GPU the library's products may add in another order there (3e-6 seen).
    CHECK(result["dense_nll"].get<double>() == Approx(full["nll"].get<double>()).margin(1e-5));
    const double difference = result["nll"].get<double>() - full["nll"].get<double>();
    CHECK(result["difference"].get<double>() == Approx(difference).margin(1e-5));
    CHECK(std::abs(difference) > 1e-3);
    if (!policy.starts_with("quest")) CHECK(result["density"].get<double>() < 0.25);
    nlls.insert(result["nll"].get<double>());
  }
  CHECK(nlls.size() == 6);
  const json chunked =
      score(test::sample_model(), text, {"--policy", "snapkv:keep=20%,window=32", "--chunk", "16", "--no-dense"});
  CHECK(chunked["chunk"] == 16);
  CHECK_FALSE(chunked.contains("dense_nll"));
  CHECK_FALSE(nlls.contains(chunked["nll"].get<double>()));
}

TEST_CASE("score measures recall and output error as a trace of the same reading holds them", "[score]") {
  if (test::real_engine().empty()) return test::skip("kvscope-engine is not built");
  const test::TemporaryFolder folder;
  const std::string model = test::in_source("samples/models/kvscope-tiny");
  const auto text = folder / "text.txt";
  std::ofstream(text) << read_file(test::in_source("samples/prompts/heldout.txt"), 1u << 24).substr(0, 900);
  for (const char* policy : {"tova:keep=20%", "quest:read=20%"}) {
    const json result =
        score(model, text, {"--policy", policy, "--oracle", "mass=rms", "--output-error", "--no-dense"});
    const std::string trace = (folder / (std::string(policy, 4) + ".h5")).string();
    REQUIRE(test::kvscope_run({"run", model, "--prompt-file", text.string(), "--raw", "--chunk", "1", "--policy",
                               policy, "--oracle", "mass=rms", "--output-error", "--device", "cpu", "--dtype",
                               "float32", "--trace", trace})
                .exit_code == 0);
    const RunRecord run = load_trace(trace, 0);
    CAPTURE(policy);
    CHECK(result["oracle"] == run.oracle.to_string());
    CHECK(result["output_error"].get<double>() == Approx(mean_output_error(run)).epsilon(1e-6));
    const OracleMean mean = mean_of(Oracle(run));
    if (mean.n == 0) {
      CHECK(result["recall"].is_null());  // Quest evicts nothing: there was no choice
      continue;
    }
    CHECK(result["recall"].get<double>() == Approx(mean.recall).epsilon(1e-9));
    CHECK(result["chance"].get<double>() == Approx(mean.chance).epsilon(1e-9));
    CHECK(result["mass_recall"].get<double>() == Approx(mean.mass_recall).epsilon(1e-9));
    CHECK(mean.recall < 1);
  }
  const json plain = score(model, text, {"--policy", "tova:keep=20%", "--no-dense"});
  CHECK_FALSE(plain.contains("recall"));
  CHECK_FALSE(plain.contains("output_error"));
}

TEST_CASE("score --attention gives each query's shares, which add up to one over all the tokens it sees", "[score]") {
  if (test::real_engine().empty()) return test::skip("kvscope-engine is not built");
  const test::TemporaryFolder folder;
  const std::filesystem::path model = test::in_source("samples/models/kvscope-tiny");
  std::ofstream(folder / "text.txt") << "The cache keeps what will be read.";
  const json result = score(model, folder / "text.txt", {"--attention", "2:0,1,2,3", "--no-dense"});
  const json& attention = result["attention"];
  CHECK(attention["layer"] == 2);
  REQUIRE(attention["tokens"].size() == 4);
  const int n = static_cast<int>(result["ids"].size());
  const int n_heads = static_cast<int>(attention["tokens"][0]["heads"].size());
  REQUIRE(n > 4);
  REQUIRE(n_heads > 1);
  for (int head = 0; head < n_heads; ++head) {
    for (int q = 0; q < 4; ++q) {  // the first four queries see no other tokens
      double sum = 0;
      for (int t = 0; t <= q; ++t) sum += attention["tokens"][t]["heads"][head][q - t].get<double>();
      CHECK(sum == Approx(1).epsilon(1e-5));
    }
    CHECK(static_cast<int>(attention["tokens"][3]["heads"][head].size()) == n - 3);
  }
}

TEST_CASE("score --attention: what is no layer and token is one line", "[score]") {
  if (test::real_engine().empty()) return test::skip("kvscope-engine is not built");
  const auto refused = [](const char* spec) {
    const test::Result result = test::kvscope_run({"score", test::in_source("samples/models/kvscope-tiny"), "--text",
                                                   "a b c", "--attention", spec, "--device", "cpu", "--quiet"});
    CHECK(result.out.empty());
    CHECK(result.exit_code == 1);
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
    return result.err;
  };
  CHECK(refused("3").find("LAYER:TOKEN") != std::string::npos);
  CHECK(refused("3:").find("LAYER:TOKEN") != std::string::npos);
  CHECK(refused("3:1,x").find("LAYER:TOKEN") != std::string::npos);
  CHECK(refused("3:1,1").find("each token once") != std::string::npos);
  CHECK(refused("3:-1").find("LAYER:TOKEN") != std::string::npos);
  CHECK(refused("99:1").find("layer: 99") != std::string::npos);
  CHECK(refused("0:999").find("token: 999") != std::string::npos);
}

}  // namespace kvscope
