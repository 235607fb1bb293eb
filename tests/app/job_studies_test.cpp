// What kvscope bench and kvscope train leave as studies, made here by hand and by the programs.

#include <cmath>
#include <nlohmann/json.hpp>

#include "app/studies/bench/bench_table.h"
#include "app/studies/train/training_curves.h"
#include "engine/core/support/error.h"
#include "engine/core/trace/study_file.h"
#include "tests/app/capture_support.h"
#include "tests/support/skip.h"

using namespace kvscope;
using namespace kvscope::test;
using app::TrainingCurves;
using Words = std::vector<std::string>;

namespace {

json told(const std::string& name, int first, std::vector<std::vector<double>> rows) {
  return {{"name", name}, {"columns", {"step", "loss_all", "open_0_1"}}, {"first", first}, {"rows", std::move(rows)}};
}

StudyTable curve_of(const TemporaryFolder& folder, const std::string& name) {
  return read_study("", folder / (name + "_loss.h5"));
}

}  // namespace

TEST_CASE("of a benchmark's rows, repetitions become a median with its range, and the result's facts are the study's") {
  const json result = {
      {"status", "complete"},
      {"device", "cpu"},
      {"rows",
       {{{"policy", "full"}, {"ms_per_step", {{"max", 3}, {"median", 2}, {"min", 1}}}, {"cache_bytes", 8}},
        {{"policy", "dms"}, {"cache_bytes", nullptr}}}}};
  const StudyTable study = app::bench_table({{"name", "decode"}}, result);
  CHECK_NOTHROW(check_study(study, "s"));
  CHECK(study.kind == kBenchStudy);
  CHECK(study.texts("policy", "") == std::vector<std::string>{"full", "dms"});
  CHECK(study.numbers("ms_per_step", "")[0] == 2);
  CHECK(study.numbers("ms_per_step_low", "")[0] == 1);
  CHECK(study.numbers("ms_per_step_high", "")[0] == 3);
  CHECK(std::isnan(study.numbers("ms_per_step", "")[1]));
  for (const char* end : {"", "_low", "_high"}) CHECK(study.column(std::string("ms_per_step") + end)->units == "ms");
  CHECK(study.column("cache_bytes")->units == "bytes");
  CHECK(std::isnan(study.numbers("cache_bytes", "")[1]));
  CHECK(json::parse(study.facts)["device"] == "cpu");
  CHECK_FALSE(json::parse(study.facts).contains("rows"));
  CHECK(json::parse(study.request)["name"] == "decode");
}

TEST_CASE("each curve of a training is a study of its own, and told rows replace what was there from the first on") {
  const TemporaryFolder folder;
  {
    TrainingCurves curves(folder.path(), {{"recipe", "r.json"}});
    curves.take(told("base", 0, {}));
    CHECK(fs::is_empty(folder.path()));
    curves.take(told("base", 0, {{1, 3, 0.5}}));
    CHECK(curve_of(folder, "base").n_points() == 1);  // at once
    curves.take(told("base", 1, {{2, 2.5, 0.25}}));
    curves.take(told("gate", 0, {{1, 9, 1}, {2, 8, 1}}));
    CHECK(curve_of(folder, "base").n_points() == 2);
    curves.take(told("gate", 1, {{2, 7, 1}}));
  }
  const StudyTable base = curve_of(folder, "base"), gate = curve_of(folder, "gate");
  CHECK(base.kind == kTrainingStudy);
  CHECK(base.numbers("loss_all", "") == std::vector<double>{3, 2.5});
  CHECK_THAT(base.column("open_0_1")->meaning, Catch::Contains("this head"));
  CHECK(base.column("step")->meaning == "optimizer steps done");
  CHECK(gate.numbers("loss_all", "") == std::vector<double>{9, 7});
  CHECK(json::parse(gate.request)["recipe"] == "r.json");
}

TEST_CASE("rows of a curve that do not fit are an engine's error, and leave the folder") {
  const TemporaryFolder folder;
  TrainingCurves curves(folder.path(), json::object());
  json gap = told("base", 2, {{1, 2, 3}}), path = told("../base", 0, {}), text = told("base", 0, {});
  text["rows"] = {{"x"}};
  for (const json& wrong : {gap, path, text, told("base", 0, {{1, 2}}), json::object(), json()}) {
    CAPTURE(wrong.dump());
    CHECK_THROWS_AS(curves.take(wrong), Error);
  }
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("kvscope bench writes a study that the figures draw, and replaces one only when told") {
  if (real_engine().empty() || !fs::exists(sample_model() / "model.safetensors"))
    return skip("kvscope-engine or the sample model is not built");
  const TemporaryFolder folder;
  const std::string study = (folder / "b.h5").string();
  Words words = {"bench",
                 "decode",
                 "--model",
                 sample_model().string(),
                 "--device",
                 "cpu",
                 "--prompt-tokens",
                 "96",
                 "--repeats",
                 "2",
                 "--policy",
                 "streaming:window=32",
                 "--json",
                 "-o",
                 study,
                 "--quiet"};
  words.insert(words.end(), {"--max-tokens", "2"});
  const Result result = kvscope_run(words);
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const json row = json::parse(result.out.substr(0, result.out.find('\n')));
  const StudyTable table = read_study(test::kvscope(), study);
  REQUIRE(table.n_points() == 1);
  CHECK(table.numbers("ms_per_step", "")[0] == row["ms_per_step"]["median"]);
  CHECK(table.numbers("ms_per_step_high", "")[0] == row["ms_per_step"]["max"]);
  CHECK(json::parse(table.facts)["model"] == "kvscope-tiny");
  CHECK(kvscope_run({"figure", "--preset", "kvpop-fig4", study, "-o", (folder / "f.svg").string()}).exit_code == 0);
  check_error_line(kvscope_run(words), 2, "b.h5: it exists");
  words.emplace_back("--overwrite");
  CHECK(kvscope_run(words).exit_code == 0);
  check_error_line(kvscope_run({"bench", "decode", "-o", "b.csv"}), 1, "a name that ends in .h5");
}
