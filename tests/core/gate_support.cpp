#include "tests/core/gate_support.h"

#include "engine/core/files/weights/safetensors.h"
#include "engine/core/support/random.h"
#include "tests/support/expect_error.h"

namespace kvscope::test {

ModelConfig small_model() {
  ModelConfig model;
  model.n_layers = 3;
  model.n_heads = 4;
  model.n_kv_heads = 2;
  model.head_dim = 4;
  model.hidden_size = 10;
  return model;
}

std::vector<float> random_values(std::uint64_t seed, const std::vector<std::int64_t>& shape) {
  Random random(seed);
  std::size_t n = 1;
  for (const auto size : shape) n *= static_cast<std::size_t>(size);
  std::vector<float> out(n);
  for (float& x : out) x = static_cast<float>(random.normal());
  return out;
}

NamedValues write_random(const std::filesystem::path& path, const NamedShapes& shapes) {
  NamedValues values;
  for (const auto& [name, shape] : shapes) values[name] = random_values(values.size() + 100, shape);
  std::vector<TensorToWrite> tensors;
  for (const auto& [name, shape] : shapes) {
    tensors.push_back({name, TensorType::f32, shape, std::as_bytes(std::span(values[name]))});
  }
  write_safetensors(path, tensors);
  return values;
}

std::vector<float> stacked(const NamedValues& values, const std::string& before, const std::string& after) {
  std::vector<float> out;
  for (int layer = 0; layer < 3; ++layer) {
    const auto& one = values.at(before + std::to_string(layer) + after);
    out.insert(out.end(), one.begin(), one.end());
  }
  return out;
}

std::string load_error(const std::filesystem::path& path) {
  return error_of([&] { load_gate(path, small_model()); });
}

}  // namespace kvscope::test
