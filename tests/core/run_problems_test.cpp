// What stands in the way of a run, before it begins, and that what is offered against it removes it.
#include "engine/core/policy/run_problems.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "engine/core/policy/policy.h"

using namespace kvscope;
using Catch::Matchers::Contains;
using Kind = RunProblem::Kind;

namespace {

const HeadsOfModel kShape{6, 4, {}};

GatesOfModel delayed_scorer(int delay = 64) {
  return {.scorers = {{"kvpop_mlstm", GateNumbers{.window = 64, .n_sink = 4}, delay}}};
}

RunQuestion question(const char* policy, const GatesOfModel& gates) {
  return {.policy = PolicySpec::parse(policy),
          .shape = kShape,
          .gates = &gates,
          .prompt_tokens = 200,
          .new_tokens = 100,
          .max_positions = 2048};
}

std::vector<Kind> kinds(const RunQuestion& asked) {
  std::vector<Kind> list;
  for (const RunProblem& problem : run_problems(asked)) list.push_back(problem.kind);
  return list;
}

// Takes every remedy in turn until none is offered; what then still stands in the way.
std::vector<RunProblem> after_remedies(RunQuestion asked) {
  for (int i = 0; i < 10; ++i) {
    const auto problems = run_problems(asked);
    const auto found =
        std::ranges::find_if(problems, [](const RunProblem& problem) { return !problem.remedy.empty(); });
    if (found == problems.end()) return problems;
    if (found->policy) asked.policy = *found->policy;
    if (found->new_tokens) asked.new_tokens = *found->new_tokens;
  }
  return run_problems(asked);
}

}  // namespace

TEST_CASE("A run that can begin has no problem, and what nobody knows is none", "[core][policy]") {
  const GatesOfModel gates = delayed_scorer();
  CHECK(run_problems(question("kvpop:keep=40%", gates)).empty());
  CHECK(run_problems(question("kvpop:keep=10%", gates)).empty());  // it is raised, and said so
  CHECK(run_problems({.policy = PolicySpec::parse("sp-kv:window=3")}).empty());
  CHECK(run_problems({.policy = PolicySpec::parse("kvpop:budget=1")}).empty());  // of a run of whatever length
}

TEST_CASE("A budget in tokens below what sinks and window take is told with the least one", "[core][policy]") {
  const GatesOfModel gates = delayed_scorer();
  const auto problems = run_problems(question("kvpop:budget=31", gates));
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].kind == Kind::budget);
  CHECK(problems[0].text == "A budget of 31 tokens is too small: sinks and window need 68.");
  CHECK(problems[0].remedy == "Raise to 68");
  CHECK(after_remedies(question("kvpop:budget=31", gates)).empty());
  const auto pool = run_problems(question("kvpop:budget=31,capacity=pooled,interval=32", gates));
  REQUIRE(pool.size() == 1);
  CHECK(pool[0].text == "A budget of 31 tokens is too small: sinks, window and interval need 100.");
  CHECK(after_remedies(question("h2o:budget=3,window=16", gates)).empty());
}

TEST_CASE("A window other than the delay of the scorer is told with the one that it was trained with",
          "[core][policy]") {
  const GatesOfModel gates = delayed_scorer();
  const auto problems = run_problems(question("kvpop:keep=40%,window=14", gates));
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].text == "The scorer was trained with a window of 64 tokens, not 14.");
  CHECK(problems[0].remedy == "Use 64");
  CHECK(problems[0].policy->value("window") == 64);
  CHECK(after_remedies(question("kvpop:budget=20,window=14", gates)).empty());  // the window first, then the budget
  CHECK(fixed_window(PolicySpec::parse("kvpop"), gates) == 64);
  CHECK_FALSE(fixed_window(PolicySpec::parse("h2o"), gates));
  CHECK_FALSE(fixed_window(PolicySpec::parse("kvpop"), delayed_scorer(1)));   // it speaks on arrival
  CHECK_FALSE(fixed_window(PolicySpec::parse("kvpop"), delayed_scorer(-1)));  // nobody has said
  CHECK(run_problems(question("kvpop:keep=40%,window=14", delayed_scorer(1))).empty());
  for (const char* kind : {"kvpop_mlstm", ""}) {  // "": of an old trace
    CHECK(goes_with_delay(0, kind, 0));
    CHECK_FALSE(goes_with_delay(0, kind, 1));
    CHECK(goes_with_delay(64, kind, 64));
    CHECK_FALSE(goes_with_delay(65, kind, 64));
  }
}

