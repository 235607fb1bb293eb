// kvscope compare: two traces, and a trace with another policy on its tokens.

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "app/cli/output.h"
#include "engine/core/study/measure/common_oracle.h"
#include "engine/core/study/measure/oracle.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/trace/trace_file.h"
#include "tests/app/process.h"
#include "tests/support/random_run.h"
#include "tests/support/skip.h"

using namespace kvscope;
using kvscope::test::kvscope_run;
using kvscope::test::TemporaryFolder;
using nlohmann::json;

namespace {

namespace fs = std::filesystem;

std::string capture(const TemporaryFolder& folder, const std::string& name, const std::vector<std::string>& more) {
  const fs::path prompts = folder / "p.jsonl";
  if (!fs::exists(prompts)) {
    std::ofstream file(prompts);
    for (int i = 0; i < 3; ++i) {
      std::string text;
      for (int n = 0; n < 12; ++n) text += "the cache keeps " + std::to_string(i * 100 + n) + " and forgets the rest. ";
      file << json{{"prompt", text}}.dump() << "\n";
    }
  }
  std::vector<std::string> words = {
      "capture", test::sample_model().string(), prompts.string(), "-o", (folder / name).string(), "--max-tokens", "12",
      "--quiet"};
  words.insert(words.end(), more.begin(), more.end());
  const auto result = kvscope_run(words);
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return (folder / name).string();
}

std::vector<std::string> fake(std::vector<std::string> more) {
  more.insert(more.end(), {"--engine", test::fake_engine().string()});
  return more;
}

json compare(std::vector<std::string> words) {
  words.insert(words.begin(), "compare");
  words.insert(words.end(), {"--json", "--quiet"});
  const auto result = kvscope_run(words);
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return json::parse(result.out);
}

void check_error_line(const test::Result& result, int exit_code, const std::string& contains) {
  INFO(result.err);
  CHECK(result.exit_code == exit_code);
  CHECK(result.err.starts_with("error: "));
  CHECK(test::count_lines(result.err) == 1);
  CHECK(result.err.find(contains) != std::string::npos);
}

bool has_real_engine() {
  return !test::real_engine().empty() && fs::exists(test::sample_model() / "model.safetensors");
}

}  // namespace

TEST_CASE("compare A B says where texts part, with both tokens, and how much of what is kept is the same") {
  const TemporaryFolder folder;
  const std::string a = capture(folder, "a.h5", fake({"--policy", "kvpop:keep=50%,window=16"}));
  const std::string b = capture(folder, "b.h5", fake({"--policy", "kvpop:keep=40%,window=16"}));
  const std::string other_seed = capture(folder, "c.h5", fake({"--policy", "kvpop:keep=50%,window=16", "--seed", "1"}));

  const json same = compare({a, a});
  REQUIRE(same["runs"].size() == 3);
  for (const json& run : same["runs"]) {
    CHECK(run["diverges_at"].is_null());
    CHECK(run["overlap"] == 1.0);
    CHECK(run["nll"]["change"] == 0.0);
  }
  const json budgets = compare({a, b});  // the fake engine's answer does not depend on what is kept
  for (const json& run : budgets["runs"]) {
    CHECK(run["diverges_at"].is_null());
    CHECK(run["overlap"].get<double>() < 1);
    CHECK(run["overlap"].get<double>() > 0.3);
  }
  CHECK(budgets["overlap_by_head"].size() == 6);
  CHECK(budgets["overlap_by_head"][0].size() == 4);
  CHECK(budgets["policy_b"].get<std::string>().starts_with("kvpop:keep=0.4"));

  const json seeds = compare({a, other_seed});
  const RunRecord run_a = load_trace(a, 0), run_c = load_trace(other_seed, 0);
  int position = 0;
  while (run_a.ids[position] == run_c.ids[position]) ++position;
  const json& at = seeds["runs"][0]["diverges_at"];
  CHECK(at["position"] == position);
  CHECK(at["a"]["id"] == run_a.ids[position]);
  CHECK(at["b"]["id"] == run_c.ids[position]);
  CHECK(at["b"]["piece"] == std::string(run_c.pieces[position]));
  CHECK(seeds["runs"][0]["common_tokens"] == position);

  const auto shown = kvscope_run({"compare", a, other_seed});
  CHECK(shown.exit_code == 0);
  CHECK(shown.out.find("position " + std::to_string(position)) != std::string::npos);
  CHECK(shown.out.find("overlap, mean over runs: |kept by both| / |kept by either|") != std::string::npos);
}

