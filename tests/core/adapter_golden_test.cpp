// What PEFT makes of each variant of an adapter, by tests/core/make_adapter_golden.py.

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <vector>

#include "engine/core/files/weights/lora_file.h"
#include "engine/core/support/error.h"
#include "tests/support/golden.h"
#include "tests/support/temp_folder.h"

namespace kvscope {
namespace {

namespace fs = std::filesystem;

void write_tensors(const fs::path& path, const nlohmann::json& shapes) {
  std::vector<std::vector<float>> alive;
  alive.reserve(shapes.size());
  std::vector<TensorToWrite> tensors;
  for (const auto& [name, shape] : shapes.items()) {
    std::size_t n = 1;
    for (const auto& size : shape) n *= size.get<std::size_t>();
    alive.emplace_back(n, 0.5f);
    tensors.push_back({name, TensorType::f32, shape, std::as_bytes(std::span(alive.back()))});
  }
  write_safetensors(path, tensors);
}

/// By module; throws what the reader throws.
std::map<std::string, double> scales_of(const fs::path& folder, const ModelConfig& model) {
  const LoraFile adapter = LoraFile::open(folder);
  adapter.check_values();
  adapter.left_out(model);
  std::map<std::string, double> scales;
  for (const auto& [matrix, pair] : adapter.pairs()) {
    if (std::abs(pair.scale) > 1e-4) scales[matrix.substr(0, matrix.size() - 7)] = pair.scale;
  }
  return scales;
}

}  // namespace

TEST_CASE("an adapter is taken only if PEFT adds the same matrices with the same scales, and is refused otherwise",
          "[files][adapter]") {
  // Another file of the same script, with more seeds, can be searched for differences.
  const char* other = std::getenv("KVSCOPE_ADAPTER_GOLDEN");
  const nlohmann::json golden = test::read_golden(other ? fs::absolute(other) : "tests/core/golden/adapters.json");
  ModelConfig model;  // the one of the script
  model.vocab_size = 64, model.hidden_size = 32, model.intermediate_size = 48, model.n_layers = 3;
  model.n_heads = 4, model.n_kv_heads = 2, model.head_dim = 8;
  int taken = 0;
  for (const nlohmann::json& expected : golden["cases"]) {
    const test::TempFolder folder;
    std::ofstream(folder / "adapter_config.json") << expected["config"].dump();
    write_tensors(folder / "adapter_model.safetensors", expected["tensors"]);
    CAPTURE(expected["what"].dump(), expected["config"].dump(), expected.value("why", ""));
    std::map<std::string, double> scales;
    try {
      scales = scales_of(folder.path(), model);
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::bad_input);
      CAPTURE(error.what());
      CHECK(!(expected["harmless"] && expected.contains("scales")));  // refusing all would pass the rest
      if (other && expected.contains("scales"))
        WARN("refused, though plain: " << expected["what"] << " " << error.what());
      continue;
    }
    ++taken;
    REQUIRE(expected.contains("scales"));
    const std::map<std::string, double> peft = expected["scales"];
    REQUIRE(scales.size() == peft.size());
    for (const auto& [module, scale] : peft) {
      CAPTURE(module);
      REQUIRE(scales.contains(module));
      CHECK(std::abs(scales[module] - scale) < 1e-3);
    }
  }
  CHECK(golden["cases"].size() >= 100);
  CHECK(taken * 4 >= static_cast<int>(golden["cases"].size()));
}

}  // namespace kvscope
