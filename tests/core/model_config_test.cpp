// config.json, field by field.
#include "engine/core/files/weights/model_config.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "engine/core/files/weights/kernel_limits.h"
#include "tests/core/model_config_support.h"

using kvscope::channel_order;
using kvscope::ModelConfig;
using kvscope::rotation_of;
using kvscope::test::error_of;
using kvscope::test::good;
using kvscope::test::load;
using kvscope::test::load_error;
using kvscope::test::of_family;
using kvscope::test::TempFolder;
using kvscope::test::with;
using kvscope::test::without;
using nlohmann::json;

TEST_CASE("A Qwen3 configuration is read field by field") {
  const ModelConfig c = load(good());
  CHECK(std::string(c.family->architecture) == "Qwen3ForCausalLM");
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
  REQUIRE(c.layers.size() == 6);
  CHECK(c.layers.front() == c.layers.back());
  const kvscope::LayerConfig& layer = c.layers.front();
  CHECK(layer.norm_eps == 1e-6f);
  CHECK(layer.rope_theta == 1e6);
  CHECK(c.tie_word_embeddings);
  CHECK(layer.qk_norm == kvscope::QkNorm::heads);
  CHECK_FALSE(layer.qkv_bias);
  CHECK(layer.window == 0);
  CHECK(c.attention_scale(5) == 0.125);
  CHECK(layer.rope_scaling == kvscope::RopeScaling{});
  CHECK(c.dtype == "bfloat16");
  CHECK(c.eos_ids == std::vector<std::int32_t>{7});
}

TEST_CASE("What a configuration may leave out gets the value that transformers gives it") {
  CHECK(load(without("head_dim")).head_dim == 128);  // Qwen3's, whatever the width
  CHECK(load(of_family("Qwen2ForCausalLM")).head_dim == 32);
  CHECK(load(of_family("LlamaForCausalLM")).head_dim == 32);
  json llama = of_family("LlamaForCausalLM");
  llama.erase("num_key_value_heads");
  CHECK(load(llama).n_kv_heads == 8);
  CHECK(load(without("torch_dtype")).dtype == "float32");
  CHECK(load(without("rope_theta")).layers.front().rope_theta == 10000);
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
  CHECK(load(config).layers.front().rope_theta == 5e5);
  CHECK(load(with("rope_scaling", {{"type", "default"}})).layers.front().rope_theta == 1e6);
}

TEST_CASE(
    "A window is of the layers from max_window_layers on, and of none where it is switched off or as long as all") {
  struct Case {
    json window, max_window_layers;
    std::vector<std::int32_t> windows;
  };
  // 6 layers, context 2048
  const auto c = GENERATE(values<Case>({{1024, 6, {}},
                                        {1024, 28, {}},
                                        {1024, nullptr, {}},
                                        {2048, 0, {}},
                                        {nullptr, 0, {}},
                                        {1024, 5, {0, 0, 0, 0, 0, 1024}},
                                        {2047, 0, {2047, 2047, 2047, 2047, 2047, 2047}}}));
  json config = with("use_sliding_window", true);
  config["sliding_window"] = c.window;
  config["max_window_layers"] = c.max_window_layers;
  CHECK(load(config).windows() == c.windows);
  config["use_sliding_window"] = false;
  CHECK(load(config).windows().empty());
  config["use_sliding_window"] = true;
  config["architectures"] = {"LlamaForCausalLM"};  // does not know the word
  config["model_type"] = "llama";
  CHECK(load(config).windows().empty());
}

