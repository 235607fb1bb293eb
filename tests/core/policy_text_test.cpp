#include "engine/core/policy/policy_text.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "engine/core/lifetime/lifetime_map.h"
#include "engine/core/lifetime/lifetime_rule.h"
#include "engine/core/policy/policy.h"
#include "engine/core/policy/policy_table.h"
#include "engine/core/support/error.h"

using namespace kvscope;
using Catch::Matchers::Contains;

namespace {

/// The error of a policy text, "" if it parses; checks that it is a usage error.
std::string parse_error(const std::string& text) {
  try {
    PolicySpec::parse(text);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::usage);
    return error.what();
  }
  return "";
}

/// A random text of a random policy: every parameter present or not, in random order, values within range.
std::string random_text(std::mt19937_64& random) {
  const auto unit = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  const PolicyInfo& info = policy_list()[random() % policy_list().size()];
  std::vector<std::string> pairs;
  for (const ParameterInfo& parameter : info.parameters) {
    if (random() % 3 == 0) continue;
    const std::string replaced = std::string(parameter.instead_of) + "=";  // not both; nothing begins with "="
    if (std::ranges::any_of(pairs, [&](const std::string& pair) { return pair.starts_with(replaced); })) continue;
    if (parameter.kind == ParameterKind::choice) {
      pairs.push_back(std::string(parameter.name) + "=" +
                      std::string(parameter.choices[random() % parameter.choices.size()]));
      continue;
    }
    const bool whole = parameter.kind != ParameterKind::real;
    double value = parameter.min + unit() * (parameter.max - parameter.min);
    if (random() % 4 == 0) value = random() % 2 == 0 ? parameter.min : parameter.max;
    char text[64];
    std::snprintf(text, sizeof(text), whole ? "%.0f" : "%.17g", whole ? std::floor(value) : value);
    std::string pair = std::string(parameter.name) + "=" + text;
    if (info.has_budget && parameter.name == "budget" && random() % 3 > 0) {
      const bool keeps = random() % 2 == 0;
      std::snprintf(text, sizeof(text), "%.17g", keeps ? 1 - unit() : 1 + 99 * unit());
      pair = keeps ? std::string("keep=") + text : std::string("compression=") + text + "x";
    }
    pairs.push_back(pair);
  }
  std::shuffle(pairs.begin(), pairs.end(), random);
  std::string result(info.name);
  for (std::size_t i = 0; i < pairs.size(); ++i) result += (i == 0 ? ":" : ",") + pairs[i];
  return result;
}

}  // namespace

TEST_CASE("policy: the canonical text of any spec reads back as the same spec", "[core][policy]") {
  std::mt19937_64 random(99);
  for (int i = 0; i < 5000; ++i) {
    const std::string text = random_text(random);
    INFO(text);
    const PolicySpec spec = PolicySpec::parse(text);
    REQUIRE(PolicySpec::parse(spec.to_string()) == spec);
    REQUIRE(PolicySpec::parse(spec.to_string()).to_string() == spec.to_string());
    REQUIRE(PolicySpec::parse(spec.written()) == spec);
    REQUIRE(PolicySpec::parse(spec.written()).unwritten == spec.unwritten);
  }
}

TEST_CASE("policy: the canonical text writes every parameter in the order of its declaration", "[core][policy]") {
  CHECK(PolicySpec::parse("full").to_string() == "full");
  CHECK(PolicySpec::parse("streaming").to_string() == "streaming:sinks=4,window=64");
  CHECK(PolicySpec::parse("threshold:window=128,threshold=-0.25").to_string() ==
        "threshold:threshold=-0.25,strict=0,sinks=4,window=128,read=0,pool=0,drop=0.1,observe=256");
  CHECK(PolicySpec::parse("kvpop").to_string() == "kvpop:budget=512,sinks=4,window=64,decay=1,stride=1");
  CHECK(PolicySpec::parse("kvpop: decay=0.9999 , keep=25%").to_string() ==
        "kvpop:keep=0.25,sinks=4,window=64,decay=0.9999,stride=1");
  CHECK(PolicySpec::parse("kvpop:compression=4x,stride=16").to_string() ==
        "kvpop:compression=4x,sinks=4,window=64,decay=1,stride=16");
  CHECK(PolicySpec::parse("threshold:threshold=-0").to_string() ==
        "threshold:threshold=0,strict=0,sinks=4,window=64,read=0,pool=0,drop=0.1,observe=256");
}

