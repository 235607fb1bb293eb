// A gate's own numbers hold where nobody wrote others, and what was written wins: in a run, in score, in compare, and in
// a preview of what was recorded. Whoever reads a number is told which one it was.

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/core/support/error.h"
#include "engine/core/trace/trace_file.h"
#include "tests/app/process.h"
#include "tests/support/folders.h"
#include "tests/support/skip.h"

using namespace kvscope;
using nlohmann::json;
using test::kvscope_run;

namespace {

const std::string kText = test::in_source("samples/prompts/2-fact-recall.txt");
const std::string kRest = ",read=0,pool=0,drop=0.1,observe=256";

json json_of(std::vector<std::string> words) {
  words.insert(words.end(), {"--json", "--quiet", "--device", "cpu"});
  const auto result = kvscope_run(words);
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return json::parse(result.out);
}

}  // namespace

TEST_CASE(
    "what was written of a policy wins over its gate in score, run, compare and what-if, and the rest is the gate's") {
  if (test::real_engine().empty() || !std::filesystem::exists(test::sample_model() / "model.safetensors"))
    return test::skip("kvscope-engine or the sample model is not built");
  const test::TemporaryFolder folder;
  const std::string model = test::sample_model().string(), gate = (folder / "gate").string(),
                    trace = (folder / "t.h5").string();
  REQUIRE(kvscope_run({"gate", "convert", model, "-o", gate, "--threshold", "0.25", "--sinks", "8"}).exit_code == 0);
  const auto score = [&](const std::string& policy, bool with_gate) {
    std::vector<std::string> words = {"score", model, "--text-file", kText, "--policy", policy, "--no-dense"};
    if (with_gate) words.insert(words.end(), {"--gate", gate});
    return json_of(words);
  };
  const json own = score("threshold", true), written = score("threshold:threshold=0", true);
  CHECK(own["policy"] == "threshold:threshold=0.25,strict=0,sinks=8,window=64" + kRest);
  CHECK(written["policy"] == "threshold:threshold=0,strict=0,sinks=8,window=64" + kRest);  // 0 is the method's own
  CHECK(own["nll"] != written["nll"]);
  CHECK(own["nll"].get<double>() ==
        Approx(score("threshold:threshold=0.25,sinks=8", false)["nll"].get<double>()).margin(1e-5));
  CHECK(written["nll"].get<double>() ==
        Approx(score("threshold:threshold=0,sinks=8", false)["nll"].get<double>()).margin(1e-5));
  CHECK(written["density"].get<double>() > own["density"].get<double>());

  REQUIRE(kvscope_run({"run", model, "--prompt-file", kText, "--max-tokens", "4", "--policy", "threshold", "--gate",
                       gate, "--trace", trace})
              .exit_code == 0);
  CHECK(load_trace(trace, 0).policy.to_string() == own["policy"].get<std::string>());
  const auto preview = [&](const std::string& policy) {
    return json::parse(kvscope_run({"what-if", trace, policy, "--json"}).out);
  };
  CHECK(preview("threshold")["preview"] == preview("threshold")["recorded"]);
  const json lower = preview("threshold:threshold=0");
  CHECK(lower["preview"]["policy"] == written["policy"]);
  CHECK(lower["preview"]["density"].get<double>() > lower["recorded"]["density"].get<double>());
  const json compared =
      json_of({"compare", trace, "--policy", "threshold:threshold=0", "--model", model, "--gate", gate});
  CHECK(compared["policy"] == written["policy"]);
  CHECK(compared["runs"][0]["compared_policy"] == written["policy"]);
  CHECK(compared["runs"][0]["recorded_policy"] == own["policy"]);
}

