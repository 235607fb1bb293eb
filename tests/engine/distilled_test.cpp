// The models that were distilled from DeepSeek-R1: Qwen2's and Llama's blocks, their tokenizers with other added tokens, and
// a chat of their own. Weights are random, configurations have the models' keys and ratios at a quarter and an eighth of
// their width and two layers.

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "engine/core/files/tokenizer/chat.h"
#include "engine/decode/run.h"
#include "tests/support/golden.h"
#include "tests/support/model_folder.h"
#include "tests/support/temp_folder.h"

using namespace kvscope;
using nlohmann::json;

namespace {

const std::string kGolden = "tests/core/golden/";

struct Distilled {
  const char* name;
  json config;
  const char* tokenizer;  // whose words and split it has
};

std::vector<Distilled> distilled() {
  return {{"Qwen-1.5B",
           {{"architectures", {"Qwen2ForCausalLM"}},
            {"model_type", "qwen2"},
            {"hidden_size", 384},
            {"intermediate_size", 2240},
            {"max_position_embeddings", 131072},
            {"max_window_layers", 21},
            {"num_attention_heads", 12},
            {"num_hidden_layers", 2},
            {"num_key_value_heads", 2},
            {"rms_norm_eps", 1e-6},
            {"rope_theta", 10000},
            {"sliding_window", 4096},
            {"use_mrope", false},
            {"use_sliding_window", false}},
           "qwen2"},
          {"Llama-8B",
           {{"architectures", {"LlamaForCausalLM"}},
            {"model_type", "llama"},
            {"attention_bias", false},
            {"hidden_size", 512},
            {"intermediate_size", 1792},
            {"max_position_embeddings", 131072},
            {"mlp_bias", false},
            {"num_attention_heads", 32},
            {"num_hidden_layers", 2},
            {"num_key_value_heads", 8},
            {"pretraining_tp", 1},
            {"rms_norm_eps", 1e-5},
            {"rope_scaling",
             {{"factor", 8.0},
              {"low_freq_factor", 1.0},
              {"high_freq_factor", 4.0},
              {"original_max_position_embeddings", 8192},
              {"rope_type", "llama3"}}},
            {"rope_theta", 500000.0}},
           "llama3"}};
}

/// The family's tokenizer, with the added tokens and the first token of the distilled models.
json tokenizer_of(const Distilled& model) {
  json tokenizer = test::read_golden(kGolden + "tokenizer_" + model.tokenizer + ".json")["tokenizer"];
  int id = static_cast<int>(tokenizer["model"]["vocab"].size());
  json added = json::array();
  for (const char* text :
       {"<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", "<｜begin▁of▁sentence｜>", "<think>", "</think>"}) {
    added.push_back(
        {{"id", id++}, {"content", text}, {"normalized", false}, {"special", added.empty() || added.size() == 3}});
  }
  const json bos = {{"id", "<｜begin▁of▁sentence｜>"}, {"type_id", 0}};
  tokenizer["added_tokens"] = added;
  tokenizer["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", {{{"SpecialToken", bos}}, {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
      {"special_tokens",
       {{"<｜begin▁of▁sentence｜>",
         {{"id", "<｜begin▁of▁sentence｜>"}, {"ids", {id - 3}}, {"tokens", {"<｜begin▁of▁sentence｜>"}}}}}}};
  return tokenizer;
}

std::string chat_template(const std::string& name) {
  const json golden = test::read_golden(kGolden + "chat.json");
  for (const json& t : golden["templates"]) {
    if (t["name"] == name) return t["text"];
  }
  FAIL("no template " << name);
  return {};
}

void write_model(const test::TempFolder& folder, const Distilled& model, const std::string& template_name) {
  const json tokenizer = tokenizer_of(model);
  json config = model.config;
  const int n_words = static_cast<int>(tokenizer["model"]["vocab"].size());
  config.update({{"vocab_size", n_words + 6},
                 {"hidden_act", "silu"},
                 {"tie_word_embeddings", false},
                 {"torch_dtype", "bfloat16"},
                 {"bos_token_id", n_words + 3},
                 {"eos_token_id", n_words}});
  test::write_model_folder(folder.path(), config, 7, {.type = TensorType::bf16});
  folder.write("tokenizer.json", tokenizer.dump());
  const json bos = {{"__type", "AddedToken"}, {"content", "<｜begin▁of▁sentence｜>"}};
  folder.write(
      "tokenizer_config.json",
      json{{"add_bos_token", true}, {"bos_token", bos}, {"chat_template", chat_template(template_name)}}.dump());
}

}  // namespace

TEST_CASE("models distilled from R1, on Qwen2 and on Llama, load, take a chat and decode under every kind of policy") {
  for (const Distilled& shape : distilled()) {
    for (const char* name : {"DeepSeek-R1", "DeepSeek-R1 (always thinking)"}) {
      CAPTURE(shape.name, name);
      const test::TempFolder folder;
      write_model(folder, shape, name);
      const auto model = engine::LoadedModel::load(folder.path(), {"cpu", "float32"});
      const ChatTemplate chat = ChatTemplate::load(folder.path());
      const std::vector<ChatMessage> talk = {
          {"user", "2 + 2?"}, {"assistant", "<think>\nadd\n</think>\n\n4"}, {"user", "Why?"}};
      const std::string asks = std::string("<｜Assistant｜>") + (std::string(name).ends_with(")") ? "<think>\n" : "");
      const std::string text =
          "<｜begin▁of▁sentence｜><｜User｜>2 + 2?<｜Assistant｜>\n\n4<｜end▁of▁sentence｜><｜User｜>Why?" + asks;
      CHECK(chat.render(talk) == text);
      const auto ids = chat.encode(model.tokenizer(), talk);
      CHECK(ids == model.tokenizer().encode(text));
      CHECK(model.tokenizer().encode_with_special("Why?").front() == ids.front());  // plain text begins with it too
      for (const char* policy : {"full", "streaming:window=8", "h2o:keep=50%,window=4", "snapkv:keep=50%,window=4"}) {
        CAPTURE(policy);
        RunRequest request;
        request.messages = talk;
        request.prompt = "Why?";
        request.raw = false;
        request.policy = PolicySpec::parse(policy);
        request.max_tokens = 4;
        request.stop_at_eos = false;
        request.oracle = false;
        CHECK(engine::Generation(model, request).ids() == ids);
        const RunEnded ended = engine::execute_run(model, request);
        CHECK(ended.status == RunStatus::complete);
        CHECK(ended.timings.decode_steps == 4);
      }
    }
  }
}
