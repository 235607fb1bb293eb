// kvscope capture reads all prompts before it decodes one: what is no prompt is named by its line.

#include "tests/app/capture_support.h"
#include "tests/support/golden.h"

using namespace kvscope;
using namespace kvscope::test;

namespace {

/// A list whose second prompt does not fit the fake engine's 2048 positions.
void write_long_prompt(const TemporaryFolder& folder) {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += " word";
  std::ofstream(folder / "p.jsonl") << json{{"prompt", prompt_of(0)}}.dump() << "\n\n"
                                    << json{{"prompt", text}}.dump() << "\n"
                                    << json{{"prompt", prompt_of(2)}}.dump() << "\n";
}

/// A model's folder with the tokenizer of Qwen2's golden file; no weights.
void write_tokenizer(const TemporaryFolder& folder) {
  const json golden = read_golden("tests/core/golden/tokenizer_qwen2.json");
  std::ofstream(folder / "tokenizer.json") << golden["tokenizer"].dump();
}

}  // namespace

TEST_CASE("capture names a prompt that does not fit by its line, before it decodes any") {
  const TemporaryFolder folder;
  write_long_prompt(folder);
  const auto result = Capture{folder, "t.h5", {"--quiet"}}.run();
  check_error_line(result, 2, "p.jsonl:3: prompt 1: ");
  CHECK(result.err.find("tokens; expected at most 2048, the model's context; hint: --skip-bad") != std::string::npos);
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("capture names an empty prompt by its line") {
  const TemporaryFolder folder;
  std::ofstream(folder / "p.jsonl") << R"({"prompt": "one"})"
                                    << "\n"
                                    << R"({"prompt": ""})"
                                    << "\n";
  check_error_line(Capture{folder, "t.h5", {"--quiet"}}.run(), 2, "p.jsonl:2: prompt 1: no token");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("capture --skip-bad records what cannot be decoded as failed, and --resume agrees") {
  const TemporaryFolder folder;
  write_long_prompt(folder);
  const fs::path trace = folder / "t.h5";
  const auto result = Capture{folder, "t.h5", {"--skip-bad"}}.run();
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(result.err.find("warning: " + (folder / "p.jsonl").string() + ":3: ") != std::string::npos);
  CHECK(json::parse(result.out)["runs"] == 3);
  CHECK(json::parse(result.out)["status"] == "complete");
  REQUIRE(inspect_trace(trace).n_runs == 3);
  const RunRecord failed = load_trace(trace, 1);
  CHECK(failed.status == RunStatus::failed);
  CHECK(failed.message.find("expected at most 2048") != std::string::npos);
  CHECK(failed.n_tokens() == 0);
  CHECK(load_trace(trace, 2).status == RunStatus::complete);
  const std::string before = read_text(trace);
  for (const std::vector<std::string>& options :
       std::vector<std::vector<std::string>>{{"--resume"}, {"--resume", "--skip-bad"}}) {
    const auto again = Capture{folder, "t.h5", options}.run();
    INFO(again.err);
    CHECK(again.exit_code == 0);
    CHECK(json::parse(again.out)["resumed"] == 3);
    CHECK(read_text(trace) == before);
  }
  CHECK(kvscope_run({"inspect", trace.string()}).exit_code == 0);
  CHECK(kvscope_run({"export", trace.string(), "--run", "1", "-o", (folder / "1.csv").string()}).exit_code == 0);
  CHECK(kvscope_run({"heads", trace.string(), "--strategy", "b"}).exit_code == 0);
  CHECK(
      kvscope_run({"figure", "--preset", "kvpop-fig8", trace.string(), "-o", (folder / "8.svg").string()}).exit_code ==
      0);
  CHECK(kvscope_run({"merge", trace.string(), "-o", (folder / "m.h5").string()}).exit_code == 0);
}

TEST_CASE("capture --skip-bad gets past a prompt of any length, --resume too, and merge takes what it has written") {
  const TemporaryFolder folder;
  const std::size_t n_bytes = GENERATE(60'000, 200'000, 10'000'000);
  std::string text;
  while (text.size() < n_bytes) text += "word ";
  const std::vector<std::string> prompts = {"ok one", text, "between", text + "again", "last one"};
  std::ofstream file(folder / "p.jsonl");
  for (const std::string& prompt : prompts) file << json{{"prompt", prompt}}.dump() << "\n";
  file.close();
  const auto check = [&](const fs::path& trace) {
    REQUIRE(inspect_trace(trace).n_runs == 5);
    for (int i = 0; i < 5; ++i) {
      const RunRecord run = load_trace(trace, i);
      CHECK(run.prompt_text == prompts[static_cast<std::size_t>(i)]);
      CHECK((run.status == RunStatus::failed) == (i % 2 == 1));
    }
  };
  const std::vector<std::string> options = {"--skip-bad", "--quiet"};
  Capture slow{folder, "t.h5", options, " --slow " + std::to_string(100 * kSlowdown)};
  CHECK(slow.run_until_a_run().exit_code == -1);
  const Capture resume{folder, "t.h5", {"--skip-bad", "--quiet", "--resume"}};
  const auto result = resume.run();
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  check(folder / "t.h5");
  CHECK(resume.run().exit_code == 0);
  for (const char* shard : {"0/2", "1/2"}) {
    Capture part{folder, std::string("s") + shard[0] + ".h5", options};
    part.options.insert(part.options.end(), {"--shard", shard});
    REQUIRE(part.run().exit_code == 0);
  }
  for (const char* how : {"--copy", "--allow-missing"}) {
    const std::string merged = (folder / (std::string("m") + how + ".h5")).string();
    REQUIRE(
        kvscope_run({"merge", (folder / "s0.h5").string(), (folder / "s1.h5").string(), "-o", merged, how}).exit_code ==
        0);
    check(merged);
  }
  CHECK(kvscope_run({"inspect", (folder / "t.h5").string(), "--json"}).exit_code == 0);
}

TEST_CASE("capture --skip-bad gets past a long prompt that only the engine can count") {
  const TemporaryFolder folder;
  std::ofstream(folder / "p.jsonl") << json{{"prompt", "ok"}}.dump() << "\n"
                                    << json{{"prompt", std::string(300'000, ' ') + "x"}}.dump() << "\n";
  const auto result = Capture{folder, "t.h5", {"--skip-bad", "--quiet"}}.run();
  INFO(result.err);
  CHECK(result.exit_code == 0);
  CHECK(load_trace(folder / "t.h5", 1).prompt_text.size() == 300'001);
}

TEST_CASE("capture takes a byte order mark off a text, and refuses what is no text by its line") {
  const TemporaryFolder folder;
  const auto capture = [&](const std::string& bytes) {
    std::ofstream(folder / "p.txt", std::ios::binary) << bytes;
    return kvscope_run({"capture", sample_model().string(), (folder / "p.txt").string(), "-o",
                        (folder / "t.h5").string(), "--engine", fake_engine().string(), "--max-tokens", "1", "--quiet",
                        "--overwrite"});
  };
  check_error_line(capture(std::string("one\ntwo\0x\n", 10)), 2, "p.txt:2: a NUL byte");
  check_error_line(capture("one\ntwo\nthr\xE9\x65\n"), 2, "p.txt:3: byte 11 is not UTF-8");
  check_error_line(capture(std::string("\xFF\xFEo\0n\0", 6)), 2, "p.txt:1: UTF-16; expected text in UTF-8");
  check_error_line(capture(std::string("o\0n\0e\0", 6)), 2, "p.txt:1: a NUL byte");
  REQUIRE(capture("\xEF\xBB\xBFone\ntwo\n").exit_code == 0);
  CHECK(load_trace(folder / "t.h5", 0).prompt_text == "one");
  check_error_line(kvscope_run({"run", sample_model().string(), "--prompt-file", (folder / "t.h5").string(), "--engine",
                                fake_engine().string(), "--quiet"}),
                   2, "t.h5:1: ");
}

TEST_CASE("A chat template that is refused refuses a chat alone: a plain run, capture and tokenize go on") {
  const TemporaryFolder folder;
  write_tokenizer(folder);
  const fs::path config = folder / "tokenizer_config.json";
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"run", folder.path().string(), "--prompt", "hello", "--engine", fake_engine().string(),
                               "--max-tokens", "1"});
    return kvscope_run(more);
  };
  const auto check = [&](const std::string& file) {
    const auto chat = kvscope_run({"tokenize", folder.path().string(), "--chat", "--text", "x"});
    check_error_line(chat, 2, file + ": ");
    CHECK(chat.err.find("; hint: ") != std::string::npos);
    CHECK(run({"--quiet"}).exit_code == 0);
    const auto plain = run({}), raw = run({"--raw"});
    CHECK(plain.exit_code == 0);
    CHECK(plain.out == raw.out);
    CHECK(plain.err.find("warning: " + (folder / file).string() + ": ") != std::string::npos);
    CHECK(plain.err.find("hint: the prompt is used as raw text, as with --raw") != std::string::npos);
    CHECK(raw.err.find("warning") == std::string::npos);  // it needs no template
    CHECK(kvscope_run({"tokenize", folder.path().string(), "--text", "x"}).exit_code == 0);
    std::ofstream(folder / "p.txt") << "one\ntwo\n";
    const auto captured =
        kvscope_run({"capture", folder.path().string(), (folder / "p.txt").string(), "-o", (folder / "t.h5").string(),
                     "--overwrite", "--engine", fake_engine().string(), "--max-tokens", "1", "--quiet"});
    INFO(captured.err);
    CHECK(captured.exit_code == 0);
  };
  for (const char* bytes :
       {"", "{\"chat_template\": \"x", "<!doctype html>", "[]", "{\"chat_template\": 7}", "{\"chat_template\": []}",
        "{\"chat_template\": {\"tool_use\": \"x\"}}", "{\"chat_template\": \"\xE9\"}", "{\"a\": 1, \"a\": 2}",
        "{\"chat_template\": \"{{ messages.x.y }}\"}", "{\"chat_template\": \"{{ bos_token\"}"}) {
    CAPTURE(bytes);
    std::ofstream(config) << bytes;
    check("tokenizer_config.json");
  }
  fs::remove(config);
  std::ofstream(folder / "chat_template.jinja") << "{% include 'x' %}";
  check("chat_template.jinja");
  fs::remove(folder / "chat_template.jinja");
  fs::create_directory(config);
  check("tokenizer_config.json");
  fs::remove(config);
  CHECK(run({"--quiet"}).exit_code == 0);
}