TEST_CASE("policy: a request says what was written, and leaves the rest open", "[core][policy]") {
  CHECK(PolicySpec::parse("full").written() == "full");
  CHECK(PolicySpec::parse("sp-kv").written() == "sp-kv");
  CHECK(PolicySpec::parse("sp-kv:threshold=0.5").written() == "sp-kv:threshold=0.5");  // the default, but written
  CHECK(PolicySpec::parse("kvpop:window=32,keep=25%").written() == "kvpop:keep=0.25,window=32");
  CHECK(PolicySpec::parse("kvpop").written() == "kvpop:budget=512");
  PolicySpec moved = PolicySpec::parse("sp-kv");
  moved.values["threshold"] = 0.7;  // by a slider
  CHECK(moved.written() == "sp-kv:threshold=0.7");
  CHECK_FALSE(moved.is_open("threshold"));
  CHECK(moved.is_open("window"));
  CHECK_FALSE(moved.is_open("budget"));
}

TEST_CASE("policy: a gate's own numbers are the defaults of what nobody wrote", "[core][policy]") {
  GateNumbers gate{.threshold = 0.9, .strict = true, .window = 32, .n_sink = 2};
  const auto text = [&](const char* policy) {
    const PolicySpec spec = with_gates(PolicySpec::parse(policy), {.scorer = &gate});
    CHECK(spec.unwritten.empty());
    return spec.to_string();
  };
  const std::string rest = ",read=0,pool=0,drop=0.1,observe=256";
  CHECK(text("sp-kv") == "sp-kv:threshold=0.9,strict=1,sinks=2,window=32" + rest);
  CHECK(text("sp-kv:threshold=0.5,sinks=0") == "sp-kv:threshold=0.5,strict=1,sinks=0,window=32" + rest);
  CHECK(text("wg-kv:strict=0") == "wg-kv:threshold=0.9,strict=0,sinks=2,window=32" + rest);
  CHECK(text("kvpop:keep=50%") == "kvpop:keep=0.5,sinks=2,window=32,decay=1,stride=1");
  // DMS counts the tokens behind the query, a gate the query's own too.
  CHECK(text("dms") == "dms:threshold=0.9,strict=1,sinks=2,window=31" + rest);
  CHECK(with_gates(PolicySpec::parse("dms"), {.scorer = &gate}).geometry(1000).window == 32);
  gate.has_decay = true;
  CHECK(text("kvpop:keep=50%") == "kvpop:keep=0.5,sinks=2,window=32,decay=learned,stride=1");
  CHECK(text("kvpop:keep=50%,decay=1") == "kvpop:keep=0.5,sinks=2,window=32,decay=1,stride=1");
  CHECK(with_gates(PolicySpec::parse("sp-kv"), {}).to_string() == PolicySpec::parse("sp-kv").to_string());
  gate.threshold = 1.5;
  CHECK_THROWS_WITH(text("sp-kv"), Contains("from the gate: threshold: \"1.5\"; expected a number from 0 to 1"));

  const GateNumbers heads{.window = 64, .n_sink = 4, .share = 0.25};
  CHECK(with_gates(PolicySpec::parse("duo"), {.heads = &heads}).to_string() ==
        "duo:full=0.25,count=0,sinks=4,window=64");
  CHECK(share_passing(std::vector<float>{0.5f, 0.4f, 0.6f, 0}, {.threshold = 0.5}) == 0.5);
  CHECK(share_passing(std::vector<float>{0.5f, 0.4f, 0.6f, 0}, {.threshold = 0.5, .strict = true}) == 0.25);
}