TEST_CASE("Mistral's one window of all layers ends the context, where it would begin to hide tokens") {
  json config = of_family("MistralForCausalLM");
  config.erase("use_sliding_window");
  CHECK(load(config).max_positions == 2048);  // 4096 where nothing is written
  config["sliding_window"] = 2048;
  CHECK(load(config).warnings.empty());
  config["sliding_window"] = 512;
  const ModelConfig c = load(config);
  CHECK(c.max_positions == 512);
  CHECK(c.windows().empty());
  REQUIRE(c.warnings.size() == 1);
  CHECK_THAT(c.warnings[0], Catch::EndsWith("config.json: sliding_window: all layers have a window of 512 tokens; the "
                                            "context is limited to it"));
  config["sliding_window"] = nullptr;
  CHECK(load(config).max_positions == 2048);
  config["layer_types"] = std::vector<std::string>(6, "sliding_attention");
  CHECK_THAT(load_error(config), Catch::Contains("\"sliding_attention\" is not supported"));
  json heads = of_family("MistralForCausalLM");
  heads.erase("num_key_value_heads");
  heads["num_attention_heads"] = 16;
  CHECK(load(heads).n_kv_heads == 8);
  heads["num_key_value_heads"] = nullptr;
  CHECK(load(heads).n_kv_heads == 16);
}

TEST_CASE("SmolLM3 leaves every fourth layer without rotation, or those of a list") {
  const auto still = [](const ModelConfig& c) {
    std::vector<int> layers;
    for (int i = 0; i < c.n_layers; ++i)
      if (!c.layers[static_cast<std::size_t>(i)].rotates) layers.push_back(i);
    return layers;
  };
  json config = of_family("SmolLM3ForCausalLM");
  config.erase("tie_word_embeddings");
  config.erase("rope_theta");
  const ModelConfig c = load(config);
  CHECK(still(c) == std::vector<int>{3});
  CHECK(c.tie_word_embeddings);
  CHECK(c.layers[0].rope_theta == 2e6);
  CHECK(c.warnings.empty());
  for (const float frequency : rotation_of(c.layers[3], 32).inv_freq) CHECK(frequency == 0);
  CHECK(rotation_of(c.layers[2], 32).inv_freq[0] == 1);
  config["no_rope_layer_interval"] = 2;
  CHECK(still(load(config)) == std::vector<int>{1, 3, 5});
  config["no_rope_layers"] = {1, 1, 0, 1, 1, 0};
  CHECK(still(load(config)) == std::vector<int>{2, 5});
  config["use_sliding_window"] = true;  // of those without rotation, and of none where no window is written
  CHECK(load(config).windows().empty());
  config["sliding_window"] = 96;
  CHECK(load(config).windows() == std::vector<std::int32_t>{0, 0, 96, 0, 0, 96});
  config["no_rope_layers"] = {1, 1};
  CHECK_THAT(load_error(config), Catch::Contains("no_rope_layers: not a list of 6; expected 0 or 1 for each layer"));
  config["no_rope_layers"] = {1, 1, 2, 1, 1, 1};
  CHECK_THAT(load_error(config), Catch::Contains("no_rope_layers: 2; expected 0 or 1"));
  json other = good();
  other["no_rope_layers"] = {1, 1, 1, 1, 1, 0};
  REQUIRE(load(other).warnings.size() == 1);
  CHECK_THAT(load(other).warnings[0], Catch::Contains("unknown keys: no_rope_layers"));
}

TEST_CASE("Phi-3 turns part of a head's channels, and kernels find the pairs where all turn") {
  json config = of_family("Phi3ForCausalLM");
  config["hidden_size"] = 1024;  // heads of 128
  config["partial_rotary_factor"] = 0.75;
  const ModelConfig c = load(config);
  CHECK(c.layers[0].rotated == 96);
  const auto order = channel_order(c.layers[0], 128);
  REQUIRE(order.size() == 128);
  std::vector<std::int64_t> sorted = order;
  std::ranges::sort(sorted);
  const auto frequencies = rotation_of(c.layers[0], 128).inv_freq;
  REQUIRE(frequencies.size() == 64);
  for (std::size_t i = 0; i < 64; ++i) {
    CHECK(sorted[i] == static_cast<std::int64_t>(i));
    // In the files channel i < 48 turns with i + 48.
    if (i < 48) CHECK((order[i] == static_cast<std::int64_t>(i) && order[i + 64] == order[i] + 48));
    CHECK((frequencies[i] == 0) == (i >= 48));
  }
  config["partial_rotary_factor"] = 1;
  CHECK(channel_order(load(config).layers[0], 128).empty());
  config["partial_rotary_factor"] = 0.4;
  CHECK_THAT(load_error(config), Catch::Contains("partial_rotary_factor: 51 of 128 channels; expected an even number"));
}

