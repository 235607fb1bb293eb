// kvscope capture --resume and --shard, kvscope merge: whatever happens on the way, the trace is that of one
// undisturbed capture.

#include "engine/core/support/shell_quote.h"
#include "engine/core/trace/trace_notes.h"
#include "tests/app/capture_support.h"
#include "tests/support/declarations.h"

using namespace kvscope;
using namespace kvscope::test;

TEST_CASE("capture --resume after Ctrl+C, a dead engine and kill -9 gives the undisturbed trace") {
  const TemporaryFolder folder;
  write_prompts(folder);
  const fs::path whole = undisturbed(folder);
  const std::string how = GENERATE("interrupted", "engine died", "killed");
  CAPTURE(how);
  // Five sleeps a prompt: about a second for all of them.
  Capture slow{folder, "t.h5", {"--resume", "--quiet"}, " --slow 30"};
  if (how == "interrupted") CHECK(slow.run_interrupted_at_a_run().exit_code == 130);
  if (how == "killed") CHECK(slow.run(-1, 0.7).exit_code == -1);
  if (how == "engine died") {
    slow.engine_options = " --die-at-token 2";
    check_error_line(slow.run(), 3, "killed by signal 9");
  }
  const int before = fs::exists(folder / "t.h5") ? inspect_trace(folder / "t.h5").n_runs : 0;
  CHECK(before < kPrompts);
  const auto result = Capture{folder, "t.h5", {"--resume"}}.run();
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const json summary = json::parse(result.out);
  CHECK(summary["resumed"] == before);
  CHECK(summary["runs"] == kPrompts);
  CHECK(summary["status"] == "complete");
  check_same_trace(folder / "t.h5", whole);
  for (const auto& entry : fs::directory_iterator(folder.path()))
    CHECK(entry.path().filename().string().front() != '.');
}

TEST_CASE("A capture that goes on counts its new tokens, and says that they are new") {
  const TemporaryFolder folder;
  write_prompts(folder);
  Capture{folder, "t.h5", {"--resume", "--quiet"}, " --slow 30"}.run_interrupted_at_a_run();
  REQUIRE(inspect_trace(folder / "t.h5").n_runs > 0);
  std::vector<std::string> words = Capture{folder, "t.h5", {"--resume"}}.words();
  std::erase(words, "--json");
  const auto spoken = kvscope_run(words);
  INFO(spoken.err);
  CHECK(spoken.exit_code == 0);
  CHECK(spoken.err.find(" new tokens\n") != std::string::npos);
}

TEST_CASE("capture --resume of a whole trace says so, leaves it as it is and exits with 0") {
  const TemporaryFolder folder;
  write_prompts(folder);
  const fs::path whole = undisturbed(folder);
  const std::string before = test::read_text(whole);
  Capture again{folder, "whole.h5", {"--resume"}};
  const auto result = again.run();
  CHECK(result.exit_code == 0);
  CHECK(json::parse(result.out)["resumed"] == kPrompts);
  CHECK(json::parse(result.out)["tokens"] == 0);
  CHECK(test::read_text(whole) == before);
  std::vector<std::string> words = again.words();
  std::erase(words, "--json");
  const auto spoken = kvscope_run(words);
  CHECK(spoken.exit_code == 0);
  CHECK(spoken.err.find("already complete: 7 of 7 prompts") != std::string::npos);
}

TEST_CASE("capture --resume names what is not as it was") {
  const TemporaryFolder folder;
  write_prompts(folder);
  const fs::path whole = undisturbed(folder);
  const std::string before = test::read_text(whole);
  Capture other{folder, "whole.h5", {"--resume", "--quiet"}};
  std::string expected;
  SECTION("an option") {
    other.max_tokens = 5;
    expected = "whole.h5: --max-tokens: --max-tokens 4; expected --max-tokens 5";
  }
  SECTION("the policy") {
    other.policy = "full";
    expected = "whole.h5: --policy: --policy kvpop:budget=12,sinks=2,window=4";
  }
  SECTION("the seed") {
    other.options.insert(other.options.end(), {"--seed", "3"});
    expected = "--seed 0; expected --seed 3";
  }
  SECTION("the sampling") {
    other.options.insert(other.options.end(), {"--temperature", "0.5"});
    expected = "no --temperature; expected --temperature 0.5";
  }
  SECTION("the shard") {
    other.options.insert(other.options.end(), {"--shard", "0/2"});
    expected = "--shard: 0/1; expected 0/2";
  }
  SECTION("a prompt") {
    write_prompts(folder, kPrompts, 3);
    expected = "prompt 3: \"prompt number 3";
  }
  SECTION("a prompt more") {
    write_prompts(folder, kPrompts + 1);
    expected = "prompts: 7 prompts";
  }
  SECTION("a prompt less") {
    write_prompts(folder, kPrompts - 1);
    expected = "prompt 6: not in this capture; expected one of 6 prompts";
  }
  check_error_line(other.run(), 2, expected);
  CHECK(test::read_text(whole) == before);
}

