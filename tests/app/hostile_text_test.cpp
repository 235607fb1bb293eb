// What a person or a stranger types or pipes in, at any length: refused in a short line, in bounded memory, and never said twice.

#include "tests/app/capture_support.h"
#include "tests/app/preload.h"

using namespace kvscope;
using namespace kvscope::test;

namespace {

using Words = std::vector<std::string>;

Result shell(const std::string& line, const fs::path& folder = {}) {
  return test::run({.argv = {"/bin/sh", "-c", line}, .folder = folder});
}

std::string quoted(const fs::path& path) { return "'" + path.string() + "'"; }

/// Every line of it, and nothing that steers a terminal.
void check_lines(const Result& result) {
  std::size_t longest = 0, at = 0;
  for (std::size_t end; (end = result.err.find('\n', at)) != std::string::npos; at = end + 1)
    longest = std::max(longest, end - at);
  INFO(result.err.substr(0, 3000));
  CHECK(longest <= 400);
  for (const char c : result.err) REQUIRE((c == '\n' || static_cast<unsigned char>(c) >= 0x20));
}

void check_usage(const Words& words, const std::string& contains) {
  const Result result = kvscope_run(words);
  check_error_line(result, 1, contains);
  check_lines(result);
}

}  // namespace

TEST_CASE("Standard input has the limit of a file, for each command that reads it") {
  const std::string model = quoted(sample_model()), engine = " --engine " + quoted(fake_engine()) + " --quiet";
  const std::string program = quoted(test::kvscope());
  const std::string source = GENERATE("cat /dev/zero", "yes");
  // A sanitizer reserves terabytes of addresses for its own tables.
  const std::string limit = has_own_malloc() ? "" : "ulimit -v 3000000; ";
  for (const std::string& words :
       {" tokenize " + model + " --text-file -", " run " + model + " --prompt-file -" + engine,
        " score " + model + " --text-file -" + engine}) {
    const Result result = shell(limit + source + " | " + program + words);
    CAPTURE(words);
    check_error_line(result, 2, "standard input: more than 67108864 bytes");
    CHECK(result.max_rss_bytes < (std::int64_t{400} << 20) * kShadow);
  }
}

TEST_CASE("Standard input is read to its end, however it comes in pieces") {
  const Result result = shell("(printf 'one '; sleep 0.2; printf 'two') | " + quoted(test::kvscope()) + " tokenize " +
                              quoted(sample_model()) + " --text-file - --json");
  REQUIRE(result.exit_code == 0);
  const json said = json::parse(result.out);
  std::string text;
  for (const json& piece : said["pieces"]) text += piece.get<std::string>();
  CHECK(text == "one two");
}

TEST_CASE("What says the same thing twice is refused") {
  const std::string model = sample_model().string();
  const auto both = [](const std::string& a, const std::string& b) { return a + " and " + b + ": both given"; };
  check_usage({"run", model, "--prompt", "x", "--prompt-ids", "1"}, both("--prompt", "--prompt-ids"));
  check_usage({"run", model, "--prompt-file", "x", "--prompt-ids", "1"}, both("--prompt-file", "--prompt-ids"));
  check_usage({"run", model, "--prompt", "x", "--prompt-file", "x"}, "both given");
  check_usage({"run", model, "--prompt", "x", "--oracle", "mass=max", "--no-oracle"}, both("--oracle", "--no-oracle"));
  check_usage({"run", model, "--prompt", "x", "--title", "t"}, "--title: no --prompt-ids");
  check_usage({"heads", "a.h5", "--share", "0.5", "--count", "2"}, both("--share", "--count"));
  check_usage({"eval", model, "--json", "--format", "latex"}, both("--json", "--format"));
  check_usage({"compare", "a.h5", "--policy", "tova", "--forced", "--chunk", "2"}, both("--forced", "--chunk"));
  check_usage({"bench", "decode", "--model", model, "--shape", "qwen3-8b"}, both("--model", "--shape"));
  check_usage({"train", "r.json", "--data", "d", "-o", "o", "--resume", "--overwrite"},
              both("--resume", "--overwrite"));
  check_usage({"figure", "--preset", "kvpop-fig6", "a.h5", "-o", "f.svg", "--layer", "1", "--set", "layer=2"},
              "\"layer\" is given twice");
  check_usage({"figure", "--preset", "kvpop-fig6", "a.h5", "-o", "f.svg", "--set", "q=1", "--set", "q=2"},
              "\"q\" is given twice");
}

