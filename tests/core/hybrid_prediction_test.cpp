#include "engine/core/study/heads/hybrid_prediction.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>

#include "engine/core/support/random.h"

namespace kvscope {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr int kLayers = 3, kHeads = 4, kAll = kLayers * kHeads;

ModelInfo model() {
  ModelInfo model;
  model.n_layers = kLayers, model.n_kv_heads = kHeads;
  model.weights_hash = "a1";
  return model;
}

struct Choice {
  GlobalHeads heads;  // empty: the gate's own policy, which has none
  double nll_difference = 0;
};

StudyTable study_of(const std::vector<double>& signal, const std::vector<Choice>& choices) {
  StudyTable study{.kind = "hybrid",
                   .request = "{}",
                   .facts = R"({"weights_hash":"a1","signal":"density","sinks":4,"window":64})",
                   .columns = {{.name = "nll_difference", .units = "nats/token", .meaning = ""}}};
  StudyArray heads{.name = "global_heads", .units = "", .meaning = "", .axes = {"point", "layer", "kv_head"}};
  heads.shape = {static_cast<std::int64_t>(choices.size()), kLayers, kHeads};
  for (const Choice& choice : choices) {
    study.columns[0].numbers.push_back(choice.nll_difference);
    for (int h = 0; h < kAll; ++h)
      heads.values.push_back(choice.heads.empty() ? kNaN : choice.heads[static_cast<std::size_t>(h)]);
  }
  study.arrays = {heads,
                  {.name = "signal_mean",
                   .units = "",
                   .meaning = "",
                   .axes = {"layer", "kv_head"},
                   .shape = {kLayers, kHeads},
                   .values = signal}};
  return study;
}

double share_by_hand(const std::vector<double>& signal, const GlobalHeads& heads) {
  double in = 0, all = 0;
  for (std::size_t h = 0; h < signal.size(); ++h) {
    all += std::max(signal[h], 0.0);
    if (heads[h] == 1) in += std::max(signal[h], 0.0);
  }
  return in / all;
}

/// The fit by its min-max formula, no pooling: at the i-th of the rising x, min over a <= i of max over b >= i of the mean of a to b.
double by_hand(const std::map<double, std::vector<double>>& points, double x) {
  std::vector<double> xs, sums, counts;
  for (const auto& [at, values] : points) {
    xs.push_back(at), counts.push_back(static_cast<double>(values.size())), sums.push_back(0);
    for (const double value : values) sums.back() += value;
  }
  const std::size_t n = xs.size();
  std::vector<double> fit(n);
  for (std::size_t i = 0; i < n; ++i) {
    fit[i] = std::numeric_limits<double>::infinity();
    for (std::size_t a = 0; a <= i; ++a) {
      double most = -std::numeric_limits<double>::infinity(), sum = 0, count = 0;
      for (std::size_t b = a; b < n; ++b) {
        sum += sums[b], count += counts[b];
        if (b >= i) most = std::max(most, sum / count);
      }
      fit[i] = std::min(fit[i], most);
    }
  }
  std::vector<std::pair<double, double>> blocks;  // mean x, level
  for (std::size_t i = 0; i < n;) {
    double sum = 0, count = 0;
    const double level = fit[i];
    for (; i < n && std::abs(fit[i] - level) < 1e-12; ++i) sum += xs[i] * counts[i], count += counts[i];
    blocks.emplace_back(sum / count, level);
  }
  if (x <= blocks.front().first) return blocks.front().second;
  if (x >= blocks.back().first) return blocks.back().second;
  const auto right = std::ranges::find_if(blocks, [&](const auto& block) { return block.first >= x; });
  const auto& [x0, y0] = *(right - 1);
  const auto& [x1, y1] = *right;
  return y0 + (y1 - y0) * (x - x0) / (x1 - x0);
}

GlobalHeads random_heads(Random& random) {
  GlobalHeads heads;
  for (int h = 0; h < kAll; ++h) heads.push_back(static_cast<std::uint8_t>(random.below(2)));
  return heads;
}

TEST_CASE("hybrid prediction: it is the isotonic regression of its definition, on 300 random studies", "[study]") {
  Random random(29);
  for (int round = 0; round < 300; ++round) {
    std::vector<double> signal;
    for (int h = 0; h < kAll; ++h) signal.push_back(static_cast<double>(random.below(9)) - 1);
    signal[0] = 3;
    std::vector<Choice> choices;
    std::map<GlobalHeads, double> measured;
    for (std::uint64_t i = 0; i < 4 + random.below(12); ++i) {
      const GlobalHeads heads = random_heads(random);
      choices.push_back({heads, static_cast<double>(random.below(20)) / 16 - share_by_hand(signal, heads)});
      measured.emplace(heads, choices.back().nll_difference);  // of equal choices the first
    }
    if (measured.size() < 4) continue;
    choices.insert(choices.begin() + 1, {{}, -5});  // the gate's own policy is no choice of heads
    const auto fit = [&](const GlobalHeads* without, double x) {
      std::map<double, std::vector<double>> points;
      for (const auto& [heads, nll] : measured)
        if (without == nullptr || heads != *without) points[share_by_hand(signal, heads)].push_back(nll);
      return by_hand(points, x);
    };
    const GlobalHeads asked = random_heads(random);
    const auto prediction = predict_hybrid(study_of(signal, choices), model(), asked);
    REQUIRE(prediction.has_value());
    CAPTURE(round);
    CHECK(prediction->n_points == static_cast<int>(measured.size()));
    CHECK(prediction->share == Approx(share_by_hand(signal, asked)).margin(1e-12));
    CHECK(prediction->nll_difference == Approx(fit(nullptr, prediction->share)).margin(1e-9));
    double squares = 0;
    for (const auto& [heads, nll] : measured) {
      const double off = fit(&heads, share_by_hand(signal, heads)) - nll;
      squares += off * off;
    }
    CHECK(prediction->error == Approx(std::sqrt(squares / static_cast<double>(measured.size()))).margin(1e-9));
  }
}

TEST_CASE("hybrid prediction: where NLL falls on a line, what was not measured is on it", "[study]") {
  const std::vector<double> signal(kAll, 2.0);
  std::vector<Choice> choices;
  for (const int n : {0, 3, 6, 12}) {
    GlobalHeads heads(kAll, 0);
    std::fill_n(heads.begin(), n, std::uint8_t{1});
    choices.push_back({heads, 0.12 - 0.01 * n});
  }
  GlobalHeads asked(kAll, 0);
  std::fill_n(asked.begin() + 2, 9, std::uint8_t{1});
  const auto prediction = predict_hybrid(study_of(signal, choices), model(), asked);
  REQUIRE(prediction.has_value());
  CHECK(prediction->nll_difference == Approx(0.03));
  CHECK(prediction->share == Approx(0.75));
  CHECK(prediction->signal == "density");
  CHECK(prediction->n_sink == 4);
  CHECK(prediction->window == 64);
}

TEST_CASE("hybrid prediction: of another model, of too few choices and of other studies there is none", "[study]") {
  Random random(3);
  std::vector<double> signal(kAll, 1.0);
  std::vector<Choice> choices;
  for (int n = 0; n < 5; ++n) {
    GlobalHeads heads(kAll, 0);
    std::fill_n(heads.begin(), n, std::uint8_t{1});
    choices.push_back({heads, 0.1});
  }
  const GlobalHeads asked = random_heads(random);
  const StudyTable study = study_of(signal, choices);
  REQUIRE(predict_hybrid(study, model(), asked).has_value());
  ModelInfo other = model();
  other.weights_hash = "b2";
  CHECK_FALSE(predict_hybrid(study, other, asked).has_value());
  other.weights_hash.clear();  // of which nothing is known
  CHECK(predict_hybrid(study, other, asked).has_value());
  other.n_kv_heads = 6, other.n_layers = 2;  // as many heads
  CHECK_FALSE(predict_hybrid(study, other, asked).has_value());
  CHECK_FALSE(predict_hybrid(study, model(), GlobalHeads(kAll - 1, 1)).has_value());
  CHECK_FALSE(predict_hybrid(study_of(std::vector<double>(kAll, 0.0), choices), model(), asked).has_value());
  CHECK_FALSE(predict_hybrid(study_of(signal, {choices.begin(), choices.begin() + 3}), model(), asked).has_value());
  StudyTable damaged = study;
  damaged.facts = "[";
  CHECK(predict_hybrid(damaged, model(), asked)->signal.empty());
  damaged.facts = R"({"signal":7,"window":"wide","weights_hash":null})";
  CHECK(predict_hybrid(damaged, model(), asked)->window == 0);
  damaged.columns[0].name = "nll";
  CHECK_FALSE(predict_hybrid(damaged, model(), asked).has_value());
}

}  // namespace
}  // namespace kvscope
