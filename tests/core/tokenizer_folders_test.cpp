// Folders with varied tokenizer_config.json, special_tokens_map.json and added_tokens.json: the ids that transformers gives
// (make_model_folder_golden.py), or a refusal, or a warning.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "engine/core/files/tokenizer/tokenizer.h"
#include "engine/core/support/error.h"
#include "tests/support/golden.h"
#include "tests/support/temp_folder.h"

using kvscope::Tokenizer;
using kvscope::test::TempFolder;
using nlohmann::json;
using Ids = std::vector<std::int32_t>;

namespace {

void write_folder(const TempFolder& folder, json tokenizer, const json& patch, const json& files) {
  for (const auto& [key, value] : patch.items()) tokenizer[key] = value;
  folder.write("tokenizer.json", tokenizer.dump());
  for (const auto& [name, content] : files.items())
    folder.write(name, content.is_string() ? content.get<std::string>() : content.dump());
}

struct Small {
  json tokenizer = kvscope::test::read_golden("tests/core/golden/tokenizer_folders.json")["base"]["llama3"];
  json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}};  // tokenizer_config.json
  json files = json::object();

  Tokenizer load() const {
    json all = files;
    if (!config.is_null()) all["tokenizer_config.json"] = config;
    const TempFolder folder;
    write_folder(folder, tokenizer, json::object(), all);
    return Tokenizer::load(folder.path());
  }
  std::int32_t next() const { return static_cast<std::int32_t>(tokenizer["model"]["vocab"].size()) + 3; }
};

}  // namespace

TEST_CASE("Folders whose files vary give the ids of transformers, or are refused, or warn") {
  const json golden = kvscope::test::read_golden("tests/core/golden/tokenizer_folders.json");
  int n = 0, equal = 0, silent_and_equal = 0;
  for (const json& one : golden["folders"]) {
    const TempFolder folder;
    write_folder(folder, golden["base"][one["base"].get<std::string>()], one["patch"], one["files"]);
    INFO("folder " << n++ << ": " << one["files"].dump().substr(0, 900));
    if (one["ids"].is_null()) continue;
    try {
      const Tokenizer tokenizer = Tokenizer::load(folder.path());
      bool same = true;
      for (std::size_t i = 0; i < one["texts"].size(); ++i) {
        const auto text = one["texts"][i].get<std::string>();
        same = same && tokenizer.encode(text) == one["ids"][i].get<Ids>() &&
               tokenizer.encode_with_special(text) == one["special"][i].get<Ids>();
      }
      CHECK((same || !tokenizer.warnings().empty()));
      equal += same;
      silent_and_equal += same && tokenizer.warnings().empty();
    } catch (const kvscope::Error& error) {
      CHECK(error.code() == kvscope::ExitCode::bad_input);
    }
  }
  CHECK(n >= 100);
  CHECK(equal * 10 >= n * 7);             // most are the same,
  CHECK(silent_and_equal * 10 >= n * 4);  // and of these most without a word
}

TEST_CASE("A token that only tokenizer_config.json names is a token, with its flags") {
  Small small;
  const std::int32_t tool = small.next();
  CHECK(small.load().encode("a<|tool|>b").size() > 3);
  const json token = {{"content", "<|tool|>"}, {"special", true}, {"rstrip", true}};
  small.config["added_tokens_decoder"] = {{"479", token}};
  CHECK(small.load().encode("a<|tool|>  b") == Ids{64, tool, 65});
  CHECK(small.load().is_special(tool));
  CHECK(small.load().warnings().empty());
  small.config.erase("added_tokens_decoder");
  const char* name = GENERATE("bos_token", "pad_token", "image_token", "additional_special_tokens");
  const bool is_list = std::string(name) == "additional_special_tokens";
  small.config[name] = is_list ? json::array({"<|tool|>"}) : json("<|tool|>");
  CHECK(small.load().encode("a<|tool|>b") == Ids{64, tool, 65});
  CHECK(small.load().warnings().empty());
}

TEST_CASE("The old files beside tokenizer.json are read where there is no added_tokens_decoder") {
  Small small;
  small.files["special_tokens_map.json"] = {{"pad_token", "[PAD]"}};
  small.files["added_tokens.json"] = {{"<y>", 999}};
  const std::int32_t first = small.next();
  CHECK(small.load().encode("[PAD]<y>") == Ids{first + 1, first});
  small.config["added_tokens_decoder"] = json::object();
  CHECK(small.load().encode("[PAD]").size() > 1);
}

