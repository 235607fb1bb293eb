// Which oracle a run is held against: what is asked is recorded, what the masses allow can be asked later, and where an
// option has no meaning one line says where it has.

#include "engine/core/study/measure/oracle.h"
#include "tests/app/capture_support.h"
#include "tests/support/folders.h"
#include "tests/support/skip.h"

using namespace kvscope;
using namespace kvscope::test;

namespace {

bool has_real_engine() { return !real_engine().empty() && fs::exists(sample_model() / "model.safetensors"); }

std::string real_run(const TemporaryFolder& folder, const std::string& name, const std::string& oracle,
                     const std::string& policy = "kvpop:budget=96") {
  const std::string trace = (folder / name).string();
  const auto result = kvscope_run({"run", sample_model().string(), "--prompt-file",
                                   in_source("samples/prompts/2-fact-recall.txt"), "--max-tokens", "8", "--policy",
                                   policy, "--oracle", oracle, "--trace", trace, "--device", "cpu", "--quiet"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return trace;
}

json inspected(const std::string& trace) {
  const auto result = kvscope_run({"inspect", trace, "--json"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return json::parse(result.out);
}

}  // namespace

TEST_CASE("capture --oracle records in the trace, and in every run of it, the oracle that was asked for") {
  const TemporaryFolder folder;
  write_prompts(folder);
  const std::string asked = "agg=mean,mass=rms,lse=dense,ahead=32,capacity=pooled,budget=25%";
  const Capture capture{folder, "t.h5", {"--oracle", asked, "--quiet"}};
  REQUIRE(capture.run().exit_code == 0);
  const json object = inspected((folder / "t.h5").string());
  const std::string text = OracleSpec::parse(asked).to_string();
  CHECK(object["request"].get<std::string>().find("--oracle " + text) != std::string::npos);
  for (int i = 0; i < kPrompts; ++i) CHECK(load_trace(folder / "t.h5", i).oracle == OracleSpec::parse(asked));
  // Another one is another capture.
  Capture other{folder, "t.h5", {"--resume", "--quiet", "--oracle", "mass=max"}};
  check_error_line(other.run(), 2, "--oracle");
}

// C3: exit code 2 and no trace, after the answer was decoded.
TEST_CASE("a run by the normaliser of its kept keys ends well where an evicted token's mean mass exceeds 1") {
  if (!has_real_engine()) return skip("kvscope-engine or the sample model is not built");
  const TemporaryFolder folder;
  const std::string trace = real_run(folder, "t.h5", "lse=sparse", "streaming:sinks=4,window=16");
  const RunRecord run = load_trace(trace, 0);
  CHECK(run.status == RunStatus::complete);
  CHECK(run.n_tokens() - run.prompt_len == 8);
  float greatest = 0;
  for (int layer = 0; layer < run.evict_at.n_layers(); ++layer) {
    for (int head = 0; head < run.evict_at.n_kv_heads(); ++head) {
      for (const float mass : run.future_mass.row(layer, head)) greatest = std::max(greatest, mass);
    }
  }
  CHECK(greatest > 1);
  CHECK(inspected(trace)["first_run"]["oracle"].get<std::string>().find("lse=sparse") != std::string::npos);
}

TEST_CASE("the masses that were recorded say which oracles a trace can be asked about later") {
  if (!has_real_engine()) return skip("kvscope-engine or the sample model is not built");
  const TemporaryFolder folder;
  const std::string one = real_run(folder, "one.h5", "mass=rms,kinds=one"), all = real_run(folder, "all.h5", "");
  const json of_one = inspected(one)["first_run"]["oracles"], of_all = inspected(all)["first_run"]["oracles"];
  CHECK(of_all.size() == 24);  // four masses, three weights, two capacities
  CHECK(of_one.size() == 8);   // every mass, of one pass over the future, and no weight
  for (const char* name : {"mean", "sum", "rms", "max", "mean, pooled", "sum, pooled", "rms, pooled", "max, pooled"}) {
    INFO(name);
    REQUIRE(of_one.contains(name));
    CHECK(of_one[name]["recall"] == of_all[name]["recall"]);
  }
}

TEST_CASE("a pooled capacity is held against in run and what-if, and follows the traces into compare") {
  if (!has_real_engine()) return skip("kvscope-engine or the sample model is not built");
  const TemporaryFolder folder;
  const std::string policy = "kvpop:budget=96", pooled = real_run(folder, "pooled.h5", "capacity=pooled"),
                    head = real_run(folder, "head.h5", "");
  const auto what_if = [&](const std::string& trace, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"what-if", trace, "kvpop:budget=80", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const auto result = kvscope_run(words);
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    return json::parse(result.out);
  };
  const json of_pooled = what_if(pooled, {}), asked = what_if(head, {"--oracle", "capacity=pooled"}),
             of_head = what_if(head, {});
  CHECK(of_pooled["preview"]["recall"] == asked["preview"]["recall"]);
  CHECK(of_pooled["recorded"]["recall"] == asked["recorded"]["recall"]);
  CHECK(of_head["recorded"]["recall"] != asked["recorded"]["recall"]);
  CHECK(asked["recorded"]["oracle"].get<std::string>().find("capacity=pooled") != std::string::npos);
  const RunRecord run = load_trace(head, 0);
  OracleSpec spec = run.oracle;
  spec.pooled = true;
  const Oracle oracle(run, spec);
  double recall = 0;
  int n = 0;
  for (const auto& curve : oracle.curves()) {
    for (const OracleCounts& counts : curve) {
      if (!std::isnan(counts.recall())) recall += counts.recall(), ++n;
    }
  }
  CHECK(asked["recorded"]["recall"].get<double>() == Approx(recall / n).margin(1e-5));
  const auto compared = kvscope_run({"compare", pooled, head, "--json"});
  INFO(compared.err);
  REQUIRE(compared.exit_code == 0);
  const json common = json::parse(compared.out)["runs"][0]["common_oracle"];
  CHECK(common["oracle"].get<std::string>().find("capacity=pooled") != std::string::npos);
}

TEST_CASE("where an oracle's option has no meaning, one line says where it has") {
  const TemporaryFolder folder;
  const std::string model = sample_model().string();
  const auto trace = folder / "t.h5";
  save_trace(trace, random_run(3), false);
  check_error_line(kvscope_run({"heads", trace.string(), "--oracle", "capacity=pooled"}), 1,
                   "unknown option of kvscope heads; hint: it is an option of kvscope run, ");
  check_error_line(kvscope_run({"eval", model, "--oracle", "capacity=pooled"}), 1,
                   "kvscope run, capture, score, what-if, compare take one");
  check_error_line(kvscope_run({"what-if", trace.string(), "full", "--oracle", "agg=mean"}), 1,
                   "mass, weight, capacity and budget");
  RunRecord mean_only = random_run(3);
  mean_only.future = FutureKinds();
  save_trace(folder / "mean.h5", mean_only, false);
  check_error_line(kvscope_run({"what-if", (folder / "mean.h5").string(), "full", "--oracle", "mass=rms"}), 2,
                   "masses that the run recorded");
  check_error_line(kvscope_run({"what-if", trace.string(), "streaming:capacity=pooled"}), 1,
                   "no key named \"capacity\"");
}

TEST_CASE("a run under a pooled budget is recorded, previewed and explained as what it is") {
  if (!has_real_engine()) return skip("kvscope-engine or the sample model is not built");
  const TemporaryFolder folder;
  const std::string policy = GENERATE(as<std::string>{}, "oracle:budget=96,mass=rms,capacity=pooled",
                                      "kvpop:budget=96,capacity=pooled"),
                    trace = real_run(folder, "pooled.h5", "", policy);
  CAPTURE(policy);
  const RunRecord run = load_trace(trace, 0);
  CHECK(run.policy.value("capacity") == 1);
  const RetentionGeometry geometry = run.geometry();
  const int n_heads = run.model.n_layers * run.model.n_kv_heads;
  for (std::int32_t q = run.prompt_len; q < run.queries(); ++q) {
    int held = 0;
    for (int head = 0; head < n_heads; ++head) {
      const auto& row = run.evict_at.row(head / run.model.n_kv_heads, head % run.model.n_kv_heads);
      for (std::int32_t t = geometry.n_sink; t <= q - geometry.window; ++t)
        held += visible(q, t, row[static_cast<std::size_t>(t)]);
    }
    REQUIRE(held == n_heads * geometry.top_k);
  }
  const auto preview = kvscope_run({"what-if", trace, policy, "--json"});
  INFO(preview.err);
  REQUIRE(preview.exit_code == 0);
  const json told = json::parse(preview.out);
  CHECK(told["preview"] == told["recorded"]);
}

TEST_CASE("inspect opens a trace of version 1 and says which of its numbers are of the old oracle") {
  const TemporaryFolder folder;
  const std::string old = in_source("tests/core/golden/trace-v1.h5");
  const json object = inspected(old);
  CHECK(object["version"] == 1);
  CHECK(object["first_run"]["oracles"].contains("mean"));  // counted anew
  const std::string said = object["old_numbers"];
  CHECK(said.find("runs/recall, runs/mass_recall and heads/oracle_evict_at of this file (version 1)") == 0);
  CHECK(kvscope_run({"inspect", old}).out.find(said.substr(0, 60)) != std::string::npos);
  save_trace(folder / "new.h5", random_run(3), false);
  CHECK_FALSE(inspected((folder / "new.h5").string()).contains("old_numbers"));
}
