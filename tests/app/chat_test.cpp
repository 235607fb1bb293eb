// Chats and stop strings on the command line: what reaches the engine, what reaches the screen.

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/app/process.h"
#include "tests/support/golden.h"

using namespace kvscope;
using kvscope::test::kvscope_run;
using kvscope::test::TemporaryFolder;
using nlohmann::json;

namespace {

/// A model's folder with the tokenizer of Qwen2's golden file and a chat template; no weights.
void write_model(const TemporaryFolder& folder, const std::string& template_name) {
  static const std::string tokenizer = test::read_golden("tests/core/golden/tokenizer_qwen2.json")["tokenizer"].dump();
  static const json chats = test::read_golden("tests/core/golden/chat.json")["templates"];
  std::ofstream(folder / "tokenizer.json") << tokenizer;
  for (const json& t : chats) {
    if (t["name"] != template_name) continue;
    std::ofstream(folder / "tokenizer_config.json") << json{{"chat_template", t["text"]}};
  }
}

json last_object(const test::Result& result) {
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const auto end = result.out.find_last_not_of('\n');
  REQUIRE(end != std::string::npos);
  return json::parse(result.out.substr(result.out.rfind('\n', end) + 1));
}

std::string joined(const json& pieces) {
  std::string text;
  for (const json& piece : pieces) text += piece.get<std::string>();
  return text;
}

void check_error_line(const test::Result& result, int exit_code, const std::string& contains) {
  INFO(result.err);
  CHECK(result.exit_code == exit_code);
  CHECK(test::count_lines(result.err) == 1);
  CHECK(result.err.find(contains) != std::string::npos);
  CHECK(result.out.empty());
}

std::vector<std::string> words(const std::string& command, const std::filesystem::path& model,
                               const std::vector<std::string>& more) {
  std::vector<std::string> all = {command, model.string()};
  if (command != "tokenize") all.insert(all.end(), {"--engine", test::fake_engine().string(), "--quiet"});
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// Ids of the prompt that the engine made; the fake one writes a chat as "[role] content ...".
json prompt_ids(const TemporaryFolder& model, std::vector<std::string> more) {
  more.insert(more.end(), {"--max-tokens", "1", "--json"});
  return last_object(kvscope_run(words("run", model.path(), more)))["prompt_ids"];
}

}  // namespace

TEST_CASE("tokenize --chat gives the prompt of a chat, in which what was typed stays text") {
  const TemporaryFolder folder;
  write_model(folder, "Qwen3");
  const auto tokens = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"--chat", "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return last_object(kvscope_run(words("tokenize", folder.path(), all)));
  };
  const std::string asks = "<|im_start|>assistant\n";
  CHECK(joined(tokens({"--text", "hi"})["pieces"]) == "<|im_start|>user\nhi<|im_end|>\n" + asks);
  CHECK(joined(tokens({"--text", "hi", "--thinking", "off"})["pieces"]) ==
        "<|im_start|>user\nhi<|im_end|>\n" + asks + "<think>\n\n</think>\n\n");
  const json typed = tokens({"--text", "<|im_end|>", "--system", "Be <think> brief."});
  CHECK(joined(typed["pieces"]) ==
        "<|im_start|>system\nBe <think> brief.<|im_end|>\n<|im_start|>user\n<|im_end|><|im_end|>\n" + asks);
  int ends = 0;
  for (const json& piece : typed["pieces"]) ends += piece == "<|im_end|>";
  CHECK(ends == 2);
}

TEST_CASE("tokenize --chat names the date that a chat has, unless one is given") {
  const TemporaryFolder folder;
  write_model(folder, "Llama 3.2");
  std::ofstream(folder / "tokenizer.json")
      << test::read_golden("tests/core/golden/tokenizer_llama3.json")["tokenizer"].dump();
  const auto tokens = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--chat", "--text", "x"});
    return kvscope_run(words("tokenize", folder.path(), more));
  };
  CHECK(last_object(tokens({"--json"}))["date"] == "26 Jul 2024");
  CHECK(last_object(tokens({"--json", "--date", "1 Jan 2030"})).count("date") == 0);
  CHECK(tokens({}).err == "note: the chat has the template's date, 26 Jul 2024; set another with --date\n");
  CHECK(tokens({"--date", "1 Jan 2030"}).err.empty());
}

TEST_CASE("tokenize names a template that is not known, and options of chats without one") {
  const TemporaryFolder folder;
  write_model(folder, "none");
  check_error_line(kvscope_run(words("tokenize", folder.path(), {"--chat", "--text", "x"})), 2, "no chat template");
  std::ofstream(folder / "chat_template.jinja") << "{{ messages.x.y }}";
  check_error_line(kvscope_run(words("tokenize", folder.path(), {"--chat", "--text", "x"})), 2,
                   "chat_template.jinja: an unsupported template: it has {{messages.x.y}}: .y of something undefined");
  CHECK(kvscope_run(words("tokenize", folder.path(), {"--text", "x"})).exit_code == 0);
  const std::string option = GENERATE("--system", "--thinking", "--date");
  check_error_line(kvscope_run(words("tokenize", folder.path(), {option, "on", "--text", "x"})), 1,
                   option + ": no chat");
}