TEST_CASE("policy: decay=learned is a word, and each head's own number", "[core][policy]") {
  const PolicySpec spec = PolicySpec::parse("kvpop:budget=32,sinks=2,window=16,decay=learned");
  CHECK(spec.to_string() == "kvpop:budget=32,sinks=2,window=16,decay=learned,stride=1");
  CHECK(policy_json(spec, 200)["parameters"]["decay"] == "learned");
  CHECK(spec.geometry(200).log_gamma == 0);  // the heads' number is not one
  CHECK_THAT(parse_error("kvpop:decay=lerned"), Contains("from 1e-06 to 1, or learned"));
  std::mt19937_64 random(6);
  std::vector<float> scores(120);
  for (float& score : scores) score = static_cast<float>(random() % 1000) / 500 - 1;
  const std::vector<float> log_gamma = {0, std::log(0.9f), 0, std::log(0.99f)};
  std::vector<std::int32_t> evict_at(120), expected(120);
  for (int layer = 0; layer < 2; ++layer) {
    policy_lifetimes(spec, 120, {layer, 1, 2, 2, log_gamma}, scores, 120, evict_at);
    running_top_k(scores, {2, 16, 14, log_gamma[static_cast<std::size_t>(2 * layer + 1)], 1}, 120, expected);
    CHECK(evict_at == expected);
  }
  CHECK_THROWS_WITH(policy_lifetimes(spec, 120, scores, 120, evict_at),
                    Contains("decay: learned, but the gate has no log_gamma"));
}

TEST_CASE("policy: a default PolicySpec is the full cache", "[core][policy]") {
  CHECK(PolicySpec() == PolicySpec::parse("full"));
}

TEST_CASE("policy: three ways to say a budget give the same tokens", "[core][policy]") {
  for (const char* text : {"kvpop:budget=512", "kvpop:keep=25%", "kvpop:keep=0.25", "kvpop:keep= 25 %",
                           "kvpop:compression=4x", "kvpop:compression=4"}) {
    INFO(text);
    CHECK(PolicySpec::parse(text).budget_tokens(2048) == 512);
    CHECK(PolicySpec::parse(text).geometry(2048).top_k == 512 - 4 - 64);
    CHECK(PolicySpec::parse(text).geometry(2048).budget() == 512);
  }
  CHECK(PolicySpec::parse("kvpop:keep=29%").budget_tokens(100) == 29);  // 0.29 * 100 < 29 in floating point
  CHECK(PolicySpec::parse("kvpop:compression=3x").budget_tokens(1000) == 333);
  CHECK(PolicySpec::parse("kvpop:keep=100%").budget_tokens(777) == 777);
  CHECK(PolicySpec::parse("streaming:sinks=4,window=508").budget_tokens(2048) == 512);
  CHECK(PolicySpec::parse("full").budget_tokens(2048) == 0);
  CHECK(PolicySpec::parse("random").budget_tokens(2048) == 512);
  CHECK(PolicySpec::parse("random:admit=0.25").budget_tokens(2048) == 0);  // chance alone decides
  CHECK(describe_budget(512, 2048) == "512 tokens = 25 % of 2048, 4x");
}

TEST_CASE("policy: kvpop's geometry carries sinks, window, decay and stride", "[core][policy]") {
  const RetentionGeometry g = PolicySpec::parse("kvpop:budget=100,sinks=1,window=9,decay=0.5,stride=3").geometry(1000);
  CHECK(g.n_sink == 1);
  CHECK(g.window == 9);
  CHECK(g.top_k == 90);
  CHECK(g.log_gamma == std::log(0.5));
  CHECK(g.decay_stride == 3);
  CHECK(PolicySpec::parse("kvpop").geometry(1000).log_gamma == 0);
}