TEST_CASE("Gemma 3 has a window and a rotation for five of six layers, and another rotation for the sixth") {
  json config = of_family("Gemma3ForCausalLM");
  for (const char* key : {"hidden_act", "rope_theta", "tie_word_embeddings", "use_sliding_window"}) config.erase(key);
  config["sliding_window"] = 512;
  const ModelConfig c = load(config);
  CHECK(c.windows() == std::vector<std::int32_t>{512, 512, 512, 512, 512, 0});
  CHECK(c.layers[0].rope_theta == 1e4);
  CHECK(c.layers[5].rope_theta == 1e6);
  CHECK(c.head_dim == 256);
  CHECK(c.tie_word_embeddings);
  CHECK(c.attention_scale(0) == 1.0 / 16);
  CHECK(c.layers[0].norms == kvscope::NormPlacement::around);
  CHECK(c.layers[0].activation == kvscope::MlpActivation::gelu_tanh);
  CHECK(c.warnings.empty());

  config["sliding_window_pattern"] = 2;
  CHECK(load(config).windows() == std::vector<std::int32_t>{512, 0, 512, 0, 512, 0});
  config["query_pre_attn_scalar"] = 100;
  CHECK(load(config).attention_scale(0) == 0.1);
  config["sliding_window"] = 4096;  // longer than the context: no window, but still the rotation of one
  CHECK(load(config).windows().empty());
  CHECK(load(config).layers[0].rope_theta == 1e4);
  config["layer_types"] = {"full_attention",    "sliding_attention", "full_attention",
                           "sliding_attention", "full_attention",    "full_attention"};
  config["rope_theta"] = 2e6;
  config["rope_local_base_freq"] = 2e4;
  config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8.0}};
  ModelConfig d = load(config);
  CHECK(d.layers[0].rope_theta == 2e6);
  CHECK(d.layers[0].rope_scaling.factor == 8);
  CHECK(d.layers[1].rope_theta == 2e4);
  CHECK(d.layers[1].rope_scaling.kind == kvscope::RopeKind::plain);
  // As transformers 5 writes it.
  for (const char* key : {"rope_theta", "rope_local_base_freq", "rope_scaling"}) config.erase(key);
  config["rope_parameters"] = {
      {"full_attention", {{"rope_type", "linear"}, {"factor", 4.0}, {"rope_theta", 3e6}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 3e4}}},
  };
  d = load(config);
  CHECK(d.layers[0].rope_theta == 3e6);
  CHECK(d.layers[0].rope_scaling.factor == 4);
  CHECK(d.layers[1].rope_theta == 3e4);
  CHECK(d.layers[1].rope_scaling.kind == kvscope::RopeKind::plain);
  CHECK(d.warnings.empty());
}