TEST_CASE("capture --resume refuses a method that has changed under its name, and takes one that has not") {
  const TemporaryFolder folder;
  write_prompts(folder);
  const auto with = [&](const char* field, const std::string& text) {
    json declaration = test::declared_json("fake.top_k", "Fake top_k", "top_k");
    if (*field != '\0') declaration[field] = text;
    const std::string offer = shell_quote(json{{"policies", {declaration}}}.dump());
    Capture capture{folder, "t.h5", {"--resume", "--quiet"}, " --declare top_k --offer " + offer};
    capture.policy = "fake.top_k:budget=12,sinks=2,window=4";
    return capture;
  };
  const std::string held = GENERATE("", "aaaaaaaaaaaa");
  Capture first = held.empty() ? with("", "") : with("revision", held);
  first.options = {"--limit", "3", "--quiet"};
  REQUIRE(first.run().exit_code == 0);
  const std::string before = test::read_text(folder / "t.h5");
  write_prompts(folder, 3);
  const std::string hint = "; hint: the method has changed; use another output file, or restore the method";
  if (!held.empty())
    check_error_line(with("revision", "bbbbbbbbbbbb").run(), 2,
                     "t.h5: policy fake.top_k: revision: \"aaaaaaaaaaaa\"; expected \"bbbbbbbbbbbb\", as the engine "
                     "declares it now" +
                         hint);
  check_error_line(with("definition", "Something else.").run(), 2, "t.h5: policy fake.top_k: ");
  CHECK(test::read_text(folder / "t.h5") == before);
  const auto same = (held.empty() ? with("revision", "bbbbbbbbbbbb") : with("revision", held)).run();
  INFO(same.err);
  CHECK(same.exit_code == 0);
}

TEST_CASE("capture --resume refuses another model, and what is no capture") {
  const TemporaryFolder folder;
  write_prompts(folder);
  RunRecord run = test::random_run(1);
  save_trace(folder / "single.h5", run, false);
  check_error_line(Capture{folder, "single.h5", {"--resume"}}.run(), 2, "a trace that is not from kvscope capture");
  std::ofstream(folder / "text.h5") << "no trace at all\n";
  check_error_line(Capture{folder, "text.h5", {"--resume"}}.run(), 2, "text.h5: byte 0: not an HDF5 file");

  const fs::path whole = undisturbed(folder);
  const TraceInfo info = inspect_trace(whole);
  ModelInfo model = info.model;
  model.weights_hash = "ffff";
  {
    TraceWriter writer(folder / "other.h5", model, {.max_runs = 7, .max_positions = 40, .capture = info.capture});
    RunRecord first = load_trace(whole, 0);
    first.model = model;
    writer.add(first);
  }
  check_error_line(Capture{folder, "other.h5", {"--resume"}}.run(), 2, "other.h5: model weights_hash: \"ffff\"");
  CHECK(inspect_trace(folder / "other.h5").n_runs == 1);
}

TEST_CASE("capture does not touch a file that is there unless told what to do with it") {
  const TemporaryFolder folder;
  write_prompts(folder);
  undisturbed(folder);
  check_error_line(Capture{folder, "whole.h5"}.run(), 2, "--resume continues it");
  check_error_line(Capture{folder, "whole.h5", {"--resume", "--overwrite"}}.run(), 1, "both given");
  check_error_line(Capture{folder, "none/t.h5"}.run(), 2, "no such folder");
  for (const char* shard : {"3/3", "-1/3", "1", "1/", "/3", "1/3/5", "a/b", "0/0", ""})
    check_error_line(Capture{folder, "t.h5", {"--shard", shard}}.run(), 1, "--shard: \"" + std::string(shard) + "\"");
  CHECK(files_in(folder.path()) == 2);
}

