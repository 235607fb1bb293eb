// Policies that an engine declares: what is refused, what is read, what they are then.

#include "engine/core/policy/declared_policy.h"

#include <catch2/catch.hpp>
#include <functional>
#include <set>
#include <thread>

#include "engine/core/policy/run_problems.h"
#include "engine/core/policy/scorer_text.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/study/measure/what_if.h"
#include "engine/core/support/error.h"
#include "tests/support/declarations.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using namespace kvscope::test;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

struct Bad {
  const char* field;  // that the message names
  std::function<void(json& object)> spoil;
};

std::string refusal(const json& object) {
  try {
    declaration_of_json(object);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("A declaration is read and written again without a difference", "[core][declared]") {
  const json object = declared_json("t.round", "Round (test)", "top_k");
  const Declaration read = declaration_of_json(object);
  CHECK(read.parameters.size() == 7);
  CHECK(declaration_of_json(declaration_json(read)) == read);
  CHECK(read.parameters[4].share);
  json plain = object;
  plain["later"] = "a field of a later version is passed over";
  plain.erase("evicted"), plain.erase("kept");
  CHECK(declaration_of_json(plain).evicted.empty());
  CHECK(declare(object) == declare(object));
}

TEST_CASE("A method of another revision is another policy, and one without a revision has none", "[core][declared]") {
  json object = declared_json("t.revision", "Revision (test)", "top_k");
  const DeclaredPolicy* plain = declare(object);
  CHECK(plain->declaration.revision.empty());
  CHECK_FALSE(declaration_json(plain->declaration).contains("revision"));
  object["revision"] = "0123456789ab";
  const DeclaredPolicy* first = declare(object);
  CHECK(first != plain);
  CHECK(first->declaration.revision == "0123456789ab");
  CHECK(declaration_of_json(declaration_json(first->declaration)) == first->declaration);
  object["revision"] = "0123456789ac";
  CHECK(declare(object) != first);
}

TEST_CASE("Each bad declaration is refused in one line that names its field", "[core][declared]") {
  const auto parameter = [](std::size_t i, const char* key, json value) {
    return [=](json& object) { object["parameters"][i][key] = value; };
  };
  const auto set = [](const char* key, json value) { return [=](json& object) { object[key] = value; }; };
  const auto drop = [](const char* key) { return [=](json& object) { object.erase(key); }; };
  const std::vector<Bad> all = {
      {"name", set("name", "top-k")},  // one of KVScope's
      {"name", set("name", "kvpop")},
      {"name", set("name", "snapkv")},
      {"name", set("name", ".snapkv")},
      {"name", set("name", "hf.")},
      {"name", set("name", "Hf.snapkv")},
      {"name", set("name", "h-f.snapkv")},
      {"name", set("name", "hf.snap kv")},
      {"name", set("name", "hf.a:budget=1")},
      {"name", set("name", "hf." + std::string(78, 'x'))},
      {"name", set("name", 7)},
      {"name", drop("name")},
      {"title", set("title", "H2O")},  // one of KVScope's
      {"title", set("title", "")},
      {"title", set("title", std::string(61, 'x'))},
      {"title", set("title", "two\nlines")},
      {"title", set("title", "not \x9c UTF-8")},
      {"definition", drop("definition")},
      {"definition", set("definition", std::string(2001, 'x'))},
      {"evicted", set("evicted", json::array())},
      {"kept", set("kept", "\x1b[31mred")},
      {"revision", set("revision", "")},
      {"revision", set("revision", 7)},
      {"revision", set("revision", "two\nlines")},
      {"revision", set("revision", std::string(81, 'x'))},
      {"budget", drop("budget")},
      {"budget", set("budget", "yes")},
      {"budget", set("budget", false)},  // rule top_k needs one
      {"rule", set("rule", "best")},
      {"prompt", set("prompt", "lazy")},
      {"parameters", drop("parameters")},
      {"parameters", set("parameters", json::object())},
      {"parameters", set("parameters", json(33, json::object()))},
      {"parameters", [](json& object) { object["parameters"].erase(0); }},  // no budget
      {"parameters", [](json& object) { object["rule"] = "threshold"; }},   // no threshold
      {"parameters[3].name", parameter(3, "name", "Mix")},
      {"parameters[3].name", parameter(3, "name", "sinks")},  // twice
      {"parameters", parameter(3, "name", "keep")},           // another way to write the budget
      {"parameters[3].kind", parameter(3, "kind", "float")},
      {"parameters[3].unit", parameter(3, "unit", json())},
      {"parameters[3].default", parameter(3, "default", 2)},
      {"parameters[3].default", parameter(3, "default", "0.5")},
      {"parameters[3].min", parameter(3, "min", std::nan(""))},
      {"parameters[3].max", parameter(3, "max", -1)},
      {"parameters[3].share", parameter(3, "share", true)},
      {"parameters[3].choices", parameter(3, "choices", {"a"})},
      {"parameters[0].kind", parameter(0, "kind", "real")},
      {"parameters[1].share", parameter(1, "share", true)},
      {"parameters[1].min", parameter(1, "min", 0.5)},
      {"parameters[2].min", parameter(2, "min", 0)},
      {"parameters[4].max", parameter(4, "max", 1e9)},
      {"parameters[5].choices", parameter(5, "choices", json::array())},
      {"parameters[5].choices", parameter(5, "choices", {"mean", "mean"})},
      {"parameters[5].choices", parameter(5, "choices", {"mean", "a,b=c"})},
      {"parameters[5].default", parameter(5, "default", 2)},
      {"parameters[6].default", parameter(6, "default", 0.5)},
  };
  CHECK(all.size() >= 30);
  for (const Bad& bad : all) {
    json object = declared_json("t.bad", "Bad (test)", "top_k");
    bad.spoil(object);
    const std::string line = refusal(object);
    CAPTURE(line, bad.field, object.dump(-1, ' ', false, json::error_handler_t::replace));
    CHECK_THAT(line, Contains(std::string(": ") + bad.field + ":"));
    CHECK(line.find('\n') == std::string::npos);
  }
  CHECK_THAT(refusal(json::array()), Contains("policy declaration"));
}

TEST_CASE("A declared policy is parsed and printed as one of KVScope's", "[core][declared]") {
  const DeclaredPolicy* declared = declare(declared_json("t.text", "Text (test)", "none"));
  const PolicySpec spec = PolicySpec::parse("t.text:keep=25%,mix=0.125,pooling=mean,read=50%");
  CHECK(spec.declared == declared);
  CHECK(spec.to_string() == "t.text:keep=0.25,sinks=2,window=8,mix=0.125,read=0.5,pooling=mean,decay=0");
  CHECK(PolicySpec::parse(spec.to_string()) == spec);
  CHECK(PolicySpec::parse("t.text").written() == "t.text:budget=64");
  CHECK(spec.budget_tokens(400) == 100);
  CHECK(spec.geometry(400).n_sink == 2);
  CHECK(spec.geometry(400).window == 8);
  CHECK(spec.geometry(400).log_gamma == 0);  // its decay is something else
  CHECK(find_policy("t.text") == &declared->policy.info);
  CHECK(method_name(spec) == "Text (test)");
  CHECK_THROWS_WITH(PolicySpec::parse("t.text:mix=2"), Contains("policy t.text: mix: \"2\"") && Contains("0 to 1"));
  CHECK_THROWS_WITH(PolicySpec::parse("t.text:top=1"), Contains("no key named \"top\""));
  CHECK_THROWS_WITH(PolicySpec::parse("t.none"), Contains("no policy named \"t.none\"") && Contains("engine declares"));
  for (const PolicyInfo& info : policy_list()) CHECK_FALSE(is_declared_name(info.name));
}

TEST_CASE("Another declaration under the same name changes no run that is open", "[core][declared]") {
  json object = declared_json("t.twice", "Twice (test)", "none");
  const DeclaredPolicy* first = declare(object);
  const PolicySpec of_run = PolicySpec::parse("t.twice:mix=0.25");
  object["parameters"].erase(3);
  object["title"] = "Twice, newer (test)";
  const DeclaredPolicy* second = declare(object);
  CHECK(find_declared("t.twice") == first);  // a trace that declares it takes no place
  offer_policies(std::array{second});
  CHECK(find_declared("t.twice") == second);
  CHECK(of_run.to_string() == "t.twice:budget=64,sinks=2,window=8,mix=0.25,read=0.25,pooling=max,decay=0");
  CHECK(method_name(of_run) == "Twice (test)");
  CHECK_THROWS(PolicySpec::parse("t.twice:mix=0.25"));
  CHECK(PolicySpec::parse("t.twice:mix=0.25", first) == of_run);
  CHECK_FALSE(PolicySpec::parse("t.twice") == PolicySpec::parse("t.twice", first));
}

TEST_CASE("A method's words come first where a rule of KVScope's has numbers", "[core][declared]") {
  declare(declared_json("t.first", "First (test)", "top_k"));
  const RunRecord run = random_run(7, {.policy = "t.first:budget=60,sinks=2,window=16"});
  const auto explained = [&](bool evicted) {
    const auto contest = std::ranges::find_if(run.contests, [&](const Contest& c) {
      return c.layer == 0 && c.kv_head == 0 && (evicted || c.newcomer != c.evicted);
    });
    REQUIRE(contest != run.contests.end());
    return explain_token(run, 0, 0, evicted ? contest->evicted : contest->newcomer, contest->q);
  };
  CHECK_THAT(explained(true), (Contains(": the engine liked 3 others more. Its ") ||
                               Contains(": the engine liked 3 others more. When ")) &&
                                  Contains("effective score "));
  CHECK_THAT(explained(false), Contains(": the engine likes it. When it left the window at query ") &&
                                   Contains(", its effective score "));
}

TEST_CASE("Declarations are read from several threads", "[core][declared]") {
  std::vector<std::thread> threads;
  std::vector<std::set<const DeclaredPolicy*>> seen(4);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    threads.emplace_back([&seen, i] {
      for (int n = 0; n < 50; ++n) {
        const std::string name = "t.thread" + std::to_string(n);
        seen[i].insert(declare(declared_json(name.c_str(), "Thread (test)", "none")));
        PolicySpec::parse(name);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& one : seen) CHECK((one.size() == 50 && one == seen[0]));
}

TEST_CASE("A declared top_k has the lifetimes, previews and contests of top-k", "[core][declared]") {
  declare(declared_json("t.rule", "Rule (test)", "top_k"));
  const RunRecord run = random_run(7, {.policy = "t.rule:budget=90,sinks=2,window=16"});
  const RunRecord ours = random_run(7, {.policy = "top-k:budget=90,sinks=2,window=16"});
  CHECK(run.evict_at == ours.evict_at);
  CHECK_FALSE(run.contests.empty());
  const PolicySpec smaller = PolicySpec::parse("t.rule:budget=60,sinks=2,window=16");
  const RunRecord preview = what_if(run, smaller);
  CHECK(preview.evict_at == random_run(7, {.policy = "top-k:budget=60,sinks=2,window=16"}).evict_at);
  CHECK(need_of(smaller) == PolicyNeed::nothing);
  CHECK_THROWS_WITH(what_if(run, PolicySpec::parse("t.rule:budget=60,sinks=2,window=16,mix=0.75")),
                    Contains("mix: 0.75") && Contains("0.5, as in the run"));
  CHECK_THROWS_WITH(what_if(ours, smaller), Contains("scores from another policy (Top-k)"));
}

TEST_CASE("A declared top_k over a dense prompt evicts nothing before its end", "[core][declared]") {
  json object = declared_json("t.dense", "Dense (test)", "top_k");
  object["prompt"] = "dense";
  declare(object);
  const RunRecord run = random_run(7, {.policy = "t.dense:budget=90,sinks=2,window=16"});
  const RunRecord preview = what_if(run, PolicySpec::parse("t.dense:budget=60,sinks=2,window=16"));
  const RunRecord sparse = random_run(7, {.policy = "top-k:budget=60,sinks=2,window=16"});
  int at_end = 0;
  for (int t = 0; t < run.n_tokens(); ++t) {
    const std::int32_t at = preview.evict_at.row(0, 0)[static_cast<std::size_t>(t)];
    CHECK(at == std::max(sparse.evict_at.row(0, 0)[static_cast<std::size_t>(t)], run.prompt_len));
    at_end += at == run.prompt_len;
  }
  CHECK(at_end > 1);
  for (const Contest& contest : preview.contests) REQUIRE(contest.q >= run.prompt_len);
}

TEST_CASE("Where the rule is the engine's, KVScope previews nothing and explains in the method's words",
          "[core][declared]") {
  json object = declared_json("t.words", "Words (test)", "none");
  declare(object);
  RunRecord run = random_run(7, {.policy = "top-k:budget=60,sinks=2,window=16"});
  run.policy = PolicySpec::parse("t.words:budget=60,window=16");
  run.contests.clear();
  const Policy& policy = policy_of(run.policy);
  CHECK_FALSE(policy.plan(run.policy, run.geometry()).follows_from_scores());
  CHECK_THROWS_WITH(what_if(run, PolicySpec::parse("t.words:budget=40")),
                    Contains("a policy whose rule is the engine's"));
  const auto& row = run.evict_at.row(0, 0);
  const auto gone = std::ranges::find_if(row, [](std::int32_t at) { return at < kUndecided; });
  const auto kept = std::find(row.begin() + 2, row.end(), kNever);  // the first two are sinks
  REQUIRE((gone != row.end() && kept != row.end()));
  const auto explained = [&](auto token) {
    return explain_token(run, 0, 0, static_cast<std::int32_t>(token - row.begin()), run.queries() - 1);
  };
  CHECK_THAT(explained(gone), Contains(": the engine liked 3 others more."));
  CHECK_THAT(explained(kept), Contains(": the engine likes it."));
  CHECK_THAT(policy.log({.spec = run.policy, .geometry = run.geometry(), .plan = run.plan(0, 0), .local = false}).note,
             Contains("The rule is the engine's"));
  object.erase("evicted"), object.erase("kept");
  run.policy = PolicySpec::parse("t.words:budget=60,window=16", declare(object));
  CHECK_THAT(explained(gone), Contains(": the rule of the engine evicted it. The engine gave no reason."));
  CHECK_THAT(explained(kept), Contains(": the rule of the engine keeps it. The engine gave no reason."));
}
