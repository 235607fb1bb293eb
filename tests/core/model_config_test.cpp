// config.json, field by field.
#include "engine/core/model/model_config.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

using kvscope::ModelConfig;
using kvscope::test::error_of;
using kvscope::test::TempFolder;
using nlohmann::json;

namespace {

json good() {
  return json::parse(R"({
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 4096, "hidden_size": 256,
    "intermediate_size": 768, "num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 4,
    "head_dim": 64, "hidden_act": "silu", "max_position_embeddings": 2048, "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0, "rope_scaling": null, "attention_bias": false, "tie_word_embeddings": true,
    "torch_dtype": "bfloat16", "bos_token_id": null, "eos_token_id": 7, "use_sliding_window": false})");
}

ModelConfig load(const json& config, const json& generation = nullptr) {
  const TempFolder folder;
  folder.write("config.json", config.dump());
  if (!generation.is_null()) folder.write("generation_config.json", generation.dump());
  return ModelConfig::load(folder.path());
}

/// The error's line without the folder.
std::string load_error(const json& config, const json& generation = nullptr) {
  const std::string line = error_of([&] { load(config, generation); });
  const std::size_t at = line.find(generation.is_null() ? "config.json: " : "generation_config.json: ");
  return at == line.npos ? line : line.substr(at);
}

json with(const char* key, const json& value) {
  json config = good();
  config[key] = value;
  return config;
}

json without(const char* key) {
  json config = good();
  config.erase(key);
  return config;
}

}  // namespace

TEST_CASE("A Qwen3 configuration is read field by field") {
  const ModelConfig c = load(good());
  CHECK(c.architecture == "Qwen3ForCausalLM");
  CHECK(c.vocab_size == 4096);
  CHECK(c.hidden_size == 256);
  CHECK(c.intermediate_size == 768);
  CHECK(c.n_layers == 6);
  CHECK(c.n_heads == 8);
  CHECK(c.n_kv_heads == 4);
  CHECK(c.group_size() == 2);
  CHECK(c.head_dim == 64);
  CHECK(c.max_positions == 2048);
  CHECK(c.rms_norm_eps == 1e-6f);
  CHECK(c.rope_theta == 1e6);
  CHECK(c.tie_word_embeddings);
  CHECK(c.qk_norm);
  CHECK(c.dtype == "bfloat16");
  CHECK(c.eos_ids == std::vector<std::int32_t>{7});
}

TEST_CASE("What a configuration may leave out gets the value that transformers gives it") {
  CHECK(load(without("head_dim")).head_dim == 32);
  CHECK(load(with("head_dim", nullptr)).head_dim == 32);
  CHECK(load(without("torch_dtype")).dtype == "float32");
  CHECK(load(without("rope_theta")).rope_theta == 10000);
  CHECK(load(without("rms_norm_eps")).rms_norm_eps == 1e-6f);
  CHECK_FALSE(load(without("tie_word_embeddings")).tie_word_embeddings);
  CHECK(load(without("eos_token_id")).eos_ids.empty());
}

TEST_CASE("Both styles of dtype and of rotary parameters are read") {
  CHECK(load(with("dtype", "float16")).dtype == "float16");
  CHECK(load(with("torch_dtype", "torch.float32")).dtype == "float32");
  json config = without("rope_theta");
  config.erase("rope_scaling");
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 5e5}};
  CHECK(load(config).rope_theta == 5e5);
  CHECK(load(with("rope_scaling", {{"type", "default"}})).rope_theta == 1e6);
}

TEST_CASE("Ends of text are one id or several, and the generation configuration's go first") {
  CHECK(load(with("eos_token_id", {1, 2})).eos_ids == std::vector<std::int32_t>{1, 2});
  CHECK(load(with("eos_token_id", nullptr)).eos_ids.empty());
  CHECK(load(good(), {{"eos_token_id", {3, 4}}}).eos_ids == std::vector<std::int32_t>{3, 4});
  CHECK(load(good(), {{"do_sample", false}}).eos_ids == std::vector<std::int32_t>{7});
  CHECK(load_error(good(), {{"eos_token_id", 4096}}) ==
        "generation_config.json: eos_token_id: 4096; expected an integer from 0 to 4095");
}

TEST_CASE("A size that is missing, not an integer or out of range is refused by field, found and expected") {
  struct Field {
    const char* key;
    int max;
    bool optional = false;
  };
  const auto f = GENERATE(values<Field>({{"vocab_size", 1 << 22},
                                         {"hidden_size", 1 << 20},
                                         {"intermediate_size", 1 << 20},
                                         {"num_hidden_layers", 1024},
                                         {"num_attention_heads", 1024},
                                         {"num_key_value_heads", 1024},
                                         {"head_dim", 1024, true},
                                         {"max_position_embeddings", 1 << 30}}));
  const std::string expected = "; expected an integer from 1 to " + std::to_string(f.max);
  const std::string place = std::string("config.json: ") + f.key + ": ";
  if (!f.optional) CHECK(load_error(without(f.key)) == place + "missing" + expected);
  if (!f.optional) CHECK(load_error(with(f.key, nullptr)) == place + "null" + expected);
  for (const json& bad :
       {json(0), json(-1), json(2147483648), json(18446744073709551615u), json(1.5), json("4"), json(true)}) {
    CHECK(load_error(with(f.key, bad)) == place + bad.dump() + expected);
  }
}

