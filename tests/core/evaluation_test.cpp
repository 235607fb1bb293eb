// The statistics of an evaluation: intervals, pairs, and what is left out.
#include "engine/core/study/measure/evaluation.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "engine/core/support/error.h"
#include "engine/core/support/json_fields.h"
#include "engine/core/support/random.h"

namespace kvscope {
namespace {

EvalAnswer answer_of(const std::string& policy, int index, bool right) {
  EvalAnswer answer{
      .item = "needle", .policy = policy, .is_dense = policy == "full", .index = index, .is_right = right};
  answer.density = 0.5;
  answer.tokens = 10;
  answer.seconds = 2;
  return answer;
}

EvalAnswer piece_of(const std::string& policy, int index, double nll) {
  EvalAnswer answer{.item = "a.txt", .is_text = true, .policy = policy, .is_dense = policy == "full", .index = index};
  answer.nll = nll;
  return answer;
}

TEST_CASE("Wilson's interval has the values of the textbook, and [0, 1] for nothing", "[core][evaluation]") {
  // Newcombe 1998, table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29.
  const struct {
    int right, n;
    double low, high;
  } known[] = {{81, 263, 0.2553, 0.3662}, {15, 148, 0.0624, 0.1605}, {0, 20, 0, 0.1611}, {1, 29, 0.0061, 0.1718}};
  for (const auto& row : known) {
    CAPTURE(row.right, row.n);
    CHECK(wilson_95(row.right, row.n).low == Approx(row.low).margin(5e-5));
    CHECK(wilson_95(row.right, row.n).high == Approx(row.high).margin(5e-5));
  }
  CHECK(wilson_95(0, 0).low == 0);
  CHECK(wilson_95(0, 0).high == 1);
  CHECK(wilson_95(20, 20).high == 1);
}

TEST_CASE("the interval covers the true rate in 93 to 97 of 100 simulated evaluations", "[core][evaluation]") {
  Random random(7);
  for (const double rate : {0.1, 0.35, 0.5, 0.8, 0.97}) {
    constexpr int kEvaluations = 4000, kQuestions = 200;
    int covered = 0;
    for (int i = 0; i < kEvaluations; ++i) {
      int right = 0;
      for (int q = 0; q < kQuestions; ++q) right += random.uniform() < rate;
      const Interval interval = wilson_95(right, kQuestions);
      covered += interval.low <= rate && rate <= interval.high;
    }
    CAPTURE(rate);
    CHECK(covered >= 0.93 * kEvaluations);
    CHECK(covered <= 0.97 * kEvaluations);
  }
}

TEST_CASE("a row is compared with the dense answers to the same questions alone", "[core][evaluation]") {
  std::vector<EvalAnswer> answers;
  for (int i = 0; i < 4; ++i) answers.push_back(answer_of("full", i, i != 3));  // 3 of 4 right
  for (int i = 0; i < 2; ++i) answers.push_back(answer_of("tova", i, i == 0));  // stopped after two of them
  const std::vector<EvalRow> rows = summarise(answers);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].policy == "full");
  CHECK(rows[0].n == 4);
  CHECK(rows[0].accuracy == 0.75);
  CHECK(rows[0].relative == 1);
  CHECK(rows[1].accuracy == 0.5);
  CHECK(rows[1].relative == 0.5);  // of the two that were both asked, dense had both
  CHECK(rows[1].low == Approx(wilson_95(1, 2).low));
  CHECK(rows[1].tokens_per_s == 5);
  CHECK(rows[1].density == 0.5);
  CHECK(std::isnan(rows[1].recall));
  CHECK(std::isnan(rows[1].nll));
}

TEST_CASE(
    "pass@1 is the mean over questions of the share of right rollouts, with Student's interval over the questions",
    "[core][evaluation]") {
  // Shares by question: dense 1, 0.5, 1; a quarter kept 0.5, 0, 1.
  const bool dense[3][2] = {{true, true}, {true, false}, {true, true}};
  const bool kept[3][2] = {{true, false}, {false, false}, {true, true}};
  std::vector<EvalAnswer> answers;
  for (int index = 0; index < 3; ++index) {
    for (int rollout = 0; rollout < 2; ++rollout) {
      for (const bool is_dense : {true, false}) {
        EvalAnswer answer =
            answer_of(is_dense ? "full" : "tova:keep=25%", index, (is_dense ? dense : kept)[index][rollout]);
        answer.rollout = rollout;
        answer.evicted = is_dense ? 0 : 10 * (rollout + 1);
        answer.overflows = is_dense ? 0 : 4 * rollout;
        answers.push_back(answer);
      }
    }
  }
  const std::vector<EvalRow> rows = summarise(answers);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].n == 3);
  CHECK(rows[0].rollouts == 2);
  CHECK(rows[0].accuracy == Approx(2.5 / 3));
  CHECK(rows[1].accuracy == Approx(0.5));
  CHECK(rows[1].relative == Approx(1.5 / 2.5));
  CHECK(rows[1].evicted == Approx(15));
  CHECK(rows[0].overflows == 0);
  CHECK(rows[1].overflows == Approx(2));
  // Shares 0.5, 0, 1: s = 0.5, and t for two degrees of freedom is 4.3027, so that the interval meets both ends.
  CHECK(rows[1].low == 0);
  CHECK(rows[1].high == 1);
  std::vector<double> shares;
  for (int i = 0; i < 50; ++i) shares.push_back(i % 2 == 0 ? 0.25 : 0.75);
  const double s = std::sqrt(50 * 0.0625 / 49);
  CHECK(mean_95(shares).low == Approx(0.5 - 2.0096 * s / std::sqrt(50)).epsilon(1e-4));
  CHECK(mean_95(shares).high == Approx(0.5 + 2.0096 * s / std::sqrt(50)).epsilon(1e-4));
  CHECK(mean_95(std::vector<double>(20, 1.0)).low == wilson_95(20, 20).low);  // no spread is not certainty
  CHECK(mean_95(std::vector<double>{1.0}).low == 0);
  CHECK(answers[0].key() != answers[2].key());
  CHECK(answer_of("full", 0, true).key() == "needle\tfull\t0");
}