TEST_CASE("A run by its tokens is called by its title") {
  const TemporaryFolder folder;
  const std::string trace = (folder / "t.h5").string();
  const Result result =
      kvscope_run({"run", sample_model().string(), "--prompt-ids", "5,6", "--title", "two tokens", "--engine",
                   fake_engine().string(), "--max-tokens", "1", "--trace", trace, "--quiet"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(load_trace(trace, 0).prompt_text == "two tokens");
}

TEST_CASE("No line of an error is longer than 400 characters, whatever it repeats") {
  const TemporaryFolder folder;
  const std::string model = sample_model().string(), digits(3000, '7'),
                    nasty = "a\x1b[31m\n" + std::string(3000, 'x') + "\x07";
  const auto recipe = [&](const json& changed) {
    json recipe = {{"model", model}, {"texts", {"a.txt"}}, {"policies", {"tova:keep=50%"}}};
    recipe.merge_patch(changed);
    std::ofstream(folder / "a.txt") << "a text";
    std::ofstream(folder / "r.json") << recipe;
    return Words{"sweep", (folder / "r.json").string(), "-o", (folder / "s.h5").string(), "--engine", "exit 1"};
  };
  const Words lines[] = {{"run", model, "--prompt", "x", "--oracle", "mass=" + digits},
                         {"run", model, "--prompt", "x", "--policy", nasty},
                         {"run", model, "--prompt", "x", "--policy", "tova:" + digits + "=1"},
                         {"run", model, "--prompt", "x", "--temperature", digits},
                         {"run", model, "--prompt", "x", "--change", nasty},
                         {"run", model, "--prompt", "x", nasty},
                         {"run", nasty, "--prompt", "x"},
                         {"run", model, "--prompt-ids", digits},
                         {"--" + nasty},
                         {nasty},
                         {"inspect", nasty},
                         {"export", "a.h5", "-o", nasty},
                         {"heads", "a.h5", "--export", nasty},
                         {"figure", "--preset", nasty, "a.h5", "-o", "a.svg"},
                         {"figure", "--preset", "kvpop-fig6", "a.h5", "-o", "a.svg", "--set", nasty + "=" + nasty},
                         {"gate", "convert", nasty, "-o", "x"},
                         {"policies", nasty}};
  for (const Words& words : lines) {
    const Result result = kvscope_run(words);
    CAPTURE(words[0], words.size());
    CHECK((result.exit_code == 1 || result.exit_code == 2));
    check_lines(result);
  }
  for (const json& changed :
       {json{{"model", digits}}, json{{"texts", {digits}}}, json{{"policies", {nasty}}}, json{{nasty, 1}},
        json{{"policies", {{{"policy", "tova"}, {"axes", {{nasty, {1}}}}}}}}, json{{"cost", nasty}}}) {
    const Result result = kvscope_run(recipe(changed));
    CAPTURE(changed.dump().substr(0, 60), result.err);
    CHECK((result.exit_code == 2 || result.exit_code == 3));  // 3: an engine would say what is no model
    check_lines(result);
  }
}

TEST_CASE("An engine's last words are one short line") {
  for (const char* said : {"head -c 3000 /dev/zero >&2; exit 1", "yes x | head -c 3000 | tr '\\n' y >&2; exit 1",
                           "printf '\\033[31mred\\a' >&2; exit 1"}) {
    const Result result = kvscope_run({"run", sample_model().string(), "--prompt", "x", "--engine", said});
    check_error_line(result, 3, "engine: it stopped");
    check_lines(result);
  }
}

TEST_CASE("A sweep's recipe with a value of another type is refused by its key") {
  const TemporaryFolder folder;
  std::ofstream(folder / "a.txt") << "a text";
  const json changes = {{"name", 0},       {"note", true},    {"pieces", nullptr},  {"tasks", nullptr},
                        {"chat", nullptr}, {"cost", nullptr}, {"matched", nullptr}, {"device", 1}};
  for (const auto& [key, value] : changes.items()) {
    json recipe = {{"model", sample_model().string()}, {"texts", {"a.txt"}}, {"policies", {"tova:keep=50%"}}};
    recipe[key] = value;
    std::ofstream(folder / "r.json") << recipe;
    const Result result =
        kvscope_run({"sweep", (folder / "r.json").string(), "-o", (folder / "s.h5").string(), "--engine", "exit 1"});
    check_error_line(result, 2, "r.json: " + key + ": ");
  }
}

TEST_CASE("A machine without a thread, or a folder that was removed, is said in plain words with exit code 3") {
  const TemporaryFolder folder;
  const std::string run = quoted(test::kvscope()) + " run " + quoted(sample_model()) + " --prompt x --quiet";
  if (!has_own_malloc()) {
    const Result no_thread = shell("ulimit -v 51200; " + run + " --engine 'sleep 9'");
    INFO(no_thread.err);
    CHECK(no_thread.exit_code == 3);
    CHECK((no_thread.err.find("a thread could not be started") != std::string::npos ||
           no_thread.err.find("out of memory") != std::string::npos));
  }
  if (real_engine().empty()) return;
  fs::create_directory(folder / "gone");
  const Result removed = shell("cd " + quoted(folder / "gone") + " && rmdir " + quoted(folder / "gone") + " && " + run);
  check_error_line(removed, 3, "the current folder: it no longer exists; hint: change to a folder that exists");
}
