// What a model's folder says and nobody follows: one line on stderr and in the window, and no refusal of what runs.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/app/model_damage.h"
#include "tests/app/process.h"
#include "tests/support/model_folder.h"
#include "tests/support/skip.h"

namespace kvscope {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char *kTokenizer = "tokenizer.json", *kTokenizerConfig = "tokenizer_config.json";

class Scene {
 public:
  explicit Scene(const std::vector<test::Damage>& changes, json config = test::small_model_config()) {
    test::write_model_folder(model_, config, 3);
    for (const test::Damage& change : changes) change(model_);
  }
  test::Result run(std::vector<std::string> words) const {
    words.insert(words.begin() + 1, model_.string());
    words.insert(words.begin(), test::kvscope().string());
    return test::run({.argv = words});
  }
  test::Result score(const std::string& text) const { return run({"score", "--text", text, "--device", "cpu"}); }

 private:
  test::TemporaryFolder folder_;
  fs::path model_ = folder_ / "m";
};

test::Damage add_token(const char* content, int id) {
  return test::edit_json(kTokenizer, [=](json& t) {
    t["added_tokens"].push_back({{"id", id}, {"content", content}, {"special", true}, {"normalized", false}});
  });
}

int n_warnings(const std::string& err) {
  int n = 0;
  for (std::size_t at = err.find("warning: "); at != err.npos; at = err.find("warning: ", at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("inspect says what a raw prompt begins with, and warns of an add_bos_token that nobody follows") {
  const Scene scene({test::put(kTokenizerConfig, R"({"add_bos_token":true,"bos_token":"<|endoftext|>"})")});
  const test::Result shown = scene.run({"inspect"});
  CAPTURE(shown.out, shown.err);
  CHECK(shown.exit_code == 0);
  CHECK_THAT(shown.out, Catch::Contains("a raw prompt begins with: (nothing)"));
  CHECK(n_warnings(shown.err) == 1);
  CHECK_THAT(shown.err,
             Catch::Contains("add_bos_token: true, but the post_processor of tokenizer.json puts no token before"));
  const json object = json::parse(scene.run({"inspect", "--json"}).out);
  CHECK(object["raw_prompt_begins_with"] == "(nothing)");
  CHECK(object["warnings"].size() == 1);
  const json single = {{{"SpecialToken", {{"id", "s"}, {"type_id", 0}}}},
                       {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}};
  const Scene with({test::set_json(kTokenizer, "/post_processor",
                                   {{"type", "TemplateProcessing"},
                                    {"single", single},
                                    {"special_tokens", {{"s", {{"id", "s"}, {"ids", {0}}, {"tokens", {"s"}}}}}}}),
                    test::put(kTokenizerConfig, R"({"add_bos_token":true,"bos_token":"<|endoftext|>"})")});
  const test::Result begins = with.run({"inspect"});
  CHECK_THAT(begins.out, Catch::Contains("a raw prompt begins with: <|endoftext|>"));
  CHECK(begins.err.empty());
}

TEST_CASE("tokenize reads the tokens that only tokenizer_config.json names, and warns of ids that a file writes") {
  const Scene in_config({test::put(
      kTokenizerConfig, R"({"added_tokens_decoder":{"9":{"content":"<|tool|>","special":true,"normalized":false}}})")});
  const test::Result result = in_config.run({"tokenize", "--text", "<|tool|>", "--json"});
  CHECK(json::parse(result.out)["ids"] == json{4096});
  CHECK(result.err.empty());
  const Scene gap({add_token("<|tool|>", 5000)});
  const test::Result numbered = gap.run({"tokenize", "--text", "<|tool|>", "--json"});
  CHECK(json::parse(numbered.out)["ids"] == json{4096});
  CHECK(n_warnings(numbered.err) == 1);
  CHECK_THAT(numbered.err, Catch::Contains("\"<|tool|>\" has id 5000 in the file and 4096 here"));
}

TEST_CASE("A head_dim that no kernel takes is refused at config.json by inspect, run and score alike") {
  json config = test::small_model_config();
  config["head_dim"] = 16;
  const Scene scene({test::set_json("config.json", "/head_dim", 100)}, config);
  const test::Result inspected = scene.run({"inspect"}), run = scene.run({"run", "--prompt", "a", "--device", "cpu"}),
                     scored = scene.score("ab");
  for (const test::Result* result : {&inspected, &run, &scored}) {
    if (result != &inspected && test::real_engine().empty()) continue;
    CAPTURE(result->err);
    CHECK(result->exit_code == 2);
    CHECK_THAT(result->err, Catch::Contains("config.json: head_dim: 100 (of hidden_size 64 and 4 heads); expected a "
                                            "multiple of 8 up to 256"));
  }
}

TEST_CASE("A token past the embedding stops the prompts that have it, and no other") {
  if (test::real_engine().empty()) return test::skip("kvscope-engine is not built");
  const Scene scene({add_token("[PAD]", 4096)});
  const test::Result plain = scene.score("the code"), padded = scene.score("the[PAD]code");
  CAPTURE(plain.err, padded.err);
  CHECK(plain.exit_code == 0);
  CHECK(n_warnings(plain.err) == 1);
  CHECK_THAT(plain.err, Catch::Contains("\"[PAD]\", id 4096, is beyond the embedding's 4096 rows"));
  CHECK(padded.exit_code == 2);
  CHECK_THAT(padded.err, Catch::Contains("error: prompt: token id 4096, \"[PAD]\"; expected 0 ... 4095"));
}

TEST_CASE("A generation configuration that cannot be used stops no run, and is named once") {
  if (test::real_engine().empty()) return test::skip("kvscope-engine is not built");
  const Scene scene({test::put("generation_config.json", R"({"temperature":-1,"top_k":-1,"eos_token_id":[0]})")});
  const test::Result result = scene.run({"run", "--prompt", "a", "--device", "cpu", "--max-tokens", "2", "--quiet"});
  CAPTURE(result.err);
  CHECK(result.exit_code == 0);
  CHECK(n_warnings(result.err) == 1);
  CHECK_THAT(result.err, Catch::Contains("generation_config.json: temperature: -1; expected a number from 0"));
}

TEST_CASE("A damaged generation configuration is ignored with a warning, as transformers ignores it") {
  if (test::real_engine().empty()) return test::skip("kvscope-engine is not built");
  const char* kFile = "generation_config.json";
  const std::pair<test::Damage, const char*> cases[] = {{test::put(kFile, "{\"eos_token_id\":"), "line 1"},
                                                        {test::put(kFile, "[1]"), "the file is ignored"},
                                                        {test::put_fifo(kFile), "a FIFO"},
                                                        {test::put_link(kFile, "gone"), "No such file"}};
  for (const auto& [damage, reason] : cases) {
    const Scene scene({damage});
    const test::Result result = scene.run({"inspect"});
    CAPTURE(reason, result.err);
    CHECK(result.exit_code == 0);
    CHECK(n_warnings(result.err) == 1);
    CHECK_THAT(result.err, Catch::Contains("generation_config.json: ") && Catch::Contains(reason) &&
                               Catch::Contains("; the file is ignored"));
  }
}

TEST_CASE("A window on every other layer is read, described and computed without a warning") {
  if (test::real_engine().empty()) return test::skip("kvscope-engine is not built");
  json config = test::small_model_config();
  config["use_sliding_window"] = true;
  config["sliding_window"] = 8;
  config["layer_types"] = {"sliding_attention", "full_attention"};
  const Scene local({}, config), global({});
  const json object = json::parse(local.run({"inspect", "--json"}).out);
  CHECK(object["layer_windows"] == json({8, 0}));
  CHECK(2 * object["kv_cache_bytes_per_token_16bit"].get<double>() ==
        json::parse(global.run({"inspect", "--json"}).out)["kv_cache_bytes_per_token_16bit"].get<double>());
  const std::string text = "the code of the falcon is the code of the falcon and so on and on and on";
  const test::Result a = local.score(text), b = global.score(text);
  CAPTURE(a.err, b.err);
  CHECK(a.exit_code == 0);
  CHECK(n_warnings(a.err) == 0);
  CHECK(a.out != b.out);
}

TEST_CASE("A head of its own beside tied embeddings scores as an untied model does") {
  if (test::real_engine().empty()) return test::skip("kvscope-engine is not built");
  json config = test::small_model_config();
  config["tie_word_embeddings"] = false;
  const Scene untied({}, config), tied({test::set_json("config.json", "/tie_word_embeddings", true)}, config);
  const test::Result a = untied.score("the code of the falcon"), b = tied.score("the code of the falcon");
  CAPTURE(a.err, b.err);
  CHECK(a.exit_code == 0);
  CHECK(b.out == a.out);
  CHECK(n_warnings(a.err) == 0);
  CHECK(n_warnings(b.err) == 1);
  CHECK_THAT(b.err, Catch::Contains("tie_word_embeddings: true, but the weights have lm_head.weight"));
}

}  // namespace kvscope