TEST_CASE("compare A B asks both by one oracle, and neither where their texts part") {
  const TemporaryFolder folder;
  const std::string a = capture(folder, "a.h5", fake({"--policy", "kvpop:keep=50%,window=16"}));
  const std::string b = capture(folder, "b.h5", fake({"--policy", "kvpop:keep=40%,window=16"}));
  const std::string other_seed = capture(folder, "c.h5", fake({"--policy", "kvpop:keep=50%,window=16", "--seed", "1"}));
  const json both = compare({a, b});
  for (std::size_t i = 0; i < 3; ++i) {
    const json& run = both["runs"][i];
    REQUIRE(run["diverges_at"].is_null());
    const RunRecord left = load_trace(a, static_cast<int>(i)), right = load_trace(b, static_cast<int>(i));
    const auto oracle = CommonOracle::of(left, right);
    REQUIRE(oracle);
    const int q = run["common_oracle"]["q"].get<int>();
    CHECK(run["common_oracle"]["tokens"] == right.policy.budget_tokens(right.n_positions));  // the smaller
    CHECK(run["common_oracle"]["recall"]["a"].get<double>() == Approx(mean_of(oracle->oracle(left), q).recall));
    CHECK(run["common_oracle"]["recall"]["b"].get<double>() == Approx(mean_of(oracle->oracle(right), q).recall));
    CHECK(run["common_oracle"]["above_chance"]["a"].get<double>() ==
          Approx(mean_of(oracle->oracle(left), q).above_chance()));
    CHECK(run["own_oracle"]["recall"]["a"].get<double>() == Approx(mean_of(Oracle(left)).recall));
    CHECK(run["common_oracle"]["chance"]["a"] > run["common_oracle"]["chance"]["b"]);
    CHECK(run["output_error"]["a"].is_null());  // not measured
  }
  const json others = compare({a, other_seed});
  for (const json& run : others["runs"]) {
    if (!run["diverges_at"].is_null()) CHECK(run["common_oracle"].is_null());
  }
  const auto text = kvscope_run({"compare", a, b, "--quiet"});
  CHECK_THAT(text.out, Catch::Contains("recall above chance (shared oracle") &&
                           Catch::Contains("recall (own oracles") && Catch::Contains("recall (shared oracle"));
}

TEST_CASE("compare pairs runs by their prompts, wherever they stand") {
  const TemporaryFolder folder;
  const std::string all = capture(folder, "all.h5", fake({}));
  const std::string odd = capture(folder, "odd.h5", fake({"--shard", "1/2"}));
  const json result = compare({all, odd});
  REQUIRE(result["runs"].size() == 1);
  CHECK(result["runs"][0]["a"] == 1);
  CHECK(result["runs"][0]["b"] == 0);
  CHECK(result["runs"][0]["prompt_index"] == 1);
  CHECK(result["runs"][0]["diverges_at"].is_null());
  CHECK(result["only_in_a"] == json({0, 2}));
  CHECK(result["only_in_b"].empty());
  const json one = compare({all, odd, "--run", "0"});  // the first of each: other prompts
  CHECK(one["runs"][0]["same_prompt"] == false);
}

