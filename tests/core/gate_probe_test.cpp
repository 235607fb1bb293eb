// Probes of a training: what the program adds up of them against plain loops over random scores, and how they are kept, cut, joined and
// stored.

#include "engine/core/study/table/gate_probe.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/core/study/table/probe_summary.h"
#include "engine/core/study/table/study_columns.h"
#include "engine/core/support/error.h"
#include "engine/core/support/random.h"
#include "tests/support/study_literal.h"

using namespace kvscope;

namespace {

constexpr int kLayers = 3, kHeads = 2, kTokens = 7;
constexpr float kNone = std::numeric_limits<float>::quiet_NaN();

/// Layer 1 has no scores, nor has the last token.
GateProbe random_probe(double step, std::uint64_t seed) {
  GateProbe probe{.step = step, .threshold = 0.4, .n_layers = kLayers, .n_kv_heads = kHeads};
  for (int t = 0; t < kTokens; ++t) probe.tokens.push_back(100 + t);
  Random random(seed, 1);
  for (int i = 0; i < kLayers * kHeads * kTokens; ++i) {
    const bool none = i / (kHeads * kTokens) == 1 || i % kTokens == kTokens - 1;
    probe.scores.push_back(none ? kNone : static_cast<float>(random.below(1000)) / 1000);
  }
  probe.scores[0] = 0.4F;  // at the threshold: kept
  return probe;
}

StudyTable training(std::initializer_list<double> steps, std::uint64_t seed = 5) {
  StudyTable table = test::study_of("step,loss_all\n1,3\n2,2\n", kTrainingStudy);
  table.facts = R"({"probe": {"pieces": ["a", " b", "c", "d", "e", "f", "g"]}})";
  for (const double step : steps) add_probe(table, random_probe(step, seed + static_cast<std::uint64_t>(step)));
  return table;
}

bool same_value(float a, double b) { return (std::isnan(a) && std::isnan(b)) || a == Approx(b).epsilon(1e-6); }

}  // namespace

TEST_CASE("what probes add up to is what plain loops over layers, heads and tokens find") {
  const StudyTable table = join_studies(std::vector{std::pair(std::string("one"), training({0, 10, 20}))});
  const ProbeSummary probes = summarise_probes(table, "");
  CHECK(probes.source == "one");
  CHECK(probes.steps == std::vector<double>{0, 10, 20});
  CHECK(probes.pieces[1] == " b");
  REQUIRE(probes.has_threshold());
  for (std::size_t p = 0; p < 3; ++p) {
    const GateProbe probe = random_probe(probes.steps[p], 5 + static_cast<std::uint64_t>(probes.steps[p]));
    const auto at = [&](int l, int h, int t) {
      return probe.scores[static_cast<std::size_t>((l * kHeads + h) * kTokens + t)];
    };
    for (int l = 0; l < kLayers; ++l) {
      double of_layer = 0;
      for (int h = 0; h < kHeads; ++h) {
        double kept = 0, sum = 0, n = 0;
        for (int t = 0; t < kTokens; ++t)
          if (!std::isnan(at(l, h, t))) kept += at(l, h, t) >= 0.4F, sum += at(l, h, t), ++n;
        CHECK(same_value(probes.map(p, ProbeQuantity::kept).at(l, h), kept / n));
        CHECK(same_value(probes.map(p, ProbeQuantity::score).at(l, h), sum / n));
        of_layer += kept / n / kHeads;
      }
      CHECK(same_value(probes.of_layer(p, l, ProbeQuantity::kept), of_layer));
    }
    for (int t = 0; t < kTokens; ++t) {
      double sum = 0, n = 0;
      for (int l = 0; l < kLayers; ++l)
        for (int h = 0; h < kHeads; ++h)
          if (!std::isnan(at(l, h, t))) sum += at(l, h, t), ++n;
      CHECK(same_value(probes.token_score[p * kTokens + static_cast<std::size_t>(t)], sum / n));
    }
  }
  CHECK(probes.probe_at(-1) == 2);
  CHECK(probes.probe_at(0) == 0);
  CHECK(probes.probe_at(19) == 1);
  CHECK(probes.probe_at(20) == 2);
  CHECK(probes.probe_at(1000) == 2);
}