TEST_CASE("A GPU takes heads of 64, 80, 96, 128, 192 and 256 channels, the CPU any multiple of eight") {
  CHECK(kvscope::devices_of(load(of_family("Gemma3ForCausalLM"))) == "cpu, cuda");
  for (int head_dim = 8; head_dim <= kvscope::kMaxHeadDim; head_dim += 8) {
    const ModelConfig c = load(with("head_dim", head_dim));
    CAPTURE(head_dim);
    CHECK_NOTHROW(kvscope::check_kernels(c, "config.json"));
    const bool is_on_gpu = (head_dim >= 64 && head_dim <= 96 && head_dim % 16 == 0) || head_dim % 64 == 0;
    CHECK(kvscope::devices_of(c) == (is_on_gpu ? "cpu, cuda" : "cpu"));
    const std::string error = error_of([&] { kvscope::check_cuda_kernels(c, "config.json"); });
    CHECK((error == "no error") == is_on_gpu);
    if (head_dim == 72) {
      CHECK(error ==
            "config.json: head_dim: 72 (of hidden_size 256 and 8 heads); expected one of 64, 80, 96, 128, 192, 256 "
            "on CUDA; hint: use --device cpu");
    }
  }
}

TEST_CASE("Any family may have GeGLU for its MLP") {
  CHECK(load(good()).layers[0].activation == kvscope::MlpActivation::silu);
  CHECK(load(with("hidden_act", "gelu_pytorch_tanh")).layers[0].activation == kvscope::MlpActivation::gelu_tanh);
}

TEST_CASE("What Gemma 3's files may ask for and no layer computes is refused by its key") {
  json config = of_family("Gemma3ForCausalLM");
  config["final_logit_softcapping"] = 30.0;
  CHECK_THAT(load_error(config), Catch::Contains("final_logit_softcapping: a soft cap of the logits is not supported"));
  config["final_logit_softcapping"] = nullptr;
  config["use_bidirectional_attention"] = true;
  CHECK_THAT(load_error(config), Catch::Contains("use_bidirectional_attention: true is not supported"));
  config["use_bidirectional_attention"] = false;
  config["sliding_window"] = nullptr;
  config["layer_types"] = std::vector<std::string>(6, "sliding_attention");
  CHECK_THAT(load_error(config),
             Catch::Contains("sliding_attention in layer 0, but no window; expected sliding_window"));
}

TEST_CASE("longrope takes the factors of the model's whole context, and a line says so") {
  json config = of_family("Phi3ForCausalLM");
  std::vector<double> low(16, 1.0), high;
  for (int i = 0; i < 16; ++i) high.push_back(1 + i);
  config["rope_scaling"] = {{"type", "su"}, {"short_factor", low}, {"long_factor", high}};
  config["original_max_position_embeddings"] = 512;
  const ModelConfig c = load(config);
  CHECK(c.layers[0].rope_scaling.factors == high);
  CHECK(c.layers[0].rope_scaling.factor == 4);
  const auto rope = rotation_of(c.layers[0], 32);
  CHECK(rope.attention_scaling == Approx(std::sqrt(1 + std::log(4.0) / std::log(512.0))));
  CHECK(rope.inv_freq[3] == Approx(std::pow(1e6, -6.0 / 32) / 4));
  REQUIRE(c.warnings.size() == 1);
  CHECK_THAT(c.warnings[0], Catch::EndsWith("transformers uses short_factor up to 512 tokens"));
  config["original_max_position_embeddings"] = 2048;
  CHECK(load(config).layers[0].rope_scaling.factors == low);
  CHECK(rotation_of(load(config).layers[0], 32).attention_scaling == 1);
  CHECK(load(config).warnings.empty());
}

TEST_CASE("layer_types says which layers have the window, and one that has none to take is refused") {
  json config = with("layer_types", {"sliding_attention", "full_attention", "full_attention", "sliding_attention",
                                     "full_attention", "full_attention"});
  CHECK_THAT(load_error(config), Catch::Contains("layer_types: sliding_attention in layer 0, but no window"));
  config["use_sliding_window"] = true;
  config["sliding_window"] = 96;
  config["max_window_layers"] = 0;  // not looked at
  const auto found = load(config);
  CHECK(found.windows() == std::vector<std::int32_t>{96, 0, 0, 96, 0, 0});
  CHECK(found.is_local(3));
  CHECK_FALSE(found.is_local(1));
  config["layer_types"] = {"sliding_attention"};
  CHECK_THAT(load_error(config), Catch::Contains("layer_types: 1 layers; expected 6"));
  config["layer_types"] = std::vector<std::string>(6, "chunked_attention");
  CHECK_THAT(load_error(config), Catch::Contains("\"chunked_attention\" is not supported"));
  config["layer_types"] = std::vector<std::string>(6, "sliding_attention");
  config["architectures"] = {"LlamaForCausalLM"};
  config["model_type"] = "llama";
  CHECK_THAT(load_error(config), Catch::Contains("\"sliding_attention\" is not supported"));
}