TEST_CASE("policy: a budget below sinks and window is an error that names all three", "[core][policy]") {
  const PolicySpec spec = PolicySpec::parse("kvpop:keep=25%,window=64,sinks=4");
  CHECK_NOTHROW(spec.geometry(272));  // 68 tokens, none of them by score
  CHECK(spec.geometry(272).top_k == 0);
  CHECK_THROWS_WITH(spec.geometry(240), Contains("60 tokens") && Contains("240") && Contains("sinks 4 + window 64"));
}

TEST_CASE("policy: unknown names and keys are errors that list what exists", "[core][policy]") {
  for (const char* text : {"kvpopp", "", ":budget=4", "KVPOP", "full\n"}) {
    INFO(text);
    CHECK_THAT(parse_error(text), Contains("full, streaming, kvpop, sp-kv"));
  }
  CHECK_THAT(parse_error("kvpop:bugdet=512"),
             Contains("bugdet") && Contains("budget, keep, compression, sinks, window, decay, stride"));
  CHECK_THAT(parse_error("streaming:budget=512"), Contains("budget") && Contains("one of sinks, window"));
  CHECK_THAT(parse_error("full:window=3"), Contains("no parameters"));
  CHECK_THAT(parse_error("kvpop:"), Contains("no key"));
  CHECK_THAT(parse_error("kvpop:budget=512,"), Contains("no key"));
  CHECK_THAT(parse_error("kvpop:evil\x1B[2J=1"), !Contains("\x1B"));
}

TEST_CASE("policy: a bad value names key, value and range", "[core][policy]") {
  for (const char* key : {"budget", "sinks", "window", "decay", "stride", "keep", "compression"}) {
    for (const char* value :
         {"inf", "-inf", "nan", "NaN", "1e99", "-1", "", "x", "4y", "0x10", "1,5", "--1", "1e999", "5 5"}) {
      const std::string error = parse_error("kvpop:" + std::string(key) + "=" + value);
      INFO(key << "=" << value << " gave: " << error);
      CHECK_THAT(error, Contains(key));
      const bool cut_at_comma = std::string(value) == "1,5";  // then "5" is an unknown key, or the 1 is refused
      if (!cut_at_comma)
        CHECK_THAT(error,
                   Contains(std::string("\"").append(value).append("\"")) && (Contains("from") || Contains("at most")));
    }
  }
  CHECK_THAT(parse_error("kvpop:window=0"), Contains("from 1 to 16777216"));
  CHECK_THAT(parse_error("kvpop:window=2.5"), Contains("whole number"));
  CHECK_THAT(parse_error("kvpop:decay=1.001"), Contains("\"1.001\"") && Contains("to 1"));
  CHECK_THAT(parse_error("kvpop:decay=0"), Contains("decay") && Contains("\"0\""));
  CHECK_THAT(parse_error("kvpop:keep=0"), Contains("keep"));
  CHECK_THAT(parse_error("kvpop:keep=25"), Contains("\"25\"") && Contains("percentage"));
  CHECK_THAT(parse_error("kvpop:keep=101%"), Contains("keep"));
  CHECK_THAT(parse_error("kvpop:compression=0.5x"), Contains("compression"));
  CHECK_THAT(parse_error("threshold:threshold=inf"), Contains("threshold"));
  CHECK_THAT(parse_error("kvpop:budget"), Contains("key=value"));
}

TEST_CASE("policy: a key given twice and two budgets are errors", "[core][policy]") {
  CHECK_THAT(parse_error("kvpop:window=8,window=8"), Contains("window") && Contains("twice"));
  CHECK_THAT(parse_error("kvpop:budget=512,keep=25%"), Contains("more than one of budget, keep and compression"));
  CHECK_THAT(parse_error("kvpop:keep=25%,compression=4x"), Contains("more than one"));
}

TEST_CASE("policy: value() gives defaults and refuses what is not declared", "[core][policy]") {
  CHECK(PolicySpec::parse("threshold:threshold=0.5").value("threshold") == 0.5);
  CHECK(PolicySpec::parse("streaming").value("window") == 64);
  CHECK_THROWS_AS(PolicySpec::parse("full").value("window"), std::invalid_argument);
}