TEST_CASE("shares have their mean, Student's interval over the questions, and the dense mean of the same questions",
          "[core][evaluation]") {
  const double dense[] = {1, 0.5, 0.9, 0.4}, kept[] = {0.5, 0.25, 0.45};
  std::vector<EvalAnswer> answers;
  for (int i = 0; i < 4; ++i) {
    answers.push_back(answer_of("full", i, dense[i] == 1));
    answers.back().share = dense[i];
    if (i == 3) continue;  // stopped after three of them
    answers.push_back(answer_of("tova", i, false));
    answers.back().share = kept[i];
  }
  std::vector<EvalRow> rows = summarise(answers);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].is_share);
  CHECK(rows[0].accuracy == Approx(0.7));
  CHECK(rows[1].accuracy == Approx(0.4));
  CHECK(rows[1].relative == Approx(0.5));
  // Of 0.5, 0.25 and 0.45; t for two degrees of freedom is 4.302653.
  const double half = 4.302653 * std::sqrt(0.035 / 2 / 3);
  CHECK(rows[1].low == Approx(0.4 - half));
  CHECK(rows[1].high == Approx(0.4 + half));
  CHECK(std::string(accuracy_title(rows)) == "mean mark");
  // Of several rollouts, the mean of each question's.
  answers.push_back(answers.back());
  answers.back().policy = "tova", answers.back().is_dense = false, answers.back().index = 0;
  answers.back().rollout = 1, answers.back().share = 1;
  rows = summarise(answers);
  CHECK(rows[1].n == 3);
  CHECK(rows[1].accuracy == Approx((0.75 + 0.25 + 0.45) / 3));
  rows = summarise(std::vector{answer_of("full", 0, true)});
  CHECK_FALSE(rows[0].is_share);
  CHECK(std::string(accuracy_title(rows)) == "accuracy");
  // No spread is not certainty, of shares neither.
  const std::vector<double> equal(10, 0.3);
  CHECK(mean_95(equal).low == Approx(wilson_95(3, 10).low));
  CHECK(mean_95(equal).high == Approx(wilson_95(3, 10).high));
}

TEST_CASE("the difference in NLL is paired: its error is that of the differences", "[core][evaluation]") {
  std::vector<EvalAnswer> answers;
  const double dense[] = {1, 3, 5}, other[] = {1.1, 3.2, 5.3};
  for (int i = 0; i < 3; ++i) {
    answers.push_back(piece_of("full", i, dense[i]));
    answers.push_back(piece_of("tova", i, other[i]));
  }
  const std::vector<EvalRow> rows = summarise(answers);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].nll == Approx(3));
  CHECK(rows[0].perplexity == Approx(std::exp(3.0)));
  CHECK(rows[1].nll_difference == Approx(0.2));
  CHECK(rows[1].nll_difference_se == Approx(0.1 / std::sqrt(3.0)));
  CHECK(std::isnan(rows[1].accuracy));
  CHECK(std::isnan(summarise(std::vector{piece_of("full", 0, 1)})[0].nll_difference_se));
}

TEST_CASE("answers keep every field through JSON, and what was not measured stays so", "[core][evaluation]") {
  EvalAnswer answer = answer_of("h2o:keep=25%,window=8", 3, true);
  answer.expected = "48213";
  answer.answer = " 48213.\n\"";
  const nlohmann::json json = json_of_fields(answer);
  const auto again = fields_of_json<EvalAnswer>(json, "test");
  CHECK(nlohmann::json(json_of_fields(again)) == json);
  CHECK(again.answer == answer.answer);
  CHECK(std::isnan(again.recall));
  CHECK(again.density == 0.5);
  CHECK(std::isnan(again.share));
  answer.share = 0.75;
  CHECK(fields_of_json<EvalAnswer>(nlohmann::json(json_of_fields(answer)), "test").share == 0.75);
  CHECK(fields_of_json<EvalRequest>({{"tasks", {"needle"}}}, "test").questions == 100);
  CHECK_THROWS_AS(fields_of_json<EvalRequest>({{"questions", 0}}, "test"), Error);
  CHECK_THROWS_AS(fields_of_json<EvalRequest>({{"chat", "yes"}}, "test"), Error);
}

}  // namespace
}  // namespace kvscope