TEST_CASE("Configurations as the families publish them are read") {
  struct Published {
    const char* config;
    int group_size, head_dim;
    bool tied, qk_norm, qkv_bias;
    kvscope::RopeKind rope;
    std::vector<std::int32_t> eos_ids;
  };
  using kvscope::RopeKind;
  const auto p = GENERATE(values<Published>({
      // Qwen3-0.6B
      {R"({"architectures":["Qwen3ForCausalLM"],"attention_bias":false,"attention_dropout":0.0,"bos_token_id":151643,
       "eos_token_id":151645,"head_dim":128,"hidden_act":"silu","hidden_size":1024,"initializer_range":0.02,
       "intermediate_size":3072,"max_position_embeddings":40960,"max_window_layers":28,"model_type":"qwen3",
       "num_attention_heads":16,"num_hidden_layers":28,"num_key_value_heads":8,"rms_norm_eps":1e-06,
       "rope_scaling":null,"rope_theta":1000000,"sliding_window":null,"tie_word_embeddings":true,
       "torch_dtype":"bfloat16","transformers_version":"4.51.0","use_cache":true,"use_sliding_window":false,
       "vocab_size":151936})",
       2,
       128,
       true,
       true,
       false,
       kvscope::RopeKind::plain,
       {151645}},
      // Qwen2.5-7B-Instruct
      {R"({"architectures":["Qwen2ForCausalLM"],"attention_dropout":0.0,"bos_token_id":151643,"eos_token_id":151645,
       "hidden_act":"silu","hidden_size":3584,"initializer_range":0.02,"intermediate_size":18944,
       "max_position_embeddings":32768,"max_window_layers":28,"model_type":"qwen2","num_attention_heads":28,
       "num_hidden_layers":28,"num_key_value_heads":4,"rms_norm_eps":1e-06,"rope_theta":1000000.0,
       "sliding_window":131072,"tie_word_embeddings":false,"torch_dtype":"bfloat16","use_cache":true,
       "use_sliding_window":false,"vocab_size":152064})",
       7,
       128,
       false,
       false,
       true,
       kvscope::RopeKind::plain,
       {151645}},
      // Llama-3.1-8B-Instruct
      {R"({"architectures":["LlamaForCausalLM"],"attention_bias":false,"attention_dropout":0.0,"bos_token_id":128000,
       "eos_token_id":[128001,128008,128009],"hidden_act":"silu","hidden_size":4096,"initializer_range":0.02,
       "intermediate_size":14336,"max_position_embeddings":131072,"mlp_bias":false,"model_type":"llama",
       "num_attention_heads":32,"num_hidden_layers":32,"num_key_value_heads":8,"pretraining_tp":1,
       "rms_norm_eps":1e-05,"rope_scaling":{"factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,
       "original_max_position_embeddings":8192,"rope_type":"llama3"},"rope_theta":500000.0,
       "tie_word_embeddings":false,"torch_dtype":"bfloat16","use_cache":true,"vocab_size":128256})",
       4,
       128,
       false,
       false,
       false,
       RopeKind::llama3,
       {128001, 128008, 128009}},
      // Llama-3.2-1B
      {R"({"architectures":["LlamaForCausalLM"],"attention_bias":false,"bos_token_id":128000,"eos_token_id":128001,
       "head_dim":64,"hidden_act":"silu","hidden_size":2048,"intermediate_size":8192,
       "max_position_embeddings":131072,"mlp_bias":false,"model_type":"llama","num_attention_heads":32,
       "num_hidden_layers":16,"num_key_value_heads":8,"pretraining_tp":1,"rms_norm_eps":1e-05,
       "rope_scaling":{"factor":32.0,"high_freq_factor":4.0,"low_freq_factor":1.0,
       "original_max_position_embeddings":8192,"rope_type":"llama3"},"rope_theta":500000.0,
       "tie_word_embeddings":true,"torch_dtype":"bfloat16","vocab_size":128256})",
       4,
       64,
       true,
       false,
       false,
       RopeKind::llama3,
       {128001}},
      // Mistral-7B-Instruct-v0.3
      {R"({"architectures":["MistralForCausalLM"],"attention_dropout":0.0,"bos_token_id":1,"eos_token_id":2,
       "hidden_act":"silu","hidden_size":4096,"initializer_range":0.02,"intermediate_size":14336,
       "max_position_embeddings":32768,"model_type":"mistral","num_attention_heads":32,"num_hidden_layers":32,
       "num_key_value_heads":8,"rms_norm_eps":1e-05,"rope_theta":1000000.0,"sliding_window":null,
       "tie_word_embeddings":false,"torch_dtype":"bfloat16","use_cache":true,"vocab_size":32768})",
       4,
       128,
       false,
       false,
       false,
       kvscope::RopeKind::plain,
       {2}},
      // Mistral-Nemo-Instruct-2407: heads of 128, not of 5120 / 32
      {R"({"architectures":["MistralForCausalLM"],"attention_dropout":0.0,"bos_token_id":1,"eos_token_id":2,
       "head_dim":128,"hidden_act":"silu","hidden_size":5120,"initializer_range":0.02,"intermediate_size":14336,
       "max_position_embeddings":1024000,"model_type":"mistral","num_attention_heads":32,"num_hidden_layers":40,
       "num_key_value_heads":8,"rms_norm_eps":1e-05,"rope_theta":1000000.0,"sliding_window":null,
       "tie_word_embeddings":false,"torch_dtype":"bfloat16","use_cache":true,"vocab_size":131072})",
       4,
       128,
       false,
       false,
       false,
       kvscope::RopeKind::plain,
       {2}},
  }));
  const ModelConfig c = load(json::parse(p.config));
  CHECK(c.group_size() == p.group_size);
  CHECK(c.head_dim == p.head_dim);
  CHECK(c.tie_word_embeddings == p.tied);
  CHECK((c.layers.back().qk_norm == kvscope::QkNorm::heads) == p.qk_norm);
  CHECK(c.layers.back().qkv_bias == p.qkv_bias);
  CHECK(c.layers.back().rope_scaling.kind == p.rope);
  CHECK(c.eos_ids == p.eos_ids);
  CHECK(c.dtype == "bfloat16");
  CHECK(c.warnings.empty());
}