TEST_CASE("policy: the policy of a run is run again as it was, whatever a gate would have it be", "[core][policy]") {
  const GateNumbers pooled{.window = 128, .n_sink = 4, .pool_interval = 32};
  const PolicySpec of_run = PolicySpec::parse(PolicySpec::parse("kvpop:keep=25%").closed().to_string());
  CHECK(with_gates(of_run, {.scorer = &pooled}) != of_run);  // its text does not say what most have: capacity=head
  CHECK(with_gates(of_run.closed(), {.scorer = &pooled}) == of_run);
  CHECK(PolicySpec::parse(of_run.closed().written()).unwritten.empty());
}

TEST_CASE("policy: every policy declares itself completely", "[core][policy]") {
  for (const PolicyInfo& info : policy_list()) {
    INFO(info.name);
    CHECK(find_policy(info.name) == &info);
    CHECK_FALSE(info.title.empty());
    CHECK_FALSE(info.definition.empty());
    CHECK_NOTHROW(PolicySpec::parse(info.name).geometry(4096));
    for (const ParameterInfo& parameter : info.parameters) {
      INFO(parameter.name);
      CHECK_FALSE(parameter.definition.empty());
      const bool word = !parameter.word.empty() && parameter.default_value == kWordValue;
      CHECK((word || parameter.min <= parameter.default_value));
      CHECK(parameter.default_value <= parameter.max);
    }
  }
  CHECK(find_policy("attention-sinks-of-tomorrow") == nullptr);
}

TEST_CASE("policy: the lifetimes of every policy are those of its rule", "[core][policy]") {
  std::mt19937_64 random(4);
  std::vector<float> scores(120);
  for (float& score : scores) score = static_cast<float>(random() % 1000) / 500 - 1;
  const auto lifetimes = [&](const char* text, std::vector<Contest>* contests = nullptr) {
    std::vector<std::int32_t> evict_at(120);
    policy_lifetimes(PolicySpec::parse(text), 120, scores, 120, evict_at, contests);
    return evict_at;
  };
  std::vector<std::int32_t> expected(120);

  const std::vector<std::int32_t> full = lifetimes("full");
  for (int t = 0; t < 120; ++t) CHECK(full[t] == (t < 120 - 64 ? kNever : kUndecided));

  replay(*make_streaming_rule(), false, {}, 2, 16, 120, expected, nullptr);
  CHECK(lifetimes("streaming:sinks=2,window=16") == expected);

  replay(*make_threshold_rule(0.25f), true, scores, 2, 16, 120, expected, nullptr);
  CHECK(lifetimes("threshold:threshold=0.25,sinks=2,window=16") == expected);

  std::vector<Contest> contests, expected_contests;
  running_top_k(scores, {2, 16, 14, std::log(0.99), 4}, 120, expected, &expected_contests);
  CHECK(lifetimes("kvpop:budget=32,sinks=2,window=16,decay=0.99,stride=4", &contests) == expected);
  CHECK(contests == expected_contests);
  CHECK(contests.size() == 120 - 16 - 2 - 14);
}

TEST_CASE("policy: a rule that needs scores refuses too few of them", "[core][policy]") {
  std::vector<std::int32_t> evict_at(100);
  const std::vector<float> scores(35, 0.0f);
  CHECK_THROWS_WITH(policy_lifetimes(PolicySpec::parse("kvpop"), 100, scores, 100, evict_at), Contains("35 scores"));
  CHECK_THROWS_AS(policy_lifetimes(PolicySpec::parse("threshold"), 100, {}, 100, evict_at), Error);
  CHECK_NOTHROW(policy_lifetimes(PolicySpec::parse("kvpop"), 100, scores, 99, evict_at));  // 99 - 64 = 35 have left
  CHECK_NOTHROW(policy_lifetimes(PolicySpec::parse("streaming"), 100, {}, 100, evict_at));
}

