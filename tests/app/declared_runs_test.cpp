// Runs under policies that an engine declares: command line, window, traces that are opened without the engine.

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/core/record/command_line.h"
#include "engine/core/support/shell_quote.h"
#include "engine/core/trace/trace_file.h"
#include "tests/app/process.h"
#include "tests/app/program.h"
#include "tests/app/window_driver.h"
#include "tests/support/declarations.h"
#include "tests/support/skip.h"

using namespace kvscope;
using namespace kvscope::test;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

std::string engine() {
  return fake(R"(--declare none --declare top_k --offer '{"name": "fake.engine 1.0", )"
              R"("default_policy": "fake.none:keep=50%"}')");
}
constexpr const char* kPrompt =
    "the cache keeps 12 34 56 and forgets the rest of what it read a while ago, word by word ";

std::string prompt() {
  std::string text;
  for (int i = 0; i < 6; ++i) text += kPrompt;
  return text;
}

Result run_fake(const std::string& policy, std::vector<std::string> more = {}, const std::string& command = engine()) {
  std::vector<std::string> words = {
      "run",  sample_model().string(), "--engine", command, "--quiet", "--prompt", prompt(), "--policy",
      policy, "--max-tokens",          "12"};
  words.insert(words.end(), more.begin(), more.end());
  return kvscope_run(words);
}

std::filesystem::path trace_of(const TemporaryFolder& folder, const std::string& policy, const std::string& name) {
  const auto path = folder / name;
  const Result result = run_fake(policy, {"--trace", path.string()});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return path;
}

/// One line that names the problem.
void check_refused(const Result& result, int exit_code, const std::string& part) {
  CHECK(result.exit_code == exit_code);
  CHECK_THAT(result.err, Contains(part));
  CHECK(count_lines(result.err) == 1);
}

}  // namespace

TEST_CASE("kvscope policies --engine lists what the engine declares, with title, definition and parameters") {
  const Result list = kvscope_run({"policies", "--engine", engine()});
  INFO(list.err);
  CHECK(list.exit_code == 0);
  CHECK_THAT(list.out, Contains("kvpop") && Contains("declared by fake.engine 1.0:") && Contains("fake.top_k") &&
                           Contains("Fake top_k"));
  const Result page = kvscope_run({"policies", "fake.none", "--engine", engine()});
  CHECK_THAT(page.out, Contains("Keeps the tokens that the engine likes most.") && Contains("mix=0.5") &&
                           Contains("The rule is the engine's"));
  const Result lines = kvscope_run({"policies", "fake.top_k", "--engine", engine(), "--json"});
  const json object = json::parse(lines.out);
  CHECK(object["engine"] == "fake.engine 1.0");
  CHECK(object["parameters"].size() == 7);
  CHECK_FALSE(kvscope_run({"policies"}).out.find("fake") != std::string::npos);
  check_refused(kvscope_run({"policies", "fake.none"}), 1, "no policy named");
}

TEST_CASE("A run under a declared policy is traced, and its trace opens and is exported without the engine") {
  const TemporaryFolder folder;
  const std::string rule = GENERATE("none", "top_k");
  const auto path = trace_of(folder, "fake." + rule + ":keep=25%,mix=0.75,pooling=mean", "a.h5");
  const RunRecord run = load_trace(path, 0);
  CHECK(run.recorder == "fake.engine 1.0");
  REQUIRE(run.policy.declared != nullptr);
  CHECK(run.policy.to_string() ==
        "fake." + rule + ":keep=0.25,sinks=2,window=8,mix=0.75,read=0.25,pooling=mean,decay=0");
  CHECK(run.asked->engine.empty());  // no trace says how an engine is started
  CHECK_THAT(command_line(run), Contains(" --engine COMMAND"));

  const Result inspected = kvscope_run({"inspect", path.string(), "--json"});
  CHECK_THAT(inspected.out, Contains("\"recorder\":\"fake.engine 1.0\"") && Contains("Fake " + rule));
  for (const char* name : {"a.csv", "a.nc"}) {
    const Result exported = kvscope_run({"export", path.string(), "-o", (folder / name).string()});
    INFO(exported.err);
    CHECK(exported.exit_code == 0);
  }
  const Result preview = kvscope_run({"what-if", path.string(), "fake." + rule + ":keep=20%,mix=0.75,pooling=mean"});
  if (rule == "top_k") {
    INFO(preview.err);
    CHECK(preview.exit_code == 0);
    check_refused(kvscope_run({"what-if", path.string(), "fake.top_k:keep=20%,mix=0.5"}), 2, "mix: 0.5");
  } else {
    check_refused(preview, 2, "a policy whose rule is the engine's");
  }
}