TEST_CASE("What the makers sample with is read from the generation configuration, and absent where it is") {
  CHECK(load(good()).generation == kvscope::GenerationDefaults{});
  const kvscope::GenerationDefaults g = load(good(), {{"do_sample", true},
                                                      {"temperature", 0.7},
                                                      {"top_k", 20},
                                                      {"top_p", 0.8},
                                                      {"min_p", 0},
                                                      {"repetition_penalty", 1.05},
                                                      {"transformers_version", "4.51.0"},
                                                      {"pad_token_id", 1}})
                                            .generation;
  CHECK(g ==
        kvscope::GenerationDefaults{
            .do_sample = true, .temperature = 0.7, .top_k = 20, .top_p = 0.8, .min_p = 0, .repetition_penalty = 1.05});
}

TEST_CASE("Ends of text are one id or several, and the generation configuration's go first") {
  CHECK(load(with("eos_token_id", {1, 2})).eos_ids == std::vector<std::int32_t>{1, 2});
  CHECK(load(with("eos_token_id", nullptr)).eos_ids.empty());
  CHECK(load(good(), {{"eos_token_id", {3, 4}}}).eos_ids == std::vector<std::int32_t>{3, 4});
  CHECK(load(good(), {{"do_sample", false}}).eos_ids == std::vector<std::int32_t>{7});
}

