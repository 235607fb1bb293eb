// LoRA adapters on the command line: what inspect says of one, and what is said before it is added to a model.

#include "app/catalog/adapters.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "app/catalog/path_kind.h"
#include "tests/app/process.h"
#include "tests/support/skip.h"

using namespace kvscope;
using kvscope::test::TemporaryFolder;
using nlohmann::json;

namespace {

namespace fs = std::filesystem;

/// Changes q_proj of the sample model's first two layers; returns its folder.
fs::path write_adapter(const fs::path& folder, const json& changes, const float value = 0.01f) {
  fs::create_directories(folder);
  json config = {{"peft_type", "LORA"}, {"r", 2}, {"lora_alpha", 3}, {"target_modules", {"q_proj"}}};
  if (changes.is_object()) config.update(changes);  // {} is null
  std::ofstream(folder / "adapter_config.json") << config.dump();
  const ModelConfig model = ModelConfig::load(test::sample_model());
  const std::int64_t inputs = model.hidden_size, outputs = std::int64_t{model.n_heads} * model.head_dim;
  const std::vector<float> a(static_cast<std::size_t>(2 * inputs), value),
      b(static_cast<std::size_t>(2 * outputs), 0.01f);
  std::vector<TensorToWrite> tensors;
  for (const char* layer : {"0", "1"}) {
    const std::string module = std::string("base_model.model.model.layers.") + layer + ".self_attn.q_proj.lora_";
    tensors.push_back({module + "A.weight", TensorType::f32, {2, inputs}, std::as_bytes(std::span(a))});
    tensors.push_back({module + "B.weight", TensorType::f32, {outputs, 2}, std::as_bytes(std::span(b))});
  }
  write_safetensors(folder / "adapter_model.safetensors", tensors);
  return folder;
}

json inspected(const fs::path& path) {
  const auto result = test::kvscope_run({"inspect", path.string(), "--json"});
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  return json::parse(result.out);
}

}  // namespace

TEST_CASE("inspect says of an adapter its base, rank, scale, layers and modules, by its folder and by its files") {
  const TemporaryFolder folder;
  const fs::path adapter = write_adapter(folder / "adapter", {{"base_model_name_or_path", "org/base"}});
  std::ofstream(adapter / "tokenizer.json") << "{}";  // trainers leave one there
  for (const fs::path& path : {adapter, adapter / "adapter_model.safetensors", adapter / "adapter_config.json"}) {
    const json found = inspected(path);
    CHECK(found["kind"] == "adapter");
    CHECK(found["base"] == "org/base");
    CHECK(found["rank"] == 2);
    CHECK(found["layers"] == json({0, 1}));
    CHECK(found["modules"]["self_attn.q_proj"]["scales"] == json({1.5}));
    CHECK(found["refused"].is_null());
  }
  CHECK(test::kvscope_run({"inspect", adapter.string()}).out.find("org/base") != std::string::npos);
}

TEST_CASE("inspect says why an adapter would be refused, and a damaged one is an error") {
  const TemporaryFolder folder;
  const json pissa = inspected(write_adapter(folder / "pissa", {{"init_lora_weights", "pissa"}}));
  CHECK(pissa["refused"].get<std::string>().find("init_lora_weights") != std::string::npos);
  const json large = inspected(write_adapter(folder / "large", {}, 1e30f));
  CHECK(large["refused"].get<std::string>().find("adapter_model.safetensors") != std::string::npos);
  const fs::path cut = write_adapter(folder / "cut", {});
  fs::resize_file(cut / "adapter_model.safetensors", 100);
  CHECK(test::kvscope_run({"inspect", cut.string()}).exit_code == 2);
}

TEST_CASE("an adapter that names another base is said to, and one that names this model by any path is not") {
  const TemporaryFolder folder;
  const fs::path model = folder / "models--Org--Tiny-1B/snapshots/1a2b";
  test::link_sample_model(model, test::kWholeModel);
  for (const char* same : {"", "Org/Tiny-1B", "org/tiny-1b", "/home/me/models/Tiny-1B/", "C:\\models\\Tiny-1B",
                           "/x/hub/models--Org--Tiny-1B/snapshots/ffff", "./tiny-1b", "."})
    CHECK(app::may_be_base(same, model));
  for (const char* other : {"meta-llama/Llama-3-8B", "Org/Tiny-1B-Instruct", "tiny"})
    CHECK_FALSE(app::may_be_base(other, model));
  fs::create_directory_symlink(model, folder / "link");
  CHECK(app::may_be_base("org/tiny-1b", folder / "link"));
}

TEST_CASE("an adapter's folder and either of its files are opened as a gate") {
  const TemporaryFolder folder;
  const fs::path adapter = write_adapter(folder / "adapter", {});
  for (const fs::path& path : {adapter, adapter / "adapter_model.safetensors", adapter / "adapter_config.json"})
    CHECK(app::kind_of_path(path) == app::PathKind::gate);
}

TEST_CASE("gates and run warn in one line of an adapter for another base and of targets without tensors") {
  const TemporaryFolder folder;
  test::link_sample_model(folder / "model", test::kWholeModel);
  const fs::path other =
      write_adapter(folder / "model/gates/other", {{"base_model_name_or_path", "meta-llama/Llama-3-8B"}});
  write_adapter(folder / "model/gates/whole",
                {{"base_model_name_or_path", "me/model"}, {"layers_to_transform", {0, 1}}});
  const auto result = test::kvscope_run({"gates", (folder / "model").string()});
  CAPTURE(result.out);
  CHECK(result.out.find("other: made for \"meta-llama/Llama-3-8B\"") != std::string::npos);
  CHECK(result.out.find("no tensors for model.layers.2.self_attn.q_proj") != std::string::npos);
  CHECK(result.out.find("whole: ") == std::string::npos);
  const auto run = test::kvscope_run({"run", (folder / "model").string(), "--prompt", "x", "--raw", "--max-tokens", "1",
                                      "--gate", (other / "adapter_model.safetensors").string()});
  CAPTURE(run.err);
  CHECK(run.exit_code == 0);
  CHECK(run.err.find("warning: ") != std::string::npos);
  CHECK(run.err.find("Llama-3-8B") != std::string::npos);
}
