// Two runs as a table: its words from what was asked, its numbers from the metrics.
#include "engine/core/study/measure/comparison_table.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "engine/core/study/measure/common_oracle.h"
#include "engine/core/study/measure/oracle_label.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/support/error.h"
#include "engine/core/support/text.h"
#include "tests/support/cut_run.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using kvscope::test::cut_run;
using kvscope::test::random_run;

namespace {

const ComparisonRow& row(const std::vector<ComparisonRow>& rows, const std::string& name) {
  for (const ComparisonRow& r : rows) {
    if (r.name == name) return r;
  }
  FAIL("no row " << name);
  throw std::logic_error("unreachable");
}

bool has(const std::vector<ComparisonRow>& rows, const std::string& name) {
  return std::ranges::any_of(rows, [&](const ComparisonRow& r) { return r.name == name; });
}

}  // namespace

TEST_CASE("comparison_table: parameters that one policy has and the other has not stand as missing", "[core]") {
  const RunRecord a = random_run(3);
  RunRecord b = random_run(3, {.policy = "streaming:sinks=4,window=60"});
  b.sampling = {};
  const ComparisonTable table = comparison_table(a, b, 1000);
  CHECK(row(table.asked, "policy").a == "KVpop");
  CHECK(row(table.asked, "policy").b == "StreamingLLM");
  CHECK_FALSE(row(table.asked, "sinks").differs());
  CHECK(row(table.asked, "window").b == "60");
  CHECK(row(table.asked, "budget").b == "–");
  CHECK_THAT(row(table.asked, "sampling").a, Catch::StartsWith("temperature 0.75, top k 40"));
  CHECK(row(table.asked, "sampling").b == "greedy");
  CHECK(row(table.asked, "prompt").b == "same");
  CHECK(table.tokens == "Identical: all 180 tokens");
}

TEST_CASE(
    "comparison_table: parameters that are numbers of one kind have a difference, words and a share beside tokens none") {
  const RunRecord a = random_run(3, {.policy = "kvpop:keep=50%,window=16,sinks=2"});
  const auto asked = [&](const char* policy) {
    return comparison_table(a, random_run(3, {.policy = policy}), 1000).asked;
  };
  const auto shares = asked("kvpop:keep=25%,window=24,sinks=2");
  CHECK(row(shares, "keep").difference == "-25 points");
  CHECK(row(shares, "window").difference == "+8");
  CHECK(row(shares, "sinks").difference.empty());
  CHECK(row(shares, "policy").difference.empty());
  const auto tokens = asked("kvpop:budget=40,window=16,sinks=2");
  CHECK(row(tokens, "keep").difference.empty());
  CHECK(row(tokens, "budget").difference.empty());
}

TEST_CASE("comparison_table: after how many tokens each policy acted stands there where a text was read", "[core]") {
  RunRecord a = random_run(3), b = a;
  CHECK_FALSE(has(comparison_table(a, b, 1000).asked, "acts after"));
  a.chunk = 16;
  b.chunk = 1;
  CHECK(row(comparison_table(a, b, 1000).asked, "acts after").a == "every 16 tokens");
  CHECK(row(comparison_table(a, b, 1000).asked, "acts after").b == "each token");
  b.chunk = 0;
  CHECK(row(comparison_table(a, b, 1000).asked, "acts after").b == "the prompt, then each token");
}

TEST_CASE("comparison_table: two runs of one policy by two gates of its kind differ in the gate", "[core]") {
  RunRecord a = random_run(3), b = random_run(3);
  CHECK_FALSE(has(comparison_table(a, b, 100).asked, "gate"));
  a.scorer = {.kind = "kvpop_mlp", .delay = 0, .text = "KVpop MLP, delay 0, gate kvpop", .gate = "kvpop"};
  b.scorer = {
      .kind = "kvpop_mlstm", .delay = 64, .text = "KVpop mLSTM, delay 64, gate kvpop-mlstm", .gate = "kvpop-mlstm"};
  const ComparisonTable table = comparison_table(a, b, 100);
  CHECK(row(table.asked, "gate").a == "kvpop");
  CHECK(row(table.asked, "gate").b == "kvpop-mlstm");
}

