// The same tokens and probabilities as transformers' logits processors, for settings that make_sampling_golden.py drew.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "engine/core/sampling/sampler.h"
#include "tests/support/golden.h"

using namespace kvscope;

TEST_CASE("sampling: keeps the tokens and probabilities that transformers keeps", "[core][sampling]") {
  const auto golden = test::read_golden("tests/core/golden/sampling.json");
  REQUIRE(golden["cases"].size() >= 40);
  for (const auto& c : golden["cases"]) {
    const SamplingSpec spec = {.temperature = c["temperature"],
                               .top_k = c["top_k"],
                               .top_p = c["top_p"],
                               .min_p = c["min_p"],
                               .repetition_penalty = c["repetition_penalty"]};
    CAPTURE(spec.temperature, spec.top_k, spec.top_p, spec.min_p, spec.repetition_penalty);
    const auto logits = c["logits"].get<std::vector<float>>();
    const auto so_far = c["so_far"].get<std::vector<std::int32_t>>();
    Sampler sampler(spec);
    const auto found = sampler.candidates(logits, so_far);
    const auto ids = c["ids"].get<std::vector<std::int32_t>>();
    const auto probabilities = c["probabilities"].get<std::vector<double>>();
    double sum = 0;
    for (const auto& candidate : found) sum += candidate.weight;
    REQUIRE(found.size() == ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      CAPTURE(i);
      REQUIRE(found[i].id == ids[i]);
      REQUIRE(std::abs(found[i].weight / sum - probabilities[i]) <= 1e-6);
    }
  }
}
