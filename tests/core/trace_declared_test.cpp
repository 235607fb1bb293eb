// Traces of runs under policies that an engine declared.

#include <catch2/catch.hpp>

#include "engine/core/policy/declared_policy.h"
#include "engine/core/support/error.h"
#include "engine/core/trace/trace_file.h"
#include "engine/core/trace/trace_live.h"
#include "engine/core/trace/trace_merge.h"
#include "tests/core/trace_support.h"
#include "tests/support/declarations.h"
#include "tests/support/expect_error.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using namespace kvscope::test;
using Catch::Matchers::Contains;
using nlohmann::json;

TEST_CASE("A trace keeps the declaration of its policy, whatever the name means when it is opened",
          "[core][declared]") {
  const ScratchFolder folder;
  json object = declared_json("t.trace", "Trace (test)", "none");
  RunRecord run = random_run(7, {.policy = "full"});
  run.policy = PolicySpec::parse("t.trace:keep=30%,mix=0.25,pooling=mean", declare(object));
  run.recorder = "test.engine 1";
  run.changes = {{90, PolicySpec::parse("t.trace:keep=20%,mix=0.125", run.policy.declared)}};
  Asked asked{.request = {.prompt = run.prompt_text, .policy = run.policy}};
  asked.key = key_of(asked, "w", "t");
  run.asked = std::make_shared<const Asked>(asked);
  save_trace(folder / "a.h5", run, false);
  object["parameters"].erase(3);  // the engine's next version has no `mix`
  offer_policies(std::array{declare(object)});
  const RunRecord back = load_trace(folder / "a.h5", 0);
  CHECK(run_difference(back, run) == "");
  CHECK(back.policy == run.policy);
  CHECK(back.changes == run.changes);
  CHECK(back.recorder == "test.engine 1");
  CHECK(back.asked->request.policy == run.policy);
}

TEST_CASE("Runs of declared policies are captured, resumed and merged", "[trace][declared]") {
  const ScratchFolder folder;
  const DeclaredPolicy* declared = declare(declared_json("t.merge", "Merge (test)", "top_k"));
  std::vector<RunRecord> runs;
  for (int i = 0; i < 2; ++i) {
    runs.push_back(random_run(static_cast<std::uint64_t>(i), {.policy = "t.merge:budget=60,window=16"}));
    runs[static_cast<std::size_t>(i)].prompt_index = i;
    runs[static_cast<std::size_t>(i)].recorder = "test.engine 1";
  }
  for (const bool resume : {false, true}) {
    TraceWriter writer(folder / "s0.h5", runs[0].model,
                       {.resume = resume,
                        .max_runs = 2,
                        .max_positions = runs[0].n_positions,
                        .capture = {.n_prompts = 2, .shard = 0, .n_shards = 1, .prompts_hash = "0", .request = ""}});
    writer.add(runs[resume ? 1 : 0]);
    if (resume) writer.finish();
  }
  const std::vector<std::filesystem::path> shards = {folder / "s0.h5"};
  merge_traces(shards, folder / "merged.h5", {.copy = true});
  for (int i = 0; i < 2; ++i) {
    const RunRecord back = load_trace(folder / "merged.h5", i);
    CHECK(run_difference(back, runs[static_cast<std::size_t>(i)]) == "");
    CHECK(back.policy.declared == declared);
    CHECK(back.recorder == "test.engine 1");
  }
}

TEST_CASE("A damaged declaration in a trace is one line", "[trace][declared]") {
  const ScratchFolder folder;
  Declaration declaration = declaration_of_json(declared_json("t.damaged", "Damaged (test)", "none"));
  const std::string field = GENERATE("title", "name", "parameters[3].default", "policy");
  if (field == "title") declaration.title = "H2O";
  if (field == "name") declaration.name = "kvpop";
  if (field == "parameters[3].default") declaration.parameters[3].default_value = 9;
  if (field == "policy") declaration.name = "t.another";
  const DeclaredPolicy damaged(declaration);
  RunRecord run = random_run(7, {.policy = "full"});
  run.policy = PolicySpec::parse("t.damaged", declare(declared_json("t.damaged", "Damaged (test)", "none")));
  run.policy.declared = &damaged;  // its text still names t.damaged
  // The writer reads each run again before it commits it, with the reader of all traces.
  const std::string line = error_of([&] { save_trace(folder / "a.h5", run, false); });
  CAPTURE(line);
  CHECK(line.find('\n') == std::string::npos);
  CHECK_THAT(line, Contains(field == "policy" ? "runs/policy_span" : "runs/declaration_span"));
  if (field != "policy") CHECK_THAT(line, Contains(field));
  CHECK_FALSE(std::filesystem::exists(folder / "a.h5"));
}