TEST_CASE("comparison_table: two hybrids of as many heads differ in which heads these are", "[core]") {
  RunRecord a = random_run(3), b = a;
  CHECK_FALSE(has(comparison_table(a, b, 100).asked, "global heads"));
  const std::size_t n = static_cast<std::size_t>(a.model.n_layers) * a.model.n_kv_heads;
  REQUIRE(n >= 4);
  std::vector<std::uint8_t> local_a(n, 1), local_b(n, 1);
  local_a[0] = local_a[1] = local_b[1] = local_b[3] = 0;
  test::make_local(a, local_a), test::make_local(b, local_b);
  const ComparisonTable table = comparison_table(a, b, 100);
  CHECK(row(table.asked, "global heads").a == "2 of " + std::to_string(n));
  CHECK(row(table.asked, "global heads").b == "2 of " + std::to_string(n) + ", 1 shared with A");
  b.heads = a.heads;
  CHECK_FALSE(row(comparison_table(a, b, 100).asked, "global heads").differs());
  b.heads.clear();
  CHECK(row(comparison_table(a, b, 100).asked, "global heads").b == "–");
}

TEST_CASE("comparison_table: the numbers are the metrics at the query, by one oracle, and B - A", "[core]") {
  const RunRecord a = random_run(3), b = random_run(3, {.policy = "threshold:threshold=0.2,sinks=4,window=16"});
  const ComparisonTable table = comparison_table(a, b, 150);
  const double density_a = mean(head_metric(a, Metric::density, 150)),
               density_b = mean(head_metric(b, Metric::density, 150));
  CHECK(row(table.came_of, "density").a == number_text(density_a, 4));
  CHECK(row(table.came_of, "density").difference ==
        (density_b > density_a ? "+" : "") + number_text(density_b - density_a, 3));
  const auto common = CommonOracle::of(a, b);
  REQUIRE(common);
  const OracleMean judged_a = mean_of(common->oracle(a), 150), judged_b = mean_of(common->oracle(b), 150);
  CHECK(row(table.came_of, "oracle recall").b == number_text(judged_b.recall, 4));
  CHECK(row(table.came_of, "chance").a == number_text(judged_a.chance, 4));
  CHECK(row(table.came_of, "above chance").b == number_text(judged_b.above_chance(), 4));
  CHECK(row(table.came_of, "mass kept").b == number_text(judged_b.mass_kept, 4));
  CHECK_THAT(row(table.came_of, "chance").definition, Catch::Contains("one oracle for both"));
  double nll = 0;
  for (int t = 1; t < a.n_tokens(); ++t) nll -= a.logprobs[t];
  CHECK(row(table.came_of, "NLL of all").a == number_text(nll / (a.n_tokens() - 1), 4));
}

// A's recall was 0.567 beside one run and 0.442 beside another, and nothing at the number said why; and the larger budget won.
TEST_CASE(
    "comparison_table: a label says by which oracle of how many tokens a recall goes, and the whole run's is its own",
    "[core]") {
  const RunRecord a = random_run(3, {.policy = "kvpop:budget=40,sinks=4,window=16"});
  const OracleMean own = mean_of(Oracle(a));
  for (const char* policy : {"kvpop:budget=120,sinks=4,window=16", "threshold:threshold=0.2,sinks=4,window=16",
                             "kvpop:budget=90,sinks=4,window=48"}) {
    const RunRecord b = random_run(3, {.policy = policy});
    CAPTURE(policy);
    const auto rows = comparison_table(a, b, 1000).came_of;
    CHECK(row(rows, "own recall").a == number_text(own.recall, 4));  // whatever is beside it
    CHECK(row(rows, "own recall").b == number_text(mean_of(Oracle(b)).recall, 4));
    CHECK(row(rows, "own recall").difference.empty());
    CHECK_THAT(row(rows, "own recall").label, Catch::StartsWith("recall (own oracles, "));
    const int k = CommonOracle::of(a, b)->tokens() - 4 - std::max(a.geometry().window, b.geometry().window);
    const std::string shared = "(shared oracle, k = " + std::to_string(k) + ")";
    CHECK(row(rows, "above chance").label == "recall above chance " + shared);
    CHECK(row(rows, "oracle recall").label == "recall " + shared);
    CHECK(row(rows, "chance").label == "chance " + shared);
    const auto place = [&](const char* name) {
      return std::ranges::find(rows, name, &ComparisonRow::name) - rows.begin();
    };
    CHECK(place("above chance") < place("oracle recall"));
  }
  CHECK(recall_label(OracleOf::own, own) == "recall (own oracle, k = 20)");
}