TEST_CASE("a density is solved on the prompt, and run, inspect, score and compare say the threshold") {
  if (test::real_engine().empty() || !std::filesystem::exists(test::sample_model() / "model.safetensors"))
    return test::skip("kvscope-engine or the sample model is not built");
  const test::TemporaryFolder folder;
  const std::string model = test::sample_model().string(), trace = (folder / "t.h5").string(),
                    policy = "threshold:density=30%,window=64";
  const auto ran =
      kvscope_run({"run", model, "--prompt-file", kText, "--max-tokens", "4", "--policy", policy, "--trace", trace});
  INFO(ran.err);
  REQUIRE(ran.exit_code == 0);
  CHECK_THAT(ran.err, Catch::Contains("density 30 %: threshold "));
  const json first = json::parse(kvscope_run({"inspect", trace, "--json"}).out)["first_run"];
  REQUIRE(first["thresholds"].size() == 24);
  CHECK_THAT(ran.err, Catch::Contains(first["density"].get<std::string>()));
  CHECK(first["policy"] == "threshold:density=0.3,strict=0,sinks=4,window=64" + kRest);
  CHECK(load_trace(trace, 0).thresholds()[0] == first["thresholds"][0].get<float>());

  const json scored = json_of({"score", model, "--text-file", kText, "--policy", policy, "--no-dense"});
  CHECK(scored["density"].get<double>() == Approx(0.3).margin(0.01));
  CHECK(scored["thresholds"].size() == 24);
  const json compared = json_of({"compare", trace, "--policy", "threshold:threshold=0", "--model", model});
  CHECK(compared["runs"][0]["solved"]["recorded"] == first["density"]);
  CHECK(compared["runs"][0]["solved"]["compared"] == "");
  // The run may have been on a GPU, where it is solved otherwise: it is read under what was solved then.
  const json again = json_of({"compare", trace, "--policy", policy, "--model", model})["runs"][0];
  CHECK(again["solved"]["compared"] == first["density"]);
  CHECK(again["nll"]["change"].get<double>() == Approx(0).margin(1e-3));
  const json preview = json::parse(kvscope_run({"what-if", trace, policy, "--json"}).out);
  CHECK(preview["preview"] == preview["recorded"]);

  const auto both = kvscope_run({"run", model, "--prompt", "a", "--policy", "threshold:threshold=0,density=30%"});
  CHECK(both.exit_code == 1);
  CHECK_THAT(both.err, Catch::Contains("both threshold and density"));
}

TEST_CASE("what-if asks a full run about every gate of its model, and about none without it") {
  if (test::real_engine().empty() || !std::filesystem::exists(test::sample_model() / "model.safetensors"))
    return test::skip("kvscope-engine or the sample model is not built");
  const test::TemporaryFolder folder;
  const std::string model = test::sample_model().string(), trace = (folder / "t.h5").string();
  REQUIRE(kvscope_run({"run", model, "--prompt-file", kText, "--max-tokens", "4", "--policy", "full", "--device", "cpu",
                       "--trace", trace})
              .exit_code == 0);
  for (const std::string policy : {"kvpop:keep=25%", "wg-kv", "sp-kv", "dms", "threshold:density=30%,window=64"}) {
    CAPTURE(policy);
    const json preview = json_of({"what-if", trace, policy, "--model", model});
    CHECK(preview["recorded"]["density"] == 1.0);
    CHECK(preview["preview"]["density"].get<double>() < 0.8);
    CHECK_THAT(preview["note"].get<std::string>(), Catch::Contains(preview["scored_by"].get<std::string>()));
    const auto alone = kvscope_run({"what-if", trace, policy});
    CHECK(alone.exit_code == static_cast<int>(ExitCode::bad_input));
    CHECK_THAT(alone.err, Catch::Contains("give the model"));
  }
  // Under the run of the policy itself the first layer keeps the same: see gate_pass_test. As a whole they are near.
  const json preview = json_of({"what-if", trace, "wg-kv", "--model", model})["preview"];
  const json scored = json_of({"score", model, "--text-file", kText, "--policy", "wg-kv", "--no-dense"});
  CHECK(preview["policy"] == scored["policy"]);
  CHECK(preview["density"].get<double>() == Approx(scored["density"].get<double>()).margin(0.1));
  const auto no_gate = kvscope_run({"what-if", trace, "kvzap", "--model", model});
  CHECK(no_gate.exit_code != 0);
  CHECK_THAT(no_gate.err, Catch::Contains("kvzap"));
  const auto other = kvscope_run({"what-if", trace, "wg-kv", "--model", (folder / "none").string()});
  CHECK(other.exit_code != 0);
}