TEST_CASE("A gate that looks ahead goes with every window that waits for it, and no shorter one", "[core][policy]") {
  const GatesOfModel gates{.scorers = {{"sp_kv", GateNumbers{.window = 64, .n_sink = 1}, 32}}};
  for (const char* policy : {"sp-kv:window=32", "sp-kv", "sp-kv:window=200", "threshold:threshold=0.5,window=33"}) {
    CAPTURE(policy);
    CHECK(run_problems(question(policy, gates)).empty());
    CHECK_FALSE(fixed_window(PolicySpec::parse(policy), gates));
  }
  const auto problems = run_problems(question("sp-kv:window=31", gates));
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].kind == Kind::window);
  CHECK(problems[0].text == "The gate looks 32 tokens ahead. A window of 31 is too short.");
  CHECK(problems[0].remedy == "Use 32");
  CHECK(after_remedies(question("sp-kv:window=31", gates)).empty());
  CHECK(goes_with_delay(32, "sp_kv", 32));
  CHECK(goes_with_delay(33, "sp_kv", 32));
  CHECK_FALSE(goes_with_delay(31, "sp_kv", 32));
}

TEST_CASE("A window that a scorer fixes, or a gate brings along, is that of the policies that score by it alone",
          "[core][policy]") {
  const GateOfModel dms{.kind = "dms_separate", .numbers = GateNumbers{.window = 257}, .delay = 1};
  const GateOfModel kvpop = delayed_scorer().scorers[0];
  const GatesOfModel dms_first{.scorers = {dms, kvpop}, .heads = {}}, kvpop_first{.scorers = {kvpop, dms}, .heads = {}};
  const auto window = [](const char* policy, const GatesOfModel& gates) {
    return policy_on(PolicySpec::parse(policy), kShape, gates).count("window");
  };
  for (const GatesOfModel* gates : {&dms_first, &kvpop_first}) {
    CHECK(fixed_window(PolicySpec::parse("kvpop:keep=40%"), *gates) == 64);
    CHECK(window("kvpop:keep=40%", *gates) == 64);
    for (const char* policy : {"dms", "wg-kv", "sp-kv", "h2o:keep=40%", "streaming"})
      CHECK_FALSE(fixed_window(PolicySpec::parse(policy), *gates));
    CHECK(window("dms", *gates) == 256);  // tokens behind the query
    CHECK(window("h2o:keep=40%", *gates) == PolicySpec::parse("h2o:keep=40%").count("window"));
  }
  // These score by the first gate, whatever it is.
  for (const char* policy : {"top-k:keep=40%", "threshold"}) {
    CHECK_FALSE(fixed_window(PolicySpec::parse(policy), dms_first));
    CHECK(window(policy, dms_first) == 257);
    CHECK(fixed_window(PolicySpec::parse(policy), kvpop_first) == 64);
    CHECK(window(policy, kvpop_first) == 64);
  }
}