TEST_CASE("compare --policy says what another policy costs on the same tokens") {
  const TemporaryFolder folder;
  const std::string trace = capture(folder, "a.h5", fake({"--policy", "full"}));
  const std::vector<std::string> engine = {"--engine", test::fake_engine().string()};
  const json same = compare({trace, "--policy", "full", engine[0], engine[1]});
  REQUIRE(same["runs"].size() == 3);
  for (const json& run : same["runs"]) {
    CHECK(run["nll"]["change"] == 0.0);
    CHECK(run["first_choice_change"].is_null());
    CHECK(run["density"]["compared"] == 1.0);
    CHECK(run["cache_size"]["compared"] == 1.0);
  }
  const auto said = kvscope_run({"compare", trace, "--policy", "full", engine[0], engine[1], "--quiet"});
  CHECK(said.out.find("compared: dense (no query missed a token) in run 0, 1, 2\n") != std::string::npos);
  const json less = compare({trace, "--policy", "streaming:sinks=2,window=20", engine[0], engine[1], "--run", "1"});
  REQUIRE(less["runs"].size() == 1);
  const json& run = less["runs"][0];
  CHECK(run["run"] == 1);
  CHECK(run["nll"]["change"].get<double>() > 0);
  CHECK(run["density"]["compared"].get<double>() < 0.2);
  CHECK(run["density"]["recorded"] == 1.0);
  double held = 0;  // of two sinks and a window of 20, at each query
  for (int read = 1; read <= run["tokens"].get<int>(); ++read) held += std::min(22, read) / static_cast<double>(read);
  CHECK(run["cache_size"]["compared"].get<double>() == Approx(held / run["tokens"].get<int>()));
  CHECK(run["cache_size"]["recorded"] == 1.0);
  CHECK(run["first_choice_change"]["position"] == run["prompt_tokens"]);
  CHECK(run["first_choice_change"]["recorded_id"] != run["first_choice_change"]["compared_id"]);
  const auto& change = run["logprob_change"];
  REQUIRE(change.size() == run["tokens"].get<std::size_t>());
  CHECK(change[0].is_null());
  double sum = 0;
  for (std::size_t i = 1; i < change.size(); ++i) sum -= change[i].get<double>();
  CHECK(run["nll"]["change"].get<double>() == Approx(sum / static_cast<double>(change.size() - 1)).epsilon(1e-4));

  const auto shown = kvscope_run({"compare", trace, "--policy", "streaming:sinks=2,window=20", "--run", "0",
                                  "--per-token", engine[0], engine[1], "--quiet"});
  CHECK(shown.exit_code == 0);
  CHECK(shown.out.find("measured: the model read the recorded tokens") != std::string::npos);
  CHECK(test::count_lines(shown.out) > load_trace(trace, 0).n_tokens());
}

TEST_CASE("compare refuses bad usage, traces that are none, other models and a model that is gone") {
  const TemporaryFolder folder;
  const std::string trace = capture(folder, "a.h5", fake({}));
  check_error_line(kvscope_run({"compare", trace}), 1, "expected A B, or TRACE --policy SPEC");
  check_error_line(kvscope_run({"compare", trace, trace, "--policy", "full"}), 1, "a second trace and --policy");
  check_error_line(kvscope_run({"compare", trace, "--policy", "kvpup"}), 1, "kvpop");
  check_error_line(kvscope_run({"compare", trace, trace, "--run", "9", "--quiet"}), 1, "there is no run 9");
  std::ofstream(folder / "text.h5") << "no trace\n";
  check_error_line(kvscope_run({"compare", trace, (folder / "text.h5").string(), "--quiet"}), 2, "text.h5: byte 0");
  check_error_line(kvscope_run({"compare", trace, (folder / "none.h5").string()}), 2, "none.h5");
  check_error_line(kvscope_run({"compare", trace, "--policy", "full", "--model", (folder / "gone").string()}), 2,
                   "gone: no such folder");
  RunRecord other = test::random_run(1);
  save_trace(folder / "other.h5", other, false);
  check_error_line(kvscope_run({"compare", trace, (folder / "other.h5").string(), "--quiet"}), 2,
                   "runs cannot be compared");
  check_error_line(kvscope_run({"compare", (folder / "other.h5").string(), "--policy", "full", "--quiet", "--model",
                                test::sample_model().string(), "--engine", test::fake_engine().string()}),
                   2, "expected the trace's model: random-model");
}