TEST_CASE("A command under a declared policy starts its engine once") {
  const TemporaryFolder folder;
  const std::string log = (folder / "starts").string();
  const Result result = run_fake("fake.none:keep=25%", {}, "echo started >> " + log + "; " + engine());
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(read_text(log) == "started\n");
}

TEST_CASE("What an engine does not offer is refused in one line before it is asked") {
  const TemporaryFolder folder;
  check_refused(run_fake("fake.none:mix=7"), 1, "policy fake.none: mix: \"7\"");
  check_refused(run_fake("fake.other"), 1, "no policy named \"fake.other\"");
  check_refused(run_fake("fake.none", {}, fake()), 1, "no policy named \"fake.none\"");
  const std::string offer = fake(R"(--declare none --offer '{"name": "small 1", "serves": ["run"], )"
                                 R"("builtin_policies": ["streaming"]}')");
  check_refused(run_fake("h2o", {}, offer), 1, "The engine (small 1) cannot run KVScope's policy h2o.");
  check_refused(run_fake("streaming", {"--output-error"}, offer), 1,
                "The engine (small 1) cannot measure the output error.");
  check_refused(kvscope_run({"score", sample_model().string(), "--text", "a b c", "--engine", offer, "--quiet"}), 1,
                "The engine (small 1) cannot score a text.");
  CHECK(run_fake("streaming", {}, offer).exit_code == 0);  // without the oracle, which is only a default
}

TEST_CASE("A name that the engine does not declare is refused with the names that it does, one's own methods first") {
  const json offer = {
      {"policies", {declared_json("hf.other", "Other", "top_k"), declared_json("my.mine", "Mine", "none")}}};
  check_refused(run_fake("bad.boom", {}, fake("--offer " + shell_quote(offer.dump()))), 1,
                "no policy named \"bad.boom\"; expected a policy that the engine declares: my.mine, hf.other; hint");
}

TEST_CASE("An evaluation under a declared policy is asked of the engine, which may not serve evaluations") {
  const TemporaryFolder folder;
  const std::string recipe = (folder / "r.json").string(), study = (folder / "s.h5").string();
  const std::string policy = GENERATE("fake.none:keep=25%", "fake.top_k", "top-k:keep=25%");
  std::ofstream(recipe) << json{{"model", sample_model().string()}, {"policies", {policy}}, {"tasks", {"needle"}}};
  const std::string small = fake(R"(--declare none --offer '{"name": "small 1", "serves": ["run"]}')");
  const std::string why = "The engine (small 1) cannot run evaluations.";
  check_refused(kvscope_run({"eval", sample_model().string(), "--policies", policy, "--engine", small, "--quiet"}), 1,
                why);
  check_refused(kvscope_run({"sweep", recipe, "-o", study, "--engine", small, "--quiet"}), 1, why);
}

TEST_CASE("A study that the engine does not serve says so next to Start, and on the command line before it begins") {
  const std::string offer =
      fake(R"(--offer '{"name": "small 1", "serves": ["run", "score"], "builtin_policies": ["full", "streaming"]}')");
  const TemporaryFolder folder;
  check_refused(kvscope_run({"hybrid", sample_model().string(), "--engine", offer, "--signal", "oracle", "--texts",
                             in_source("samples/prompts/heldout.txt"), "-o", folder / "h.h5", "--quiet"}),
                1, "The engine (small 1) cannot run KVScope's policy hybrid.");
  if (skip_without_display()) return;
  const Xvfb display;
  WindowDriver window(display, {.engine = offer});
  window.wait({{"/model", {{"not", nullptr}}}, {"/engine", "ready"}});
  const auto reason = [&](const char* study) {
    window.command("study.jobs", {{"command", study}});
    window.frames(3);
    return window.text("studies.why_not");
  };
  CHECK(reason("sweep") == "The engine (small 1) cannot run evaluations.");
  CHECK(reason("hybrid") == "The engine (small 1) cannot run KVScope's policy hybrid.");
  CHECK_THROWS(window.command("study.start"));
  window.command("study.jobs", {{"command", "capture"}});
  window.frames(3);
  CHECK(window.request({{"query", "item"}, {"id", "studies.why_not"}}).value("rect", json()).is_null());
}

