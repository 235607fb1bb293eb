// Rotary frequencies against transformers; make_rope_golden.py made the numbers.
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "engine/core/files/weights/model_config.h"
#include "engine/core/files/weights/rope_frequencies.h"
#include "tests/support/golden.h"
#include "tests/support/temp_folder.h"

using kvscope::ModelConfig;
using kvscope::rope_frequencies;
using kvscope::RopeFrequencies;
using kvscope::RopeKind;
using kvscope::RopeScaling;

namespace {

const nlohmann::json& golden_cases() {
  static const nlohmann::json golden = kvscope::test::read_golden("tests/core/golden/rope.json");
  return golden["cases"];
}

RopeFrequencies frequencies_of(const nlohmann::json& config) {
  const kvscope::test::TempFolder folder;
  folder.write("config.json", config.dump());
  const ModelConfig c = ModelConfig::load(folder.path());
  return rope_frequencies(c.layers[0].rope_theta, c.head_dim, c.layers[0].rope_scaling);
}

double greatest_relative_difference(const std::vector<float>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double greatest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) greatest = std::max(greatest, std::abs(a[i] / b[i] - 1));
  return greatest;
}

constexpr double kUlp = 1.0 / (1 << 23);

}  // namespace

TEST_CASE("Frequencies of every kind of scaling are those that transformers makes of the same config.json") {
  for (const nlohmann::json& c : golden_cases()) {
    CAPTURE(c["config"].dump());
    const RopeFrequencies rope = frequencies_of(c["config"]);
    CHECK(rope.attention_scaling == static_cast<float>(c["attention_scaling"].get<double>()));
    // Powers of the two libraries differ in the last place; blends of two such powers in the last two.
    CHECK(greatest_relative_difference(rope.inv_freq, c["inv_freq"].get<std::vector<double>>()) <= 2 * kUlp);
  }
}

TEST_CASE("The golden frequencies know one kind of scaling from another") {
  const nlohmann::json& yarn = golden_cases()[2];
  REQUIRE(yarn["config"]["rope_scaling"]["rope_type"] == "yarn");
  nlohmann::json other = yarn["config"];
  other["rope_scaling"]["beta_fast"] = 16;
  CHECK(greatest_relative_difference(frequencies_of(other).inv_freq, yarn["inv_freq"].get<std::vector<double>>()) >
        1e-3);
}

TEST_CASE("A scaling keeps the fast pairs, divides the slow ones, and lies between where it blends") {
  const RopeScaling scaling =
      GENERATE(RopeScaling{.kind = RopeKind::llama3, .factor = 8, .original_positions = 8192},
               RopeScaling{.kind = RopeKind::yarn, .factor = 8, .original_positions = 8192, .truncate = false});
  const std::vector<float> plain = rope_frequencies(5e5, 128, {}).inv_freq,
                           scaled = rope_frequencies(5e5, 128, scaling).inv_freq;
  CHECK(scaled.front() == plain.front());
  CHECK(scaled.back() == plain.back() / 8);
  int kept = 0, divided = 0, between = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    if (i > 0) CHECK(scaled[i] < scaled[i - 1]);
    const float ratio = scaled[i] / plain[i];
    (ratio > 0.999999f ? kept : ratio < 0.125001f ? divided : between)++;
  }
  CHECK((kept > 10 && divided > 10 && between > 5));
}