TEST_CASE("comparison_table: the NLL of the answer is there beside that of the text", "[core]") {
  const RunRecord a = random_run(3), b = random_run(3, {.policy = "streaming:sinks=4,window=60"});
  double nll = 0;
  for (int t = a.prompt_len; t < a.n_tokens(); ++t) nll -= a.logprobs[static_cast<std::size_t>(t)];
  const ComparisonTable table = comparison_table(a, b, 1000);
  CHECK(row(table.came_of, "NLL of the answer").a == number_text(nll / (a.n_tokens() - a.prompt_len), 4));
  CHECK_FALSE(row(table.came_of, "NLL of the answer").difference.empty());
  CHECK(row(table.came_of, "density").label == "density (incl. sinks)");
}

TEST_CASE("comparison_table: of a run with itself nothing differs", "[core]") {
  const RunRecord a = random_run(5);
  const ComparisonTable table = comparison_table(a, a, 100);
  for (const auto& rows : {table.asked, table.came_of}) {
    for (const ComparisonRow& r : rows) {
      CAPTURE(r.name);
      CHECK_FALSE(r.differs());
    }
  }
}

TEST_CASE("comparison_table: where tokens part it says so, and looks at nothing after that", "[core]") {
  const RunRecord a = random_run(5);
  RunRecord b = random_run(5, {.policy = "kvpop:budget=40,sinks=4,window=16"});
  b.ids[130] += 1;
  const ComparisonTable table = comparison_table(a, b, 1000);
  CHECK(table.tokens == "Tokens diverge at 130");
  CHECK(has(table.came_of, "NLL of the first 130"));
  CHECK_FALSE(has(table.came_of, "NLL of all"));
  CHECK(row(table.came_of, "at query").a == "129");
  CHECK_FALSE(has(comparison_table(a, b, 100).came_of, "at query"));
  CHECK(row(table.came_of, "density").a == number_text(mean(head_metric(a, Metric::density, 129)), 4));
  CHECK_FALSE(CommonOracle::of(a, b));
  CHECK(row(table.came_of, "oracle recall").b == number_text(mean_of(Oracle(b), 129).recall, 4));
  CHECK(row(table.came_of, "NLL of the answer").difference.empty());  // of two texts
  CHECK_THAT(row(table.came_of, "oracle recall").definition, Catch::Contains("each is judged by its own oracle"));
  b.ids[0] += 1;
  const ComparisonTable apart = comparison_table(a, b, 1000);
  CHECK_FALSE(has(apart.came_of, "density"));
  CHECK(row(apart.came_of, "NLL of all").a == "–");
  CHECK(row(apart.asked, "prompt").differs());
}

TEST_CASE("comparison_table: a preview has no likelihood and no time, and another model is refused", "[core]") {
  const RunRecord a = random_run(5), b = random_run(5, {.policy = "streaming:sinks=4,window=60"});
  const ComparisonTable table = comparison_table(a, b, 1000, true);
  CHECK_FALSE(has(table.came_of, "NLL"));
  CHECK_FALSE(has(table.came_of, "ms per token"));
  CHECK(has(table.came_of, "density"));
  CHECK_THROWS_AS(comparison_table(a, random_run(5, {.n_layers = 3}), 10), Error);
}