TEST_CASE("An engine whose greeting is not as it must be is refused by the field's name") {
  const auto refused = [](const std::string& offer, const std::string& part) {
    INFO(offer);
    check_refused(kvscope_run({"policies", "--engine", fake("--offer '" + offer + "'")}), 3, part);
  };
  refused(R"({"serves": "run"})", "serves");
  refused(R"({"serves": [7]})", "serves");
  refused(R"({"name": 7})", "name");
  refused(R"({"builtin_policies": ["best"]})", "builtin_policies");
  refused(R"({"default_policy": "fake.none"})", "default_policy");
  refused(R"({"policies": {}})", "policies");
  refused(R"({"policies": [{"name": "kvpop"}]})", "policies[0].name");
  refused(R"({"policies": [{"name": "a.b", "title": "T"}]})", "policies[0].definition");
}

TEST_CASE("A new session starts with the engine's default policy, and a run's command names the engine") {
  Program program(engine());
  program.run("model.open", {{"path", sample_model().string()}});
  poll_until(program.session, [&] {
    const app::EngineLink& engine = program.session.engine();
    return engine.model().has_value() && !engine.is_loading() && !program.session.model().reads_folder();
  });
  CHECK(program.session.parameters().policy.to_string().starts_with("fake.none:keep=0.5"));
  program.run("prompt.set", {{"text", prompt()}});
  program.run("run.max_tokens", {{"n", 8}});
  program.run("run.start");
  poll_until(program.session, [&] { return !program.session.run_in_progress(); });
  REQUIRE(program.session.runs().a() != nullptr);
  const RunRecord& run = *program.session.runs().a()->run;
  CHECK(run.recorder == "fake.engine 1.0");
  CHECK_THAT(command_line(run), Contains("--engine") && Contains("--declare none") && !Contains("COMMAND"));
}

TEST_CASE("The panel offers declared policies under the engine's name, with their parameters as controls") {
  if (skip_without_display()) return;
  const Xvfb display;
  WindowDriver window(display, {.engine = engine()});
  window.wait({{"/model", {{"not", nullptr}}}, {"/engine", "ready"}});
  CHECK(window.text("policy.combo") == "Fake none");
  window.command("policy.set", {{"policy", "fake.top_k:keep=50%"}});
  window.frames(3);
  CHECK(window.text("policy.combo") == "Fake top_k");
  CHECK(window.text("policy.mix") == "0.50");
  CHECK(window.text("policy.pooling") == "max");
  CHECK(window.text("policy.read") == "25 %");
  window.click("policy.combo");
  CHECK(window.text_soon("policy.group.engine", "fake") == "fake.engine 1.0");
  CHECK(window.text("policy.choice.fake.none") == "fake.engine 1.0");
}

TEST_CASE("Where a parameter gives other scores, the panel names the button that decodes again") {
  if (skip_without_display()) return;
  const Xvfb display;
  WindowDriver window(display, {.engine = engine()});
  window.wait({{"/model", {{"not", nullptr}}}, {"/engine", "ready"}});
  window.command("prompt.set", {{"text", prompt()}});
  window.command("policy.set", {{"policy", "fake.top_k:keep=50%"}});
  window.command("run.max_tokens", {{"n", 8}});
  window.command("run.start");
  window.wait({{"/running", false}, {"/a/status", "complete"}});
  window.command("policy.set", {{"policy", "fake.top_k:keep=50%,mix=0.75"}});
  const std::string why = window.text_soon("policy.no_preview", "mix");
  CHECK_THAT(why, Contains("gives other scores. Decode again to see it.") && !Contains("hint"));
}