TEST_CASE("Shards that are merged are the capture that was never sharded, virtual or copied") {
  const TemporaryFolder folder;
  write_prompts(folder);
  const fs::path whole = undisturbed(folder);
  const int n = GENERATE(1, 3, 9);  // 9: two shards have nothing to do
  std::vector<std::string> shards;
  for (int shard = 0; shard < n; ++shard) {
    const std::string name = "s" + std::to_string(shard) + ".h5";
    const auto result =
        Capture{folder, name, {"--shard", std::to_string(shard) + "/" + std::to_string(n), "--resume"}}.run();
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    CHECK(json::parse(result.out)["shard"] == std::to_string(shard) + "/" + std::to_string(n));
    shards.push_back((folder / name).string());
  }
  update_notes(shards[0],
               {{.run = 0, .ids = ids_hash(load_trace(shards[0], 0)), .name = "", .note = "mine", .pins = {}}});
  for (const bool copy : {false, true}) {
    std::vector<std::string> words = {"merge", "-o", (folder / (copy ? "copy.h5" : "merged.h5")).string(), "--json"};
    if (copy) words.emplace_back("--copy");
    words.insert(words.end(), shards.begin(), shards.end());
    const auto merged = kvscope_run(words);
    INFO(merged.err);
    REQUIRE(merged.exit_code == 0);
    CHECK(json::parse(merged.out)["runs"] == kPrompts);
    CHECK(json::parse(merged.out)["missing"].empty());
    CHECK(json::parse(merged.out)["notes"] == 1);
    CHECK(read_notes(words[2]).at(0).note == "mine");
    check_same_trace(words[2], whole);
    const auto of_merged = kvscope_run({"heads", words[2], "--strategy", "b", "--json"});
    CHECK(of_merged.exit_code == 0);
    CHECK(of_merged.out == kvscope_run({"heads", whole.string(), "--strategy", "b", "--json"}).out);
  }
  const json inspected = json::parse(kvscope_run({"inspect", (folder / "merged.h5").string(), "--json"}).out);
  CHECK(inspected["status"] == "merged");
  CHECK(inspected["shards"].size() == static_cast<std::size_t>(n));
  CHECK(inspected["prompts"] == kPrompts);
}

TEST_CASE("merge refuses missing and doubled shards, bad names and bad usage in one line") {
  const TemporaryFolder folder;
  write_prompts(folder);
  for (const char* shard : {"0/2", "1/2"})
    REQUIRE(Capture{folder, std::string("s") + shard[0] + ".h5", {"--shard", shard}}.run().exit_code == 0);
  const std::string s0 = (folder / "s0.h5").string(), s1 = (folder / "s1.h5").string();
  const std::string out = (folder / "m.h5").string();
  check_error_line(kvscope_run({"merge", s0, "-o", out}), 2, "no shard has prompt 1, 3, 5");
  check_error_line(kvscope_run({"merge", s0, s1, s0, "-o", out}), 2, "prompt 0 is answered here");
  check_error_line(kvscope_run({"merge", s0, s1}), 1, "no -o FILE");
  check_error_line(kvscope_run({"merge", "-o", out}), 1, "too few arguments");
  check_error_line(kvscope_run({"merge", s0, s1, "-o", s0}), 2, "which is also an input");
  check_error_line(kvscope_run({"merge", s0, s1, "-o", s0, "--overwrite"}), 2, "which is also an input");
  check_error_line(kvscope_run({"merge", s0, (folder / "none.h5").string(), "-o", out}), 2, "none.h5");
  CHECK_FALSE(fs::exists(out));
  const auto partly = kvscope_run({"merge", s0, "-o", out, "--allow-missing", "--json"});
  REQUIRE(partly.exit_code == 0);
  CHECK(json::parse(partly.out)["missing"] == json({1, 3, 5}));
  CHECK(json::parse(partly.out)["runs"] == 4);
}

TEST_CASE("The progress of a capture that goes on begins with what is done") {
  const TemporaryFolder folder;
  write_prompts(folder);
  CHECK(
      Capture{folder, "t.h5", {"--resume"}, " --slow " + std::to_string(60 * kSlowdown)}.run_until_a_run().exit_code ==
      -1);
  const auto result = Capture{folder, "t.h5", {"--resume"}, " --slow 20"}.run();
  REQUIRE(result.exit_code == 0);
  const int resumed = json::parse(result.out)["resumed"];
  REQUIRE(resumed > 0);
  CHECK(result.err.find("capture " + std::to_string(resumed) + "/7") != std::string::npos);
}