TEST_CASE("tokenize takes any bytes") {
  const TemporaryFolder folder;
  write_model(folder, "none");
  std::string bytes;
  for (int b = 0; b < 256; ++b) bytes += static_cast<char>(b);
  for (const std::string& text : {std::string(), bytes, bytes + "\xF0\x9F\x99", std::string(300'000, ' ')}) {
    std::ofstream(folder / "t.txt", std::ios::binary) << text;
    const json object = last_object(
        kvscope_run(words("tokenize", folder.path(), {"--text-file", (folder / "t.txt").string(), "--json"})));
    CHECK(object["ids"].size() == object["pieces"].size());
    CHECK(object["ids"].empty() == text.empty());
  }
}

TEST_CASE("run gives the engine the chat that was asked for, and a model without a template raw text") {
  const TemporaryFolder chat, raw;
  write_model(chat, "Qwen3");
  write_model(raw, "none");
  const std::vector<std::string> hello = {"--prompt", "hello"};
  const auto with = [&](const TemporaryFolder& model, std::vector<std::string> more) {
    more.insert(more.end(), hello.begin(), hello.end());
    return prompt_ids(model, more);
  };
  const json as_text = with(raw, {}), as_chat = with(chat, {});
  CHECK(as_text != as_chat);
  CHECK(with(chat, {"--raw"}) == as_text);
  CHECK(with(raw, {"--chat"}) == as_chat);
  const json messages = {{{"role", "system"}, {"content", "be brief"}}, {{"role", "user"}, {"content", "hello"}}};
  const json brief = with(raw, {"--system", "be brief"});
  CHECK(prompt_ids(raw, {"--messages", messages.dump()}) == brief);
  CHECK(brief != as_chat);
  const json on = with(raw, {"--thinking", "on"}), off = with(raw, {"--thinking", "off"});
  CHECK(on != off);
  CHECK(off != as_chat);
  CHECK(with(raw, {"--date", "1 Jan 2030"}) != as_chat);
}

TEST_CASE("Options of chats and stop strings that cannot be are usage errors before an engine starts") {
  struct Case {
    std::vector<std::string> words;
    const char* line;
  };
  const auto c = GENERATE(values<Case>({
      {{"--prompt", "x", "--raw", "--system", "y"}, "--raw and --system: both given"},
      {{"--prompt", "x", "--raw", "--chat"}, "--raw and --chat: both given"},
      {{"--prompt", "x", "--thinking", "maybe"}, "--thinking: \"maybe\"; expected on or off"},
      {{"--prompt", "x", "--stop", ""}, "stop: an empty text"},
      {{"--prompt", "x", "--messages", "[]"}, "--messages and --prompt: both given"},
      {{"--messages", "[]"}, "--messages: messages: no message"},
      {{"--messages", "{"}, "--messages: line 1"},
      {{"--messages", R"([{"role": "user"}])"}, "--messages: messages[0].content: missing"},
      {{"--messages", R"([{"role": "system", "content": ""}])", "--system", "x"}, "--system: the conversation has"},
  }));
  std::vector<std::string> all = {"run", test::sample_model().string(), "--engine", "false"};
  all.insert(all.end(), c.words.begin(), c.words.end());
  const auto result = kvscope_run(all);
  INFO(result.err);
  CHECK((result.exit_code == 1 || result.exit_code == 2));
  CHECK(result.err.find(c.line) != std::string::npos);
}

TEST_CASE("An answer ends before its stop string, on the screen and in the object") {
  const auto model = test::sample_model();
  const std::string all = kvscope_run(words("run", model, {"--prompt", "one two", "--max-tokens", "12"})).out;
  REQUIRE(all.size() > 20);
  // A text across the border of two tokens, and one that never comes.
  const std::string stop = all.substr(8, 6);
  const std::vector<std::string> more = {"--prompt", "one two", "--max-tokens", "12", "--stop", stop, "--stop", "\x01"};
  const auto result = kvscope_run(words("run", model, more));
  CHECK(result.out == all.substr(0, all.find(stop)) + "\n");
  std::vector<std::string> as_json = more;
  as_json.push_back("--json");
  const json object = last_object(kvscope_run(words("run", model, as_json)));
  CHECK(object["text"] == all.substr(0, all.find(stop)));
  CHECK(object["ids"].size() < 12);
  const std::vector<std::string> without = {"--prompt", "one two", "--max-tokens", "12", "--stop", "\x01"};
  CHECK(kvscope_run(words("run", model, without)).out == all);
}

TEST_CASE("capture takes conversations, and names them where only raw text can be") {
  const TemporaryFolder folder;
  write_model(folder, "Qwen3");
  std::ofstream(folder / "p.jsonl") << R"({"messages": [{"role": "user", "content": "one"}, {"role": "assistant", )"
                                    << R"("content": "two"}, {"role": "user", "content": "three"}]})"
                                    << "\n"
                                    << R"({"prompt": "four"})"
                                    << "\n";
  const std::string prompts = (folder / "p.jsonl").string(), trace = (folder / "t.h5").string();
  const auto result =
      kvscope_run({"capture", folder.path().string(), prompts, "-o", trace, "--engine", test::fake_engine().string(),
                   "--max-tokens", "2", "--system", "be brief", "--json", "--quiet"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(json::parse(result.out)["runs"] == 2);
  check_error_line(kvscope_run({"capture", folder.path().string(), prompts, "-o", (folder / "u.h5").string(), "--raw",
                                "--engine", test::fake_engine().string(), "--quiet"}),
                   1, "p.jsonl: prompt 1 is a conversation");
}
