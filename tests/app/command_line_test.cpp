// The command line as a shell sees it: stdout, stderr, exit codes. Every test runs the real program.

#include "engine/core/record/command_line.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "app/cli/command_list.h"
#include "engine/core/policy/policy_text.h"
#include "engine/core/study/measure/output_error.h"
#include "engine/core/trace/trace_file.h"
#include "tests/app/process.h"
#include "tests/support/folders.h"
#include "tests/support/random_run.h"
#include "tests/support/skip.h"
#include "views/figure/recipe.h"

using namespace kvscope;
using nlohmann::json;
using test::kvscope_run;
using test::TemporaryFolder;

namespace {

const std::string kPrompt = "the cache keeps 12 34 56 and forgets the rest of what it was told a while ago ";

std::string long_prompt() {
  std::string text;
  for (int i = 0; i < 16; ++i) text += kPrompt;
  return text;
}

std::vector<std::string> run_words(const std::vector<std::string>& more) {
  std::vector<std::string> words = {"run", test::sample_model().string(), "--engine", test::fake_engine().string(),
                                    "--quiet"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

json last_json_line(const std::string& text) {
  const auto end = text.find_last_not_of('\n');
  REQUIRE(end != std::string::npos);
  const auto begin = text.rfind('\n', end);
  return json::parse(text.substr(begin == std::string::npos ? 0 : begin + 1,
                                 end - (begin == std::string::npos ? -1 : static_cast<long>(begin))));
}

// One line that begins with "error: ", as the contract has it.
void check_error_line(const test::Result& result, int exit_code, const std::string& contains) {
  INFO(result.err);
  CHECK(result.exit_code == exit_code);
  CHECK(result.err.starts_with("error: "));
  CHECK(test::count_lines(result.err) == 1);
  CHECK(result.err.find(contains) != std::string::npos);
}

std::filesystem::path make_trace(const TemporaryFolder& folder, const std::string& name = "a.h5") {
  const auto path = folder / name;
  const auto result = kvscope_run(run_words(
      {"--prompt", long_prompt(), "--policy", "kvpop:keep=40%", "--max-tokens", "12", "--trace", path.string()}));
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return path;
}

}  // namespace

TEST_CASE("kvscope --help lists every command and costs less than 50 ms of CPU") {
  const auto result = kvscope_run({"--help"});
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
  for (const app::CommandSpec* spec : app::command_list()) {
    CHECK(result.out.find("\n  " + std::string(spec->name) + " ") != std::string::npos);
  }
  CHECK(result.out.find("Exit codes: 0 done, 1 usage, 2 bad input, 3 resource") != std::string::npos);
  // CPU time, not wall time: a loaded machine makes the wall clock say nothing. The best of five.
  double best = result.cpu_seconds;
  for (int i = 0; i < 4; ++i) best = std::min(best, kvscope_run({"--help"}).cpu_seconds);
  CHECK(best < (test::kSlowdown > 1 ? 0.5 : 0.05));  // a sanitizer's own start alone takes 0.1 s
}

TEST_CASE("kvscope loads neither LibTorch nor CUDA") {
  const auto result = test::run({.argv = {"/usr/bin/ldd", test::kvscope().string()}});
  REQUIRE(result.exit_code == 0);
  for (const char* library : {"libtorch", "libc10", "libcuda", "libnccl"})
    CHECK(result.out.find(library) == std::string::npos);
}

TEST_CASE("Every command has a help of the same build, with an example that begins with kvscope") {
  for (const app::CommandSpec* spec : app::command_list()) {
    const std::string name(spec->name);
    const auto result = kvscope_run({name, "--help"});
    INFO(name);
    CHECK(result.exit_code == 0);
    CHECK(result.out.starts_with("usage: kvscope " + name));
    CHECK(result.out.find("\noptions:\n") != std::string::npos);
    CHECK(result.out.find("\nexample:\n  kvscope " + name) != std::string::npos);
    for (const app::OptionSpec& option : spec->options)
      CHECK(result.out.find("  " + app::dashed(option.name)) != std::string::npos);
  }
}

TEST_CASE("Behind any option of the window --help is the help, and nothing is opened") {
  const auto help = kvscope_run({"--help"});
  for (const std::vector<std::string>& words : {std::vector<std::string>{"--bench-ui", "--help"}, {"a.h5", "--help"}}) {
    const auto result = kvscope_run(words);
    CHECK(result.exit_code == 0);
    CHECK(result.out == help.out);
  }
  check_error_line(kvscope_run({"--lihgt"}), 1, "did you mean --light? see kvscope --help");
}

TEST_CASE("Every help fits a screen of 44 lines and 100 columns") {
  std::vector<std::vector<std::string>> calls = {{"--help"}};
  for (const app::CommandSpec* spec : app::command_list()) calls.push_back({std::string(spec->name), "--help"});
  for (const PolicyInfo& policy : policy_list()) calls.push_back({"policies", std::string(policy.name)});
  for (const auto& words : calls) {
    const auto result = kvscope_run(words);
    INFO(words.front() << ' ' << words.back() << '\n' << result.out);
    // The list of commands may grow: its lines do not count.
    const int n_listed = words.size() == 1 ? static_cast<int>(app::command_list().size()) : 0;
    CHECK(test::count_lines(result.out) - n_listed <= 44);
    std::istringstream lines(result.out);
    std::size_t widest = 0;
    for (std::string line; std::getline(lines, line);) widest = std::max(widest, line.size());
    CHECK(widest <= 100);
  }
}

TEST_CASE("kvscope policies says of each policy what it declares") {
  const auto all = kvscope_run({"policies"});
  CHECK(all.exit_code == 0);
  CHECK(test::count_lines(all.out) == static_cast<int>(policy_list().size()));
  for (const PolicyInfo& policy : policy_list()) {
    const std::string name(policy.name);
    INFO(name);
    CHECK(all.out.find("  " + name + " ") != std::string::npos);
    const auto one = kvscope_run({"policies", name});
    CHECK(one.out.starts_with(name + ": " + std::string(policy.title) + "\n"));
    for (const ParameterInfo& parameter : policy.parameters)
      CHECK(one.out.find("\n  " + std::string(parameter.name) + "=") != std::string::npos);
    const json object = last_json_line(kvscope_run({"policies", name, "--json"}).out);
    CHECK(object["definition"] == std::string(policy.definition));
    CHECK(object["parameters"].size() == policy.parameters.size());
  }
  check_error_line(kvscope_run({"policies", "kvpopp"}), 1, "did you mean kvpop?");
}

TEST_CASE("A typing error is named with what was meant") {
  check_error_line(kvscope_run({"rnu"}), 1, "did you mean kvscope run?");
  check_error_line(kvscope_run({"run", "x", "--promt", "y"}), 1, "--promt: unknown option of kvscope run");
  check_error_line(kvscope_run({"run", "x", "--promt", "y"}), 1, "did you mean --prompt?");
  check_error_line(kvscope_run({"run", "x", "--max-tokens"}), 1, "--max-tokens: no value given; expected N");
  check_error_line(kvscope_run({"run"}), 1, "too few arguments");
  check_error_line(kvscope_run({"doctor", "extra"}), 1, "extra: one argument too many");
  check_error_line(kvscope_run({"--nonsense"}), 1, "--nonsense");
  // A model's name opens the window on it: it is the window that does not know the option.
  check_error_line(kvscope_run({"kvscope-tiny", "--nonsense"}), 1, "--nonsense: unknown option");
  check_error_line(kvscope_run({"kvscope-tinny"}), 1, "kvscope-tinny: neither a command nor a file");
}

TEST_CASE("Numbers out of range name the option and the range") {
  const std::string value = GENERATE("-1", "1.5", "4x", "", "99999999999999999999", "nan");
  check_error_line(kvscope_run(run_words({"--prompt", "x", "--max-tokens", value})), 1,
                   "--max-tokens: '" + value + "'");
}

TEST_CASE("An unknown policy or key lists what exists") {
  check_error_line(kvscope_run(run_words({"--prompt", "x", "--policy", "kvpup"})), 1, "kvpop");
  check_error_line(kvscope_run(run_words({"--prompt", "x", "--policy", "kvpop:budgit=5"})), 1, "budget");
}

TEST_CASE("Missing and foreign files are one line and exit code 2") {
  const TemporaryFolder folder;
  std::ofstream(folder / "text.h5") << "this is no trace";
  std::ofstream(folder / "broken.json") << "{";
  check_error_line(kvscope_run({"run", "no-such-model", "--prompt", "x"}), 2, "no-such-model: no such folder");
  check_error_line(kvscope_run(run_words({"--prompt", "x", "--trace", ""})), 2, "not a file name");
  check_error_line(kvscope_run({"inspect", "no-such-file"}), 2, "no-such-file");
  check_error_line(kvscope_run({"inspect", (folder / "text.h5").string()}), 2, "text.h5");
  check_error_line(kvscope_run({"heads", (folder / "none.h5").string()}), 2, "none.h5");
  check_error_line(kvscope_run({"figure", (folder / "broken.json").string(), "-o", "x.pdf"}), 2, "broken.json");
  check_error_line(kvscope_run({"tokenize", folder.path().string(), "--text", "x"}), 2, "tokenizer.json");
  check_error_line(kvscope_run({"no-such-trace.h5"}), 2, "no-such-trace.h5");
}

TEST_CASE("inspect says of a trace how many pages were read, how the policy changed and which oracle it was held to",
          "[cli]") {
  const TemporaryFolder folder;
  const auto trace = folder / "changed.h5";
  RunRecord run = test::random_run(1, {.page_reads = true, .n_changes = 2});
  run.oracle.look_ahead = 32;
  save_trace(trace, run, false);
  const auto inspected = kvscope_run({"inspect", trace.string(), "--json"});
  REQUIRE(inspected.exit_code == 0);
  const json object = json::parse(inspected.out);
  CHECK(object["page_reads"] == run.reads.size());
  CHECK(object["runs_with_changes"] == 1);
  CHECK(object["created_by"].get<std::string>().starts_with("kvscope "));
  CHECK(object["git_revision"] != "");
  const json& first = object["first_run"];
  CHECK(first["oracle"] == "agg=max,mass=mean,lse=dense,ahead=32");
  CHECK(first["page_reads"] == run.reads.size());
  REQUIRE(first["changes"].size() == 2);
  CHECK(first["changes"][0] == "from query 120 on: " + run.changes[0].policy.to_string());
  CHECK_THAT(kvscope_run({"inspect", trace.string()}).out, Catch::Contains("from query 120 on: top-k:"));
  CHECK_THAT(kvscope_run({"what-if", trace.string(), "kvpop:budget=50,window=16"}).out,
             Catch::Contains("the preview uses one policy for the whole run"));
}

TEST_CASE("inspect says of a run that was cancelled how far it came, and why it has no oracle", "[cli]") {
  const TemporaryFolder folder;
  RunRecord run = test::random_run(1, {.n_new = 5, .oracle = false});
  const auto inspect = [&](const char* name) {
    save_trace(folder / name, run, false);
    return std::pair{json::parse(kvscope_run({"inspect", (folder / name).string(), "--json"}).out),
                     kvscope_run({"inspect", (folder / name).string()}).out};
  };
  run.n_positions = 136;
  const auto [whole, whole_text] = inspect("whole.h5");
  CHECK(whole["ended"] == json{{"complete", 1}});
  CHECK(whole["first_run"]["ended"] == "complete after 125 of at most 136 tokens, 120 of them the prompt");
  CHECK_THAT(whole_text, Catch::Contains("none: the run recorded no future attention"));
  run.status = RunStatus::cancelled;
  const auto [cut, cut_text] = inspect("cut.h5");
  const std::string ended = "cancelled after 125 of 136 tokens, 120 of them the prompt";
  CHECK(cut["ended"] == json{{"run 0", ended}});
  CHECK(cut["first_run"]["ended"] == ended);
  CHECK_THAT(cut_text, Catch::Contains("run 0          " + ended) && Catch::Contains("none: the run was " + ended));
  CHECK_THAT(cut_text, !Catch::Contains("status"));
}

TEST_CASE("inspect says of a trace what eviction did to each layer's output, and how that is defined", "[cli]") {
  const TemporaryFolder folder;
  RunRecord run = test::random_run(1);
  const auto inspect = [&](const char* name) {
    save_trace(folder / name, run, false);
    return json::parse(kvscope_run({"inspect", (folder / name).string(), "--json"}).out)["first_run"]["output_error"];
  };
  CHECK(inspect("without.h5") == "not measured");
  run = test::random_run(1, {.output_error = true});
  const json error = inspect("with.h5");
  REQUIRE(error["by_layer"].size() == 2);
  CHECK(error["by_layer"][1] == output_error_curve(run, 1).mean.value);
  CHECK(error["queries"] == json{164, 164});  // 180 queries, a window of 16
  CHECK(error["heads"] == "Means over 164 queries of 4 heads; 2 heads lost nothing.");
  CHECK(error["definition"] == find_metric("output_error")->definition);
}

TEST_CASE("inspect says what a gate is: kind, shapes, parameters, threshold", "[cli]") {
  const std::string golden = test::in_source("tests/core/golden/wg_kv_parameters.pt");
  const auto result = kvscope_run({"inspect", golden, "--json"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const json gate = json::parse(result.out);
  CHECK(gate["kind"] == "gate");
  CHECK(gate["gate"] == "wg_kv");
  CHECK(gate["parameters"] == 260);
  CHECK(gate["threshold"] == 0.1);
  CHECK(gate["kept_if"] == "score > threshold");
  CHECK(gate["shapes"]["w1"] == json{2, 2, 6, 8});
  CHECK_THAT(kvscope_run({"inspect", golden}).out, Catch::Contains("w1             [2,2,6,8]"));

  const auto model = kvscope_run({"inspect", test::sample_model().string(), "--json"});
  REQUIRE(model.exit_code == 0);
  CHECK(json::parse(model.out)["kind"] == "model");
  CHECK(json::parse(model.out)["gate"]["gate"] == "kvpop_mlstm");

  const TemporaryFolder folder;
  std::ofstream(folder / "gate.pt") << "not a checkpoint";
  check_error_line(kvscope_run({"inspect", (folder / "gate.pt").string()}), 2, "gate.pt: not a ZIP archive");
}

TEST_CASE("Without a display the window says so and what works without one") {
  const auto result =
      test::run({.argv = {test::kvscope().string()}, .environment = {{"DISPLAY", ""}, {"WAYLAND_DISPLAY", ""}}});
  check_error_line(result, 3, "work without a window");
}

TEST_CASE("With Wayland alone the window names XWayland and DISPLAY") {
  const auto result = test::run(
      {.argv = {test::kvscope().string()}, .environment = {{"DISPLAY", ""}, {"WAYLAND_DISPLAY", "wayland-99"}}});
  check_error_line(result, 3, "XWayland, with DISPLAY set");
}

TEST_CASE("A broken or missing engine is exit code 3 with its last words") {
  const std::string model = test::sample_model().string();
  check_error_line(kvscope_run({"run", model, "--prompt", "x", "--engine", "echo oops >&2; exit 7"}), 3,
                   "exit code 7; its last message: oops");
  check_error_line(kvscope_run({"run", model, "--prompt", "x", "--engine", "echo this is no CBOR message at all"}), 3,
                   "engine");
  const std::string failing = test::fake_engine().string() + " --fail ";
  check_error_line(kvscope_run({"run", model, "--prompt", "x", "--quiet", "--engine", failing + "load"}), 2,
                   "told to fail at load");
  check_error_line(kvscope_run({"run", model, "--prompt", "x", "--quiet", "--engine", failing + "run"}), 3,
                   "told to fail at run");
}

TEST_CASE("An engine without LibTorch, or with another version of it, is one line with what to install") {
  const std::string model = test::sample_model().string();
  const auto run = [&](const std::string& words) {
    return kvscope_run({"run", model, "--prompt", "x", "--engine", "echo '" + words + "' >&2; exit 127"});
  };
  check_error_line(
      run("kvscope-engine: error while loading shared libraries: libtorch_cpu.so: cannot open shared object "
          "file: No such file or directory"),
      3, "LibTorch is missing: pip install 'kvscope[engine]'");
  check_error_line(run("kvscope-engine: symbol lookup error: kvscope-engine: undefined symbol: _ZN3c105ErrorD1Ev"), 3,
                   "this LibTorch has the wrong version");
}

TEST_CASE("run streams the answer to stdout and nothing else") {
  const auto result = kvscope_run(run_words({"--prompt", kPrompt, "--max-tokens", "6", "--seed", "3"}));
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
  CHECK(test::count_lines(result.out) == 1);
  CHECK(result.out.size() > 6);
  // The same seed, the same answer; another seed, another one.
  CHECK(kvscope_run(run_words({"--prompt", kPrompt, "--max-tokens", "6", "--seed", "3"})).out == result.out);
  CHECK(kvscope_run(run_words({"--prompt", kPrompt, "--max-tokens", "6", "--seed", "4"})).out != result.out);
}

TEST_CASE("run --json ends with one object that says all of the run") {
  const auto result = kvscope_run(
      run_words({"--prompt", kPrompt, "--max-tokens", "5", "--json", "--policy", "streaming:window=6,sinks=2"}));
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(test::count_lines(result.out) == 6);  // five tokens and the result
  const json object = last_json_line(result.out);
  CHECK(object["ids"].size() == 5);
  CHECK(object["prompt_ids"].size() > 10);
  CHECK(object["seed"] == 0);
  CHECK(object["status"] == "complete");
  CHECK(object["policy"].get<std::string>().starts_with("streaming:"));
  CHECK(object["timings"]["decode_steps"] == 5);
  std::string text;
  std::size_t begin = 0;
  for (int i = 0; i < 5; ++i) {
    const auto end = result.out.find('\n', begin);
    text += json::parse(result.out.substr(begin, end - begin))["piece"].get<std::string>();
    begin = end + 1;
  }
  CHECK(object["text"] == text);
}

TEST_CASE("run reads the tokens that are given, as prompt and as answer, and says what is no list of them") {
  const auto run = [](std::vector<std::string> words) {
    words.emplace_back("--json");
    return kvscope_run(run_words(words));
  };
  auto result = run({"--prompt-ids", "5,6,7", "--answer-ids", "8,9"});
  REQUIRE(result.exit_code == 0);
  CHECK(last_json_line(result.out)["prompt_ids"] == json{5, 6, 7});
  CHECK(last_json_line(result.out)["ids"] == json{8, 9});
  for (const char* wrong : {"", "5,", ",5", "5;6", "5,-6", "5, 6", "five", "5,99999999999"}) {
    CAPTURE(wrong);
    result = run({"--prompt-ids", wrong});
    CHECK(result.exit_code == 1);
    CHECK_THAT(result.err, Catch::Contains("--prompt-ids") && Catch::Contains("1,15,3"));
  }
  CHECK_THAT(run({"--messages", "[]", "--answer-ids", "1"}).err, Catch::Contains("--messages and --answer-ids"));
  CHECK_THAT(run({"--prompt", "a", "--chunk", "2", "--answer-ids", "1"}).err,
             Catch::Contains("--answer-ids and --chunk"));
}

TEST_CASE("Ctrl+C cancels a run, keeps its trace and exits with 130") {
  const TemporaryFolder folder;
  const auto trace = folder / "cut.h5";
  const auto result = test::run(
      {.argv = {test::kvscope().string(), "run", test::sample_model().string(), "--prompt", kPrompt, "--max-tokens",
                "400", "--engine", test::fake_engine().string() + " --slow " + std::to_string(40 * test::kSlowdown),
                "--trace", trace.string(), "--quiet"},
       .interrupt_after = 3 * test::kSlowdown});
  CHECK(result.exit_code == 130);
  const auto inspected = kvscope_run({"inspect", trace.string(), "--json"});
  REQUIRE(inspected.exit_code == 0);
  CHECK(json::parse(inspected.out)["runs"] == 1);
}

TEST_CASE("A trace is not overwritten unless that is asked for, and that is found out before decoding") {
  const TemporaryFolder folder;
  const auto trace = make_trace(folder);
  const auto before = test::read_text(trace);
  check_error_line(kvscope_run(run_words({"--prompt", kPrompt, "--trace", trace.string()})), 2, "it exists");
  CHECK(test::read_text(trace) == before);
  CHECK(kvscope_run(run_words({"--prompt", kPrompt, "--trace", trace.string(), "--overwrite"})).exit_code == 0);
  CHECK(test::read_text(trace) != before);
}

TEST_CASE("capture makes one trace of many prompts, in each format of prompts") {
  const TemporaryFolder folder;
  std::ofstream(folder / "p.jsonl") << R"({"prompt": "one two three"})"
                                    << "\n\n"
                                    << R"({"prompt": "four\nfive", "id": 7})"
                                    << "\n";
  std::ofstream(folder / "p.txt") << "one two three\nfour five\n\nsix\n";
  std::filesystem::create_directory(folder / "dir");
  std::ofstream(folder / "dir/a.txt") << "one\ntwo\n";
  const auto [prompts, n] = GENERATE(std::pair("p.jsonl", 2), std::pair("p.txt", 3), std::pair("dir", 1));
  const auto trace = folder / "t.h5";
  const auto result =
      kvscope_run({"capture", test::sample_model().string(), (folder / prompts).string(), "-o", trace.string(),
                   "--engine", test::fake_engine().string(), "--max-tokens", "4", "--json"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(json::parse(result.out)["runs"] == n);
  CHECK(json::parse(kvscope_run({"inspect", trace.string(), "--json"}).out)["runs"] == n);
  CHECK(result.err.find("capture 0/" + std::to_string(n)) !=
        std::string::npos);  // plain progress lines when stderr is no terminal
}

TEST_CASE("A bad line of prompts is named by file and number") {
  const TemporaryFolder folder;
  std::ofstream(folder / "p.jsonl") << R"({"prompt": "one"})"
                                    << "\n"
                                    << R"({"promt": "two"})"
                                    << "\n";
  check_error_line(kvscope_run({"capture", test::sample_model().string(), (folder / "p.jsonl").string(), "-o",
                                (folder / "t.h5").string()}),
                   2, "p.jsonl:2");
}

TEST_CASE("Ctrl+C finishes a capture: the runs that were done are in the file, exit code 130") {
  const TemporaryFolder folder;
  {
    std::ofstream prompts(folder / "p.txt");
    for (int i = 0; i < 200; ++i) prompts << "prompt number " << i << "\n";
  }
  const auto trace = folder / "t.h5";
  const auto result =
      test::run({.argv = {test::kvscope().string(), "capture", test::sample_model().string(),
                          (folder / "p.txt").string(), "-o", trace.string(), "--engine",
                          test::fake_engine().string() + " --slow 20", "--max-tokens", "4", "--json", "--quiet"},
                 .interrupt_when = [&] { return std::filesystem::exists(trace) && inspect_trace(trace).n_runs > 0; }});
  INFO(result.err);
  CHECK(result.exit_code == 130);
  const json summary = json::parse(result.out);
  CHECK(summary["status"] == "cancelled");
  CHECK(summary["runs"] >= 1);
  CHECK(summary["runs"] < 200);
  CHECK(json::parse(kvscope_run({"inspect", trace.string(), "--json"}).out)["runs"] == summary["runs"]);
}

TEST_CASE("score gives a log-probability for each token, null for the first, and their mean as nll") {
  const auto result = kvscope_run({"score", test::sample_model().string(), "--text", kPrompt, "--json", "--quiet",
                                   "--engine", test::fake_engine().string()});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const json object = json::parse(result.out);
  const auto& logprobs = object["logprobs"];
  REQUIRE(logprobs.size() == object["ids"].size());
  CHECK(logprobs[0].is_null());
  double sum = 0;
  for (std::size_t i = 1; i < logprobs.size(); ++i) sum -= logprobs[i].get<double>();
  CHECK(object["nll"].get<double>() ==
        Approx(sum / static_cast<double>(logprobs.size() - 1)).epsilon(1e-5));  // float32 sums
}

TEST_CASE("tokenize gives ids whose pieces join to the text") {
  const std::string text = GENERATE("The code of the amber falcon is 4821.\n", "  two  spaces, ünïcödé", "x");
  const auto result = kvscope_run({"tokenize", test::sample_model().string(), "--text", text, "--json"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const json object = json::parse(result.out);
  REQUIRE(object["ids"].size() == object["pieces"].size());
  std::string joined;
  for (const auto& piece : object["pieces"]) joined += piece.get<std::string>();
  if (joined.find("\xEF\xBF\xBD") == std::string::npos) CHECK(joined == text);  // no piece is a part of a character
}

TEST_CASE("figure writes the three formats with data and recipe, and its recipe makes the same bytes again") {
  const TemporaryFolder folder;
  const auto trace = make_trace(folder);
  const std::string extension = GENERATE("pdf", "svg", "png");
  const auto first = folder / ("fig." + extension), again = folder / ("again." + extension);
  const auto result = kvscope_run({"figure", "--preset", "kvpop-fig6", trace.string(), "-o", first.string(), "--json"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const json written = json::parse(result.out);
  for (const auto& file : written["files"]) CHECK(std::filesystem::file_size(file.get<std::string>()) > 100);
  const auto second = kvscope_run({"figure", (folder / "fig.json").string(), "-o", again.string()});
  INFO(second.err);
  REQUIRE(second.exit_code == 0);
  CHECK(test::read_text(first) == test::read_text(again));
}

TEST_CASE("figure --list names every preset, and those of runs are drawn from as many traces as they need") {
  const TemporaryFolder folder;
  const auto trace = make_trace(folder);
  const auto list = kvscope_run({"figure", "--list"});
  REQUIRE(list.exit_code == 0);
  REQUIRE(test::count_lines(list.out) == static_cast<int>(views::figure_presets().size()));
  for (const views::FigurePreset& preset : views::figure_presets()) {
    const std::string name(preset.name);
    CHECK_THAT(list.out, Catch::Contains(name + " "));
    if (preset.least_runs == 0) continue;  // of a study, or of other input too: figure_study_test.cpp
    std::vector<std::string> words = {"figure",   "--preset", name, "-o", (folder / (name + ".svg")).string(),
                                      "--no-data"};
    for (int i = 0; i < preset.least_runs; ++i) words.push_back(trace.string());
    const auto result = kvscope_run(words);
    INFO(name << ": " << result.err);
    CHECK(result.exit_code == 0);
  }
}

TEST_CASE("figure draws one token's attention from a trace and what score has printed, and nothing else") {
  const TemporaryFolder folder;
  const auto trace = make_trace(folder);
  const RunRecord run = load_trace(trace);
  const int token = 3, n_heads = run.model.n_heads;
  json scored = {{"ids", run.ids}, {"attention", {{"layer", 1}, {"tokens", json::array()}}}};
  json heads = json::array();
  for (int head = 0; head < n_heads; ++head)
    heads.push_back(std::vector<double>(run.ids.size() - token, 1.0 / (2 + head)));
  scored["attention"]["tokens"].push_back({{"token", token}, {"heads", heads}});
  const auto draw = [&](const json& object, const std::string& name = "a.json") {
    std::ofstream(folder / name) << object.dump();
    return kvscope_run({"figure", "--preset", "wgkv-fig3", trace.string(), (folder / name).string(), "-o",
                        (folder / "f.svg").string(), "--overwrite"});
  };
  const auto drawn = draw(scored);
  INFO(drawn.err);
  REQUIRE(drawn.exit_code == 0);
  CHECK_THAT(test::read_text(folder / "f.figure.csv"), Catch::Contains("first,last,mean,low,high"));
  const std::string first = test::read_text(folder / "f.svg");
  REQUIRE(kvscope_run({"figure", (folder / "f.json").string(), "-o", (folder / "g.svg").string()}).exit_code == 0);
  CHECK(test::read_text(folder / "g.svg") == first);  // the recipe has the numbers

  json other = scored, several = scored;
  other["ids"][0] = run.ids[0] + 1;
  several["attention"]["tokens"].push_back(several["attention"]["tokens"][0]);
  check_error_line(draw(other), 2, "another text than the trace's");
  check_error_line(draw(several), 2, "2 tokens; expected one");
  check_error_line(draw({{"ids", run.ids}}), 2, "no attention of a token");
  check_error_line(kvscope_run({"figure", "--preset", "wgkv-fig3", trace.string(), "-o", (folder / "h.svg").string()}),
                   1, "kvscope score MODEL --text-file FILE --attention LAYER:TOKEN --json");
}

TEST_CASE("heads exports DuoAttention's folder with as many ones as heads were chosen") {
  const TemporaryFolder folder;
  const auto trace = make_trace(folder);
  const auto out = folder / "heads";
  const auto result = kvscope_run({"heads", trace.string(), "--strategy", "c", "--count", "6", "--seed", "3",
                                   "--export", "duo:" + out.string(), "--json"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const json object = json::parse(result.out);
  CHECK(object["heads"] == 24);
  CHECK(object["selected"] == 6);
  CHECK(object["strategy"] == "c");
  CHECK(object["share"] == 0.25);
  CHECK(object["coverage"].get<double>() == Approx(0.25));  // a fixed budget: every head holds as many
  std::ifstream table(out / "full_attention_heads.tsv");
  double sum = 0, value;
  int n = 0;
  while (table >> value) sum += value, ++n;
  CHECK(n == 24);
  CHECK(sum == 6);
  const json config = json::parse(test::read_text(out / "config.json"));
  CHECK(config["sink_size"] == 4);
  CHECK(config["recent_size"] == 64);
  CHECK(config["full_heads"] == 6);
  check_error_line(kvscope_run({"heads", trace.string(), "--export", "tsv:" + out.string()}), 1, "duo:FOLDER");
}

TEST_CASE("heads of a fixed budget are refused by density, and every other strategy has its share and coverage") {
  const TemporaryFolder folder;
  const auto trace = make_trace(folder);
  const auto out = folder / "heads";
  check_error_line(kvscope_run({"heads", trace.string(), "--export", "duo:" + out.string()}), 2,
                   "every head keeps the same number of tokens");
  CHECK_FALSE(std::filesystem::exists(out));
  for (const char* name : {"a", "A", "b", "c"}) {
    const auto result = kvscope_run({"heads", trace.string(), "--strategy", name});
    INFO(name << ": " << result.err);
    CHECK(result.exit_code == 0);
    CHECK(result.out.find("of 24 heads global, share") != std::string::npos);
    CHECK(result.out.find("coverage") != std::string::npos);
  }
  check_error_line(kvscope_run({"heads", trace.string(), "--strategy", "e"}), 1, "a, b, c or d");
  check_error_line(kvscope_run({"heads", trace.string(), "--strategy", "a", "--share", "0.5"}), 1, "12 of 24 heads");
}

TEST_CASE("heads of thresholded KVpop scores come with a warning") {
  const TemporaryFolder folder;
  const auto trace = folder / "t.h5";
  const auto run = kvscope_run(run_words({"--prompt", long_prompt(), "--policy", "threshold:threshold=0.2,window=64",
                                          "--max-tokens", "4", "--trace", trace.string()}));
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  const auto result = kvscope_run({"heads", trace.string(), "--count", "6"});
  CHECK(result.exit_code == 0);
  CHECK(result.err.find("warning: the scores of kvpop_mlstm are not comparable across heads") != std::string::npos);
  CHECK(result.out.find("strategy d: 6 of 24 heads global, share 0.25") != std::string::npos);
}

TEST_CASE("what-if of the recorded policy changes nothing, a smaller budget keeps less") {
  const TemporaryFolder folder;
  const auto trace = make_trace(folder);
  const auto same = json::parse(kvscope_run({"what-if", trace.string(), "kvpop:keep=40%", "--json"}).out);
  CHECK(same["recorded"] == same["preview"]);
  const auto less = json::parse(kvscope_run({"what-if", trace.string(), "kvpop:keep=35%", "--json"}).out);
  CHECK(less["preview"]["density"].get<double>() < less["recorded"]["density"].get<double>());
}

TEST_CASE("Jobs print their rows and pass their arguments on") {
  const std::string engine = test::fake_engine().string();
  const auto plain = kvscope_run(
      {"bench", "decode", "--model", test::sample_model().string(), "--repeats", "3", "--engine", engine, "--quiet"});
  CHECK(plain.exit_code == 0);
  CHECK(plain.out == "bench row 0\nbench row 1\nbench row 2\n");
  const auto result = kvscope_run({"bench", "decode", "--model", test::sample_model().string(), "--max-tokens", "5",
                                   "--engine", engine, "--json", "--quiet"});
  REQUIRE(result.exit_code == 0);
  const json object = last_json_line(result.out);
  CHECK(object["args"]["max_tokens"] == 5);
  CHECK(object["args"]["name"] == "decode");
  const auto prefill = kvscope_run({"bench", "prefill", "--model", test::sample_model().string(), "--chunk", "64",
                                    "--engine", engine, "--json", "--quiet"});
  REQUIRE(prefill.exit_code == 0);
  CHECK(last_json_line(prefill.out)["args"]["chunk"] == 64);
  const auto several = kvscope_run({"bench", "batch", "--shape", "qwen3-8b", "--policy", "full", "--policy", "tova",
                                    "--batch", "1,8", "--engine", engine, "--json", "--quiet"});
  REQUIRE(several.exit_code == 0);
  CHECK(last_json_line(several.out)["args"]["policy"] == json{"full", "tova"});
  CHECK(last_json_line(several.out)["args"]["batch"] == "1,8");
  check_error_line(kvscope_run({"bench", "sorting", "--engine", engine}), 1, "no such benchmark");
}

TEST_CASE("kvscope bench scoreboard names what it cannot measure, with the command for it") {
  const std::string engine = test::fake_engine().string();
  const auto board = kvscope_run({"bench", "scoreboard", "--engine", engine, "--json", "--quiet"});
  INFO(board.err);
  REQUIRE(board.exit_code == 0);
  const json missing = last_json_line(board.out)["missing"];
  REQUIRE(missing.size() >= 5);
  CHECK(missing[0] == json{{"row", "ui"}, {"reason", "needs a display"}, {"command", "kvscope bench ui"}});
  for (const json& row : missing) CHECK_FALSE(row["command"].get<std::string>().empty());
  const auto text = kvscope_run({"bench", "scoreboard", "--engine", engine, "--quiet"});
  CHECK_THAT(text.out, Catch::Contains("\nnot measured here:\n  ui: needs a display\n    kvscope bench ui\n") &&
                           Catch::Contains("peer_transformers.py"));
  check_error_line(kvscope_run({"bench", "scoreboard", "--shape", "qwen3-8b", "--engine", engine}), 1,
                   "--shape: not an option of bench scoreboard");
  check_error_line(kvscope_run({"bench", "ui", "--batch", "2"}), 1, "--batch: not an option of bench ui");
}

TEST_CASE("The real engine answers over the same command line") {
  if (test::real_engine().empty() || !std::filesystem::exists(test::sample_model() / "model.safetensors")) {
    return test::skip("kvscope-engine or the sample model is not built");
  }
  const auto result =
      kvscope_run({"run", test::sample_model().string(), "--prompt",
                   "\nNumbers: 12 57 31.\n\nReversed:", "--max-tokens", "4", "--json", "--quiet", "--device", "cpu"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const json object = last_json_line(result.out);
  CHECK(object["ids"].size() == 4);
  const auto tokens = json::parse(
      kvscope_run({"tokenize", test::sample_model().string(), "--text", "\nNumbers: 12 57 31.\n\nReversed:", "--json"})
          .out);
  CHECK(object["prompt_ids"] == tokens["ids"]);

  const TemporaryFolder folder;
  const auto trace = folder / "measured.h5";
  const auto measured = kvscope_run({"run", test::sample_model().string(), "--prompt",
                                     "\nNumbers: 12 57 31 18 44 90 25 36 71 12 57 31 18.\n\nReversed:", "--max-tokens",
                                     "4", "--policy", "streaming:sinks=2,window=8", "--quiet", "--device", "cpu",
                                     "--output-error", "--trace", trace.string()});
  INFO(measured.err);
  REQUIRE(measured.exit_code == 0);
  const RunRecord run = load_trace(trace);
  CHECK_THAT(command_line(run), Catch::Contains(" --output-error"));
  REQUIRE(run.output_error.n_queries() == run.queries());
  const double error = mean(head_metric(run, Metric::output_error, run.queries() - 1));
  CHECK(error > 0);
  CHECK(error < 1);
}

TEST_CASE("When the engine dies in mid-run, what was decoded is in the trace") {
  const TemporaryFolder folder;
  const auto trace = folder / "half.h5";
  const auto result =
      kvscope_run({"run", test::sample_model().string(), "--prompt", kPrompt, "--max-tokens", "40", "--quiet",
                   "--engine", test::fake_engine().string() + " --die-at-token 9", "--trace", trace.string()});
  check_error_line(result, 3, "killed by signal 9");
  const auto inspected = kvscope_run({"inspect", trace.string(), "--json"});
  INFO(inspected.err);
  REQUIRE(inspected.exit_code == 0);
  CHECK(json::parse(inspected.out)["runs"] == 1);
}