TEST_CASE("compare --policy with the real model agrees with decoding under that policy") {
  if (!has_real_engine()) return test::skip("kvscope-engine or the sample model is not built");
  const TemporaryFolder folder;
  const std::string trace = capture(folder, "a.h5", {"--device", "cpu", "--ignore-eos"});
  const std::string policy = "kvpop:keep=60%";
  const std::string decoded = capture(folder, "b.h5", {"--device", "cpu", "--ignore-eos", "--policy", policy});
  const json measured = compare({trace, "--policy", policy, "--device", "cpu"});
  const json traces = compare({trace, decoded});
  const json self =
      compare({decoded, "--policy", policy, "--device", "cpu", "--oracle", "budget=match", "--output-error"});
  for (int i = 0; i < 3; ++i) {
    CAPTURE(i);
    CHECK(self["runs"][i]["nll"]["change"] == 0.0);
    CHECK(self["runs"][i]["first_choice_change"].is_null());
    const json& recall = self["runs"][i]["recall"];
    CHECK(recall["change"] == 0.0);
    CHECK(recall["recorded"].get<double>() == Approx(mean_of(Oracle(load_trace(decoded, i))).recall).margin(1e-3));
    CHECK(self["runs"][i]["output_error"]["recorded"].get<double>() > 0);
    CHECK_FALSE(measured["runs"][i].contains("recall"));
    // What was decoded greedily parts from the trace where the likeliest token changes, or not at all.
    const json &parting = traces["runs"][i]["diverges_at"], &choice = measured["runs"][i]["first_choice_change"];
    REQUIRE(parting.is_null() == choice.is_null());
    if (!parting.is_null()) {
      CHECK(parting["position"] == choice["position"]);
      CHECK(parting["b"]["id"] == choice["compared_id"]);
    } else {
      CHECK(traces["runs"][i]["nll"]["change"].get<double>() ==
            Approx(measured["runs"][i]["nll"]["change"].get<double>()).margin(2e-4));
      const RunRecord run = load_trace(decoded, i);
      CHECK(measured["runs"][i]["density"]["compared"].get<double>() ==
            Approx(mean(head_metric(run, Metric::density, run.queries() - 1))).margin(1e-3));
      CHECK(measured["runs"][i]["cache_size"]["compared"].get<double>() ==
            Approx(mean_cache_size(run)).margin(1.0 / run.queries()));
    }
    // The recorded log-probabilities come from decoding, these from one prefill: the same but for the order of sums.
    const RunRecord run = load_trace(trace, i);
    double nll = 0;
    for (int t = 1; t < run.n_tokens(); ++t) nll -= run.logprobs[t];
    CHECK(measured["runs"][i]["nll"]["recorded"].get<double>() == Approx(nll / (run.n_tokens() - 1)).margin(1e-4));
  }
}

