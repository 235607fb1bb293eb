// config.json and generation_config.json with varied keys: the numbers of transformers' classes (make_model_folder_golden.py),
// or a refusal, or a warning.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "engine/core/files/weights/model_config.h"
#include "engine/core/support/error.h"
#include "tests/support/golden.h"
#include "tests/support/temp_folder.h"

using kvscope::ModelConfig;
using nlohmann::json;

namespace {

int greatest_window(const ModelConfig& c) {
  int greatest = 0;
  for (const kvscope::LayerConfig& layer : c.layers) greatest = std::max(greatest, layer.window);
  return greatest;
}

bool has_numbers(const ModelConfig& c, const json& numbers) {
  const kvscope::LayerConfig& layer = c.layers.front();
  const auto rope = kvscope::rope_frequencies(layer.rope_theta, c.head_dim, layer.rope_scaling);
  const auto inv_freq = numbers["inv_freq"].get<std::vector<double>>();
  bool same = rope.inv_freq.size() == inv_freq.size();
  for (std::size_t i = 0; same && i < inv_freq.size(); ++i)
    same = rope.inv_freq[i] == Approx(inv_freq[i]).epsilon(1e-6);
  const std::vector<int> shape = {c.vocab_size, c.hidden_size, c.intermediate_size, c.n_layers,
                                  c.n_heads,    c.n_kv_heads,  c.head_dim,          c.max_positions};
  const bool has_biases = !numbers["biases"].empty();
  return same && numbers["shape"] == json(shape) && numbers["window"] == greatest_window(c) &&
         layer.qkv_bias == has_biases && (numbers["act"] == "SiLUActivation" || numbers["act"] == "SiLU") &&
         numbers["tied"] == c.tie_word_embeddings && c.rms_norm_eps == Approx(numbers["rms_norm_eps"].get<double>()) &&
         rope.attention_scaling == Approx(numbers["scaling"].get<double>()).epsilon(1e-6);
}

}  // namespace

TEST_CASE("Configurations that vary have the numbers of transformers, or are refused") {
  const json golden = kvscope::test::read_golden("tests/core/golden/model_configs.json");
  int n = 0, accepted = 0, quiet = 0;
  for (const json& one : golden["configs"]) {
    const kvscope::test::TempFolder folder;
    // Infinity and NaN, as Python writes them; dump() would write null.
    folder.write("config.json", one["config_text"].get<std::string>());
    if (!one["generation_text"].is_null())
      folder.write("generation_config.json", one["generation_text"].get<std::string>());
    INFO("configuration " << n++ << ": " << one["config_text"] << " " << one["generation_text"]);
    try {
      const ModelConfig c = ModelConfig::load(folder.path());
      if (one["numbers"].is_null()) continue;  // its class refuses what only training or padding reads
      CHECK(has_numbers(c, one["numbers"]));
      for (const std::int32_t id : c.eos_ids) CHECK((id >= 0 && id < c.vocab_size));
      ++accepted;
      quiet += c.warnings.empty();
    } catch (const kvscope::Error& error) {
      CHECK(error.code() == kvscope::ExitCode::bad_input);
      CHECK_THAT(error.parts().file, Catch::EndsWith("/config.json"));  // never for how it samples
    }
  }
  CHECK(n >= 100);
  CHECK(accepted * 2 >= n);
  CHECK(quiet * 5 >= n);
}