TEST_CASE("a probe replaces those of its step and later ones, and all of another text") {
  StudyTable table = training({0, 10, 20, 30});
  add_probe(table, random_probe(20, 99));
  CHECK(table.array(kProbeStep)->values == std::vector<double>{0, 10, 20});
  CHECK(table.array(kProbeScore)->shape == std::vector<std::int64_t>{3, kLayers, kHeads, kTokens});
  CHECK(table.array(kProbeScore)->values[2 * kLayers * kHeads * kTokens + 1] == random_probe(20, 99).scores[1]);
  CHECK_NOTHROW(check_study(table, "t"));
  GateProbe other = random_probe(40, 1);
  other.tokens[0] = 7;
  add_probe(table, other);
  CHECK(table.array(kProbeStep)->values == std::vector<double>{40});
  CHECK_NOTHROW(check_study(table, "t"));
}

TEST_CASE("a training that goes on keeps its probes up to the step of its checkpoint, with their texts") {
  StudyTable fresh = test::study_of("step,loss_all\n1,3\n", kTrainingStudy);
  keep_probes(fresh, training({0, 10, 20, 30}), 25);
  CHECK(fresh.array(kProbeStep)->values == std::vector<double>{0, 10, 20});
  CHECK(summarise_probes(fresh, "").pieces[1] == " b");
  keep_probes(fresh, training({10, 20}), 5);
  CHECK(n_probes(fresh) == 0);
  CHECK_NOTHROW(check_study(fresh, "t"));
}

TEST_CASE("probes of several trainings are joined by training, those of another text are left out") {
  const StudyTable none = test::study_of("step,loss_all\n1,3\n", kTrainingStudy);
  StudyTable other = test::study_of("step,loss_all\n1,3\n", kTrainingStudy);
  GateProbe probe = random_probe(0, 1);
  probe.tokens[2] = 1;
  add_probe(other, probe);
  const std::vector<std::pair<std::string, StudyTable>> tables = {
      {"base", none}, {"wg-kv-0.1", training({0, 10})}, {"wg-kv-0.2", training({0, 5, 9}, 77)}, {"x", other}};
  const StudyTable all = join_studies(tables);
  CHECK_NOTHROW(check_study(all, "all"));
  CHECK(probed_sources(all) == std::vector<std::string>{"wg-kv-0.1", "wg-kv-0.2"});
  const ProbeSummary second = summarise_probes(all, "wg-kv-0.2");
  CHECK(second.steps == std::vector<double>{0, 5, 9});
  CHECK(second.pieces[1] == " b");
  const ProbeSummary alone = summarise_probes(training({0, 5, 9}, 77), "");
  for (std::size_t i = 0; i < alone.kept.size(); ++i) CHECK(same_value(second.kept[i], alone.kept[i]));
  CHECK_THROWS_WITH(summarise_probes(all, "base"), Catch::Contains("one of wg-kv-0.1, wg-kv-0.2"));
  CHECK_THROWS_WITH(summarise_probes(none, ""), Catch::Contains("\"probe\": true"));
}

TEST_CASE("a gate without a threshold has scores and no kept share, until one is known") {
  StudyTable table = training({0, 10});
  set_probe_threshold(table, std::nan(""));
  CHECK_FALSE(summarise_probes(table, "").has_threshold());
  CHECK(std::isnan(summarise_probes(table, "").kept[0]));
  set_probe_threshold(table, 0.4);
  const ProbeSummary known = summarise_probes(table, ""), plain = summarise_probes(training({0, 10}), "");
  REQUIRE(known.kept.size() == plain.kept.size());
  for (std::size_t i = 0; i < known.kept.size(); ++i) CHECK(same_value(known.kept[i], plain.kept[i]));
}