TEST_CASE("compare --policy measures a run under its own policy with its changes, its prompt as it was read") {
  if (!has_real_engine()) return test::skip("kvscope-engine or the sample model is not built");
  const TemporaryFolder folder;
  const std::vector<std::string> device = {"--device", "cpu", "--ignore-eos"};
  const auto with = [&](std::vector<std::string> words) {
    words.insert(words.end(), device.begin(), device.end());
    return words;
  };
  const std::string trace =
      capture(folder, "a.h5", with({"--policy", "tova:budget=96", "--change", "10:tova:budget=40"}));
  const json compared = compare({trace, "--policy", "tova:budget=96", "--device", "cpu"});
  const json forced = compare({trace, "--policy", "tova:budget=96", "--device", "cpu", "--forced"});
  const json chunked = compare({trace, "--policy", "tova:budget=96", "--device", "cpu", "--chunk", "16"});
  CHECK(compared["chunk"].is_null());
  CHECK(compared["measured"].get<std::string>().starts_with("the prompt as in a run under that policy"));
  CHECK(forced["chunk"] == 1);
  CHECK(chunked["chunk"] == 16);
  for (int i = 0; i < 3; ++i) {
    CAPTURE(i);
    const RunRecord run = load_trace(trace, i);
    REQUIRE(run.changes.size() == 1);
    REQUIRE(run.changes[0].q == run.prompt_len);  // what is planned within the prompt holds behind it
    double nll = 0, answer = 0;
    for (int t = 1; t < run.n_tokens(); ++t)
      (nll -= run.logprobs[t], answer -= t < run.prompt_len ? 0 : run.logprobs[t]);
    const json& measured = compared["runs"][i];
    CHECK(measured["nll"]["recorded"].get<double>() == Approx(nll / (run.n_tokens() - 1)).margin(1e-5));
    CHECK(measured["answer_nll"]["recorded"].get<double>() ==
          Approx(answer / (run.n_tokens() - run.prompt_len)).margin(1e-5));
    CHECK(measured["density"]["recorded"].get<double>() ==
          Approx(mean(head_metric(run, Metric::density, run.queries() - 1))).margin(1e-6));
    CHECK(measured["density"]["compared"].get<double>() > measured["density"]["recorded"].get<double>() + 0.1);
    CHECK(measured["recorded_changes"] ==
          json::array({json{{"q", run.prompt_len}, {"policy", run.changes[0].policy.to_string()}}}));
    CHECK(forced["runs"][i]["nll"]["recorded"] != measured["nll"]["recorded"]);
    CHECK(chunked["runs"][i]["nll"]["recorded"] != forced["runs"][i]["nll"]["recorded"]);
  }

  // The table has the same numbers.
  const auto printed =
      kvscope_run({"compare", trace, "--policy", "tova:budget=96", "--device", "cpu", "--run", "1", "--quiet"});
  REQUIRE(printed.exit_code == 0);
  const json& run = compared["runs"][1];
  std::string row = "1 " + std::to_string(run["tokens"].get<int>());
  for (const auto& [key, side] :
       {std::pair("nll", "recorded"), std::pair("nll", "compared"), std::pair("nll", "change"),
        std::pair("answer_nll", "change"), std::pair("cache_size", "recorded"), std::pair("cache_size", "compared"),
        std::pair("density", "recorded"), std::pair("density", "compared")})
    row += " " + app::number_cell(run[key][side]);
  std::istringstream out(printed.out);
  std::vector<std::string> rows;
  for (std::string line; std::getline(out, line);) {
    std::istringstream words(line);
    std::string one;
    for (std::string word; words >> word;) one += (one.empty() ? "" : " ") + word;
    if (one.starts_with("1 ")) rows.push_back(one);
  }
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].starts_with(row + " "));
  const std::string changed = "run 1 changed its policy at query " + run["recorded_changes"][0]["q"].dump() + " to ";
  CHECK(printed.out.find(changed + run["recorded_changes"][0]["policy"].get<std::string>()) != std::string::npos);
}

TEST_CASE("a gate that came with --gate can be given wherever a policy is") {
  const TemporaryFolder folder;
  const std::string trace = capture(folder, "a.h5", fake({}));
  const std::string gone = (folder / "no-gate").string();
  // Each takes the option, and the engine says that there is no such gate.
  const std::string model = test::sample_model().string();
  if (!has_real_engine()) return test::skip("kvscope-engine or the sample model is not built");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"compare", trace, "--policy", "full", "--model", model},
        std::vector<std::string>{"eval", model, "--questions", "1"},
        std::vector<std::string>{"bench", "decode", "--model", model},
        std::vector<std::string>{"score", model, "--text", "a b"}}) {
    CAPTURE(words[0]);
    std::vector<std::string> all = words;
    all.insert(all.end(), {"--quiet", "--device", "cpu", "--gate", gone});
    check_error_line(kvscope_run(all), 2, "no-gate");
  }
}