TEST_CASE("add_bos_token and add_eos_token that the post-processor does not follow give one warning each") {
  struct Case {
    const char* key;
    bool value;
    const char* line;
  };
  const auto c = GENERATE(values<Case>({
      {"add_bos_token", true, ""},  // <|im_start|> is put there
      {"add_bos_token", false, "add_bos_token: false, but the post_processor of tokenizer.json puts a token before"},
      {"add_eos_token", true, "add_eos_token: true, but the post_processor of tokenizer.json puts no token after"},
      {"add_eos_token", false, ""},
  }));
  Small small;
  small.config[c.key] = c.value;
  const Tokenizer tokenizer = small.load();
  CHECK(tokenizer.first_id() == small.next() - 2);
  REQUIRE(tokenizer.warnings().size() == (*c.line == '\0' ? 0 : 1));
  if (*c.line != '\0') CHECK_THAT(tokenizer.warnings()[0], Catch::Contains(c.line));
}

TEST_CASE("Settings that could change ids give a warning, and the usual ones of published tokenizers give none") {
  Small small;
  // Keys of Qwen2.5, Qwen3, Llama 2 and 3, Mistral, SmolLM2 and the R1 distillations.
  for (const char* key : {"add_eos_token", "clean_up_tokenization_spaces", "split_special_tokens", "add_prefix_space"})
    small.config[key] = false;
  small.config["legacy"] = true, small.config["use_default_system_prompt"] = true;
  small.config["model_max_length"] = 1e30, small.config["padding_side"] = "left", small.config["errors"] = "replace";
  small.config["sp_model_kwargs"] = json::object(), small.config["unk_token"] = nullptr;
  small.config["eos_token"] = "<|im_end|>", small.config["chat_template"] = "x";
  small.config["model_input_names"] = {"input_ids", "attention_mask"};
  small.config["vocab_size"] = nullptr;
  CHECK(small.load().warnings().empty());
  const char* key = GENERATE("do_lower_case", "split_special_tokens", "add_prefix_space", "auto_map", "fix_regex");
  small.config[key] = true;
  REQUIRE(small.load().warnings().size() == 1);
  CHECK_THAT(small.load().warnings()[0], Catch::Contains("tokenizer_config.json: ") && Catch::Contains(key));
}

TEST_CASE("The files of Qwen2.5 as they are published give no warning") {
  Small small;
  small.tokenizer = kvscope::test::read_golden("tests/core/golden/tokenizer_folders.json")["base"]["qwen2"];
  json decoder = json::object(), names = json::array();
  for (json token : small.tokenizer["added_tokens"]) {
    names.push_back(token["content"]);
    const std::string id = token["id"].dump();
    token.erase("id");
    decoder[id] = token;
  }
  small.files["config.json"] = {{"model_type", "qwen2"}, {"architectures", {"Qwen2ForCausalLM"}}};
  small.config = {{"add_bos_token", false},
                  {"add_prefix_space", false},
                  {"added_tokens_decoder", decoder},
                  {"additional_special_tokens", names},
                  {"bos_token", nullptr},
                  {"chat_template", "x"},
                  {"clean_up_tokenization_spaces", false},
                  {"eos_token", "<|im_end|>"},
                  {"errors", "replace"},
                  {"model_max_length", 131072},
                  {"pad_token", "<|endoftext|>"},
                  {"split_special_tokens", false},
                  {"tokenizer_class", "Qwen2Tokenizer"},
                  {"unk_token", nullptr}};
  CHECK(small.load().warnings().empty());
  small.tokenizer["normalizer"] = nullptr;  // the class has one
  REQUIRE(small.load().warnings().size() == 1);
  CHECK_THAT(small.load().warnings()[0], Catch::Contains("transformers 5 rebuilds Qwen2Tokenizer"));
}

TEST_CASE("A file beside tokenizer.json that cannot be read is named and stops nobody") {
  const TempFolder folder;
  const Small small;
  write_folder(folder, small.tokenizer, json::object(), json::object());
  const char* name = GENERATE("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json");
  const char* text = GENERATE("{\"bos_token\":", "[]", "<html>");
  folder.write(name, text);
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  CHECK(tokenizer.encode("a") == Ids{64});
  REQUIRE(tokenizer.warnings().size() == 1);
  CHECK_THAT(tokenizer.warnings()[0], Catch::Contains(name) && Catch::EndsWith("stay text"));
}