TEST_CASE("A gate, head directory or decay that the policy needs and the model lacks is told", "[core][policy]") {
  const GatesOfModel gates = delayed_scorer(), none;
  CHECK(kinds(question("sp-kv", gates)) == std::vector{Kind::gate});
  CHECK_THAT(run_problems(question("sp-kv", gates))[0].text, Contains("needs an SP-KV gate. None is loaded"));
  CHECK(kinds(question("kvpop:keep=40%", none)) == std::vector{Kind::gate});
  CHECK(kinds(question("duo", gates)) == std::vector{Kind::heads});
  CHECK(kinds(question("hybrid:heads=d", gates)) == std::vector{Kind::heads});
  CHECK(kinds(question("hybrid:heads=a", gates)).empty());
  const RunQuestion many = question("hybrid:heads=c,count=510", gates);
  REQUIRE(kinds(many) == std::vector{Kind::policy});
  CHECK(run_problems(many)[0].text == "The model has " + std::to_string(many.shape.n_heads()) + " KV heads, not 510.");
  CHECK(after_remedies(many).empty());
  for (const char* policy : {"full", "streaming", "h2o", "tova", "snapkv", "expected-attention", "quest", "random"}) {
    CAPTURE(policy);
    CHECK(kinds(question(policy, none)).empty());
  }
  const auto decay = run_problems(question("kvpop:keep=40%,decay=learned", gates));
  REQUIRE(decay.size() == 1);
  CHECK(decay[0].kind == Kind::decay);
  CHECK(after_remedies(question("kvpop:keep=40%,decay=learned", gates)).empty());
}

TEST_CASE("A prompt or answer beyond the model's context is told, the answer with what is left", "[core][policy]") {
  const GatesOfModel gates = delayed_scorer();
  RunQuestion asked = question("full", gates);
  asked.prompt_tokens = 2000;
  CHECK(kinds(asked) == std::vector{Kind::answer});
  CHECK(run_problems(asked)[0].remedy == "Shorten the answer to 48");
  CHECK(after_remedies(asked).empty());
  asked.prompt_tokens = 8165;
  CHECK(kinds(asked) == std::vector{Kind::prompt});
  CHECK(run_problems(asked)[0].text == "The prompt has 8165 tokens; the model's context holds 2048.");
  asked.prompt_tokens = 0;
  CHECK(kinds(asked) == std::vector{Kind::prompt});
  asked.prompt_tokens = 1948;
  CHECK(kinds(asked).empty());
}

TEST_CASE("Every policy at every small size either runs or says what is wrong, and remedies end", "[core][policy]") {
  const GatesOfModel gates = delayed_scorer(), none;
  for (const PolicyInfo& info : policy_list()) {
    for (const int n : {1, 5, 30, 120, 600}) {
      for (const GatesOfModel* with : {&gates, &none}) {
        CAPTURE(info.name, n);
        RunQuestion asked = question(std::string(info.name).c_str(), *with);
        asked.prompt_tokens = n, asked.new_tokens = 4;
        for (const RunProblem& problem : after_remedies(asked)) {
          CAPTURE(problem.text);
          CHECK(problem.remedy.empty());
          CHECK(problem.text.ends_with("."));
          CHECK((problem.kind == Kind::gate || problem.kind == Kind::heads));
        }
      }
    }
  }
}

TEST_CASE("Each policy needs nothing, attention or a gate, and says whether the gate is there", "[core][policy]") {
  const auto need = [](const char* name) { return need_of(PolicySpec::parse(name)); };
  for (const char* name : {"full", "streaming", "random", "hybrid:heads=a"}) CHECK(need(name) == PolicyNeed::nothing);
  for (const char* name : {"tova", "h2o", "snapkv", "expected-attention", "quest", "oracle"}) {
    CAPTURE(name);
    CHECK(need(name) == PolicyNeed::attention);
  }
  for (const char* name : {"kvpop", "sp-kv", "wg-kv", "dms", "kvzap", "duo", "top-k", "threshold"}) {
    CAPTURE(name);
    CHECK(need(name) == PolicyNeed::gate);
  }
  const GatesOfModel gates = delayed_scorer();
  CHECK(has_gate_for(PolicySpec::parse("kvpop"), gates));
  CHECK_FALSE(has_gate_for(PolicySpec::parse("sp-kv"), gates));
  CHECK_FALSE(has_gate_for(PolicySpec::parse("duo"), gates));
  CHECK(has_gate_for(PolicySpec::parse("full"), gates));
}