TEST_CASE(
    "common oracle: the smaller budget, else a quarter of the run, of a short one a quarter of what can be chosen",
    "[core][metric]") {
  const auto tokens = [](const RunRecord& a, const RunRecord& b) { return CommonOracle::of(a, b)->tokens(); };
  const RunRecord small = random_run(1, {.policy = "kvpop:budget=40,sinks=4,window=16"}),
                  large = random_run(1, {.policy = "kvpop:budget=90,sinks=4,window=16"}),
                  open = random_run(1, {.policy = "threshold:threshold=0.2,sinks=4,window=16"}),
                  wide = random_run(1, {.policy = "kvpop:budget=90,sinks=4,window=64"});
  CHECK(tokens(small, large) == 40);
  CHECK(tokens(large, open) == 180 / 4);
  CHECK(tokens(wide, open) == 68 + (180 - 68) / 4);  // 45 would leave no room
  RunRecord short_a = small, short_b = small;        // ended at 180 of 1000 positions
  short_a.policy = PolicySpec::parse("kvpop:keep=50%,sinks=4,window=16");
  short_b.policy = PolicySpec::parse("kvpop:keep=40%,sinks=4,window=16");
  short_a.n_positions = short_b.n_positions = 1000;
  CHECK(tokens(short_a, short_b) == 180 / 4);
  CHECK_THAT(CommonOracle::of(short_a, short_b)->note(short_a, short_b, 179),
             Catch::StartsWith("shared oracle, k = 25 of 180 tokens, 45 with sinks and window; chance A "));
  const auto common = CommonOracle::of(wide, open);
  CHECK_FALSE(std::isnan(mean(common->metric(wide, Metric::recall, 179))));
}

// Beside itself a run had a mean recall over its prompt as well, where every token is visible.
TEST_CASE("common oracle: a run beside itself has the numbers that it has alone, whatever its policy",
          "[core][metric]") {
  const auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  int n_chosen = 0;
  for (const RunRecord& run :
       {cut_run("h2o:budget=60,window=16"), cut_run("tova:budget=60"), random_run(3, {.policy = "full"}),
        random_run(3, {.policy = "kvpop:budget=40,sinks=4,window=16,decay=0.99"}),
        random_run(3, {.policy = "threshold:threshold=0.2,sinks=4,window=16"})}) {
    CAPTURE(run.policy.to_string());
    const auto common = CommonOracle::of(run, run);
    REQUIRE(common);
    const auto alone = Oracle(run).curves(), beside = common->oracle(run).curves();
    REQUIRE(alone.size() == beside.size());
    for (std::size_t head = 0; head < alone.size(); ++head) {
      const OracleMean a = mean_of(alone[head]), b = mean_of(beside[head]);
      CHECK(a.n == b.n);
      n_chosen += a.n > 0;
      CHECK((same(a.recall, b.recall) && same(a.chance, b.chance) && same(a.mass_recall, b.mass_recall)));
      CHECK(same(a.mass_kept, b.mass_kept));
    }
    CHECK_THAT(common->note(run, run, 150), Catch::StartsWith("shared oracle, as many tokens as both keep; chance A "));
  }
  CHECK(n_chosen > 12);
}

TEST_CASE("common oracle: where neither run has lost a token of a head, as in a dense prompt, nothing was chosen",
          "[core][metric]") {
  const RunRecord small = cut_run("h2o:budget=60,window=16"), large = cut_run("h2o:budget=90,window=16"),
                  chooses = random_run(3, {.policy = "kvpop:budget=40,sinks=4,window=16"});
  const auto common = CommonOracle::of(small, large);
  REQUIRE(common);
  CHECK_FALSE(common->asks(119));
  CHECK(common->asks(120));
  for (const RunRecord* run : {&small, &large}) {
    const Oracle oracle = common->oracle(*run);
    const std::vector<OracleCounts> curve = oracle.curve(1, 2);
    for (const std::int32_t q : {0, 100, 119, 120, 150}) {
      CAPTURE(q);
      CHECK(oracle.counts(1, 2, q).chosen == (q >= 120));
      CHECK(curve[static_cast<std::size_t>(q)].chosen == (q >= 120));
    }
    CHECK(mean_of(curve).n == Oracle(*run).n_queries() - 120);
    CHECK(std::isnan(common->metric(*run, Metric::mass_recall, 100).at(1, 2)));
    CHECK(oracle.counts(1, 2, 100).mass_kept() == 1);
  }
  // Beside one that chose within the prompt both are asked there.
  CHECK(CommonOracle::of(small, chooses)->oracle(small).counts(1, 2, 100).recall() == 1);
}