TEST_CASE("Fields that contradict each other are refused") {
  CHECK(load_error(with("num_key_value_heads", 3)) ==
        "config.json: num_key_value_heads: 3; expected a divisor of num_attention_heads 8");
  CHECK(load_error(with("num_key_value_heads", 16)) ==
        "config.json: num_key_value_heads: 16; expected a divisor of num_attention_heads 8");
  CHECK(load_error(with("head_dim", 63)) == "config.json: head_dim: 63; expected an even number (rotary pairs)");
  json config = without("head_dim");
  config["hidden_size"] = 250;
  CHECK_THAT(load_error(config),
             Catch::StartsWith("config.json: hidden_size: 250; expected a multiple of num_attention_heads 8"));
}

TEST_CASE("A field whose value would change the model's result unseen is refused by name") {
  struct Case {
    const char* key;
    json value;
    const char* reason;
  };
  const auto c = GENERATE(values<Case>({
      {"architectures",
       {"LlavaForConditionalGeneration"},
       "architectures: \"LlavaForConditionalGeneration\" is not supported; expected one of: Qwen3ForCausalLM"},
      {"architectures", nullptr, "architectures: not a list"},
      {"architectures", "Qwen3ForCausalLM", "architectures: not a list"},
      {"architectures", json::array(), "architectures: not a list"},
      {"architectures", {1}, "architectures: not a list"},
      {"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}}, "rope_scaling: \"yarn\" is not supported"},
      {"rope_scaling", {{"type", "linear"}}, "rope_scaling: \"linear\" is not supported"},
      {"rope_scaling", "yarn", "rope_scaling: \"yarn\"; expected an object"},
      {"rope_parameters", {{"rope_type", "llama3"}}, "rope_parameters: \"llama3\" is not supported"},
      {"rope_parameters", {{"rope_theta", 0}}, "rope_parameters.rope_theta: 0; expected a number from 1"},
      {"rope_theta", 0, "rope_theta: 0; expected a number from 1"},
      {"rope_theta", "1e4", "rope_theta: \"1e4\"; expected a number"},
      {"partial_rotary_factor", 0.5, "partial_rotary_factor: not 1"},
      {"quantization_config", {{"quant_method", "gptq"}}, "quantization_config: quantized weights are not supported"},
      {"attention_bias", true, "attention_bias: true is not supported"},
      {"attention_bias", 1, "attention_bias: 1; expected true or false"},
      {"use_sliding_window", true, "use_sliding_window: true is not supported"},
      {"layer_types", {"full_attention", "sliding_attention"}, "layer_types: a kind of layer that is not supported"},
      {"layer_types", "full_attention", "layer_types: not a list"},
      {"hidden_act", "gelu", "hidden_act: \"gelu\" is not supported; expected \"silu\""},
      {"rms_norm_eps", 0, "rms_norm_eps: 0; expected a number from"},
      {"rms_norm_eps", -1e-6, "rms_norm_eps: -1e-06; expected a number from"},
      {"tie_word_embeddings", "yes", "tie_word_embeddings: \"yes\"; expected true or false"},
      {"torch_dtype", "float8_e4m3fn", "torch_dtype: \"float8_e4m3fn\" is not supported"},
      {"dtype", 16, "dtype: 16; expected text"},
      {"eos_token_id", 4096, "eos_token_id: 4096; expected an integer from 0 to 4095"},
      {"eos_token_id", {1, -1}, "eos_token_id: -1; expected an integer from 0 to 4095"},
      {"eos_token_id", "2", "eos_token_id: \"2\"; expected an integer"},
      {"bos_token_id", 99999, "bos_token_id: 99999; expected an integer from 0 to 4095"},
  }));
  CHECK_THAT(load_error(with(c.key, c.value)), Catch::StartsWith(std::string("config.json: ") + c.reason));
}

TEST_CASE("A configuration that is absent, not an object or twice-said is refused") {
  const TempFolder folder;
  const auto error = [&] { return error_of([&] { ModelConfig::load(folder.path()); }); };
  CHECK_THAT(error(), Catch::Contains("config.json: cannot be read: No such file"));
  folder.write("config.json", "[]");
  CHECK_THAT(error(), Catch::Contains("config.json: an array; expected an object"));
  folder.write("config.json", "<html>");
  CHECK_THAT(error(), Catch::Contains("HTML page"));
  std::string twice = good().dump();
  twice.insert(1, "\"num_hidden_layers\":6,");
  folder.write("config.json", twice);
  CHECK_THAT(error(), Catch::Contains("key \"num_hidden_layers\" twice"));
  CHECK_THAT(load_error(without("architectures")), Catch::StartsWith("config.json: architectures: missing"));
}