TEST_CASE(
    "Python's numbers that JSON lacks stop nobody where they are not read, and are refused by field where they are") {
  const auto load_text = [](const char* from, const char* to) {
    std::string text = good().dump();
    text.insert(1, R"("note\"NaN":"Infinity",)");
    if (*from == '\0') {
      text.insert(1, to);
    } else {
      text.replace(text.find(from), std::string(from).size(), to);
    }
    const TempFolder folder;
    folder.write("config.json", text);
    return error_of([&] { ModelConfig::load(folder.path()); });
  };
  CHECK(load_text("", R"("time_limit":[0.0,Infinity,-Infinity,NaN],)") == "no error");
  CHECK_THAT(load_text("1000000.0", "Infinity"),
             Catch::Contains("config.json: rope_theta: \"Infinity\"; expected a num"));
  CHECK_THAT(load_text("\"vocab_size\":4096", "\"vocab_size\":NaN"),
             Catch::Contains("config.json: vocab_size: \"NaN\"; expected an integer"));
  CHECK_THAT(load_text("", R"("x":Inf,)"), Catch::Contains("not valid JSON"));
  CHECK_THAT(load_text("", R"("x":nan,)"), Catch::Contains("not valid JSON"));
}

TEST_CASE("A size that is missing, not an integer or out of range is refused by field, found and expected") {
  struct Field {
    const char* key;
    int max;
    bool optional = false;
  };
  const auto f = GENERATE(values<Field>({{"vocab_size", 1 << 22},
                                         {"hidden_size", 1 << 14},
                                         {"intermediate_size", 1 << 20},
                                         {"num_hidden_layers", 1024},
                                         {"num_attention_heads", 1024},
                                         {"num_key_value_heads", 1024},
                                         {"head_dim", 256, true},
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
  json config = of_family("LlamaForCausalLM");
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
       "architectures: \"LlavaForConditionalGeneration\" is not supported; expected NAMEForCausalLM, where "
       "NAME is one of: Qwen3, Qwen2, Llama, Mistral, SmolLM3, Phi3, Gemma3, Qwen3Moe, Olmo2, Olmo3, GptOss; hint: "
       "--engine hf"},
      {"architectures", "Qwen3ForCausalLM", "architectures: not a list"},
      {"architectures", {1}, "architectures: not a list"},
      {"rope_scaling",
       {{"rope_type", "dynamic"}, {"factor", 2.0}},
       "rope_scaling.rope_type: \"dynamic\" is not supported; expected one of: default, linear, llama3, yarn, "
       "longrope"},
      {"rope_scaling", {{"type", "su"}}, "rope_scaling.short_factor: not a list of 32; expected one number for each"},
      {"rope_parameters",
       {{"rope_type", "longrope"}, {"original_max_position_embeddings", 1024}, {"long_factor", {1, 2}}},
       "rope_parameters.long_factor: not a list of 32"},
      {"rope_scaling",
       {{"type", "longrope"}, {"short_factor", std::vector<double>(32, 0)}},
       "rope_scaling.short_factor: 0.0; expected numbers above 0"},
      {"lm_head_bias", true, "lm_head_bias: true is not supported"},
      {"rope_scaling", "yarn", "rope_scaling: \"yarn\"; expected an object"},
      {"rope_scaling", {{"type", "linear"}}, "rope_scaling.factor: missing; expected a number from 1 to 1000000"},
      {"rope_scaling", {{"type", "linear"}, {"factor", 0.5}}, "rope_scaling.factor: 0.5; expected a number from 1"},
      {"rope_scaling", {{"type", "yarn"}, {"factor", "4"}}, "rope_scaling.factor: \"4\"; expected a number"},
      {"rope_scaling",
       {{"type", "yarn"}, {"factor", 4}, {"original_max_position_embeddings", 0}},
       "rope_scaling.original_max_position_embeddings: 0; expected a number from 1"},
      {"rope_scaling",
       {{"type", "yarn"}, {"factor", 4}, {"truncate", 1}},
       "rope_scaling.truncate: 1; expected true or"},
      {"rope_scaling",
       {{"type", "yarn"}, {"factor", 4}, {"rope_theta", 1}},
       "rope_scaling.rope_theta: 1; expected more than 1 for yarn"},
      {"rope_scaling",
       {{"type", "longrope"}, {"original_max_position_embeddings", 1}, {"long_factor", std::vector<double>(32, 2)}},
       "rope_scaling.original_max_position_embeddings: 1; expected more than 1 for longrope"},
      {"rope_scaling",
       {{"type", "llama3"}, {"factor", 8}},
       "rope_scaling.low_freq_factor: missing; expected a number from 0.001"},
      {"rope_scaling",
       {{"type", "llama3"}, {"factor", 8}, {"low_freq_factor", 4}, {"high_freq_factor", 4}},
       "rope_scaling.high_freq_factor: not above low_freq_factor"},
      {"rope_parameters",
       {{"full_attention", {{"rope_type", "default"}}}},
       "rope_parameters.full_attention: a separate embedding for one kind of layer"},
      {"rope_parameters", {{"rope_theta", 0}}, "rope_parameters.rope_theta: 0; expected a number from 1"},
      {"rope_theta", 0, "rope_theta: 0; expected a number from 1"},
      {"rope_theta", "1e4", "rope_theta: \"1e4\"; expected a number"},
      {"partial_rotary_factor", 0.5, "partial_rotary_factor: not 1"},
      {"quantization_config", {{"quant_method", "gptq"}}, "quantization_config: quantized weights are not supported"},
      {"attention_bias", true, "attention_bias: true is not supported"},
      {"attention_bias", 1, "attention_bias: 1; expected true or false"},
      {"mlp_bias", true, "mlp_bias: true is not supported; expected false"},
      {"use_sliding_window", 1, "use_sliding_window: 1; expected true or false"},
      {"layer_types", {"full_attention", "sliding_attention"}, "layer_types: 2 layers; expected 6"},
      {"layer_types", {1}, "layer_types: a kind of layer that is not supported"},
      {"layer_types", "full_attention", "layer_types: not a list"},
      {"hidden_act", "gelu", "hidden_act: \"gelu\" is not supported; expected \"silu\" or \"gelu_pytorch_tanh\""},
      {"rms_norm_eps", 0, "rms_norm_eps: 0; expected a number from"},
      {"rms_norm_eps", -1e-6, "rms_norm_eps: -1e-06; expected a number from"},
      {"tie_word_embeddings", "yes", "tie_word_embeddings: \"yes\"; expected true or false"},
      {"torch_dtype", "float8_e4m3fn", "torch_dtype: \"float8_e4m3fn\" is not supported"},
      {"dtype", 16, "dtype: 16; expected text"},
      {"eos_token_id", "2", "eos_token_id: \"2\"; expected an integer"},
      {"model_type", 7, "model_type: 7; expected text"},
      {"model_type", "gpt2", "model_type: \"gpt2\"; expected \"qwen3\" of Qwen3ForCausalLM"},
      {"layer_types", std::vector<std::string>(99, "full_attention"), "layer_types: 99 layers; expected 6, num_hid"},
      {"rms_norm_eps", nullptr, "rms_norm_eps: null; expected a number"},
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
}