TEST_CASE("policy: as JSON it has its name, parameters, the budget in three units and the geometry", "[core][policy]") {
  const auto json = policy_json(PolicySpec::parse("kvpop:keep=25%,sinks=2,window=16,decay=0.99"), 200);
  CHECK(json["name"] == "kvpop");
  CHECK(json["parameters"]["sinks"] == 2);
  CHECK(json["parameters"]["decay"] == 0.99);
  CHECK_FALSE(json["parameters"].contains("budget"));
  CHECK(json["budget"].dump() == R"({"tokens":50,"kept_fraction":0.25,"compression_factor":4.0})");
  CHECK(json["geometry"].dump() == R"({"n_sink":2,"window":16,"top_k":32})");
  // The same budget in another unit is the same budget.
  CHECK(policy_json(PolicySpec::parse("kvpop:compression=4,sinks=2,window=16,decay=0.99"), 200) == json);

  CHECK(policy_json(PolicySpec::parse("h2o:prefill=sparse"), 2000)["parameters"]["prefill"] == "sparse");
  CHECK(policy_json(PolicySpec::parse("full"), 200)["budget"].is_null());
  CHECK(policy_json(PolicySpec::parse("streaming:sinks=4,window=16"), 200)["budget"]["tokens"] == 20);
  const auto impossible = policy_json(PolicySpec::parse("kvpop:budget=8,sinks=4,window=16"), 0);
  CHECK(impossible["geometry"].is_null());
  CHECK(impossible["budget"]["tokens"] == 8);
  CHECK(impossible["budget"]["kept_fraction"].is_null());
}

TEST_CASE("policy: check() refuses what parse() refuses, in the same words", "[core][policy]") {
  const auto words = [](const PolicySpec& spec) {
    try {
      spec.check();
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::usage);
      return std::string(error.what());
    }
    return std::string();
  };
  for (const PolicyInfo& info : policy_list()) CHECK(words(PolicySpec::parse(info.name)).empty());
  PolicySpec spec = PolicySpec::parse("kvpop");
  spec.values["decay"] = 1.5;
  CHECK(words(spec) == parse_error("kvpop:decay=1.5"));
  spec.values["decay"] = std::nan("");
  CHECK_THAT(words(spec), Contains("decay"));
  spec = PolicySpec::parse("kvpop");
  spec.values["window"] = 2.5;
  CHECK(words(spec) == parse_error("kvpop:window=2.5"));
  for (const auto& [kind, value, text] : {std::tuple{BudgetSpec::Kind::tokens, 0.0, "kvpop:budget=0"},
                                          std::tuple{BudgetSpec::Kind::keep, 1.5, "kvpop:keep=1.5"},
                                          std::tuple{BudgetSpec::Kind::compression, 0.5, "kvpop:compression=0.5x"}}) {
    spec = PolicySpec::parse("kvpop");
    spec.budget = BudgetSpec{kind, value};
    CHECK(words(spec) == parse_error(text));
  }
  spec = PolicySpec::parse("tova");
  spec.values["prefill"] = 2;
  CHECK_THAT(words(spec), Contains("one of dense, sparse"));
}

TEST_CASE("What is read of a policy has four digits of a number, and what it is run by has all of them", "[policy]") {
  const PolicySpec policy = PolicySpec::parse("hybrid:heads=c,full=0.8666666666666667,window=131072");
  CHECK_THAT(policy.brief(), Contains("full=0.8667,") && Contains("window=131072"));
  CHECK_THAT(policy.to_string(), Contains("full=0.8666666666666667,"));
  CHECK(PolicySpec::parse(policy.to_string()) == policy);
  CHECK(PolicySpec::parse(policy.written()) == policy);
  CHECK_THAT(PolicySpec::parse("kvpop:keep=0.9574468085").brief(), Contains("keep=0.9574,"));
  CHECK(PolicySpec::parse("sp-kv:threshold=0.5375").brief() == PolicySpec::parse("sp-kv:threshold=0.5375").to_string());
}
