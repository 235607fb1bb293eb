// What a run's policy is where nobody wrote all of it: the gate's own numbers, then the method's.
#include <algorithm>
#include <cmath>
#include <map>

#include "engine/core/lifetime/lifetime_map.h"
#include "engine/core/support/error.h"
#include "engine/decode/eviction/observed_attention.h"
#include "tests/engine/gated_model.h"
#include "tests/support/torch_catch.h"  // before LibTorch

namespace kvscope {
namespace {

using Catch::Matchers::Contains;

constexpr int kTokens = 96, kPrompt = 50;

const std::vector<std::int32_t>& ids() {
  static const std::vector<std::int32_t> all = test::some_ids(kTokens, 512, 51);
  return all;
}

/// The policy that a run records, as text.
std::string recorded(const engine::LoadedModel& model, const std::string& policy) {
  return test::feed(model, ids(), kPrompt, policy).record.policy.to_string();
}

std::string error_of(const engine::LoadedModel& model, const std::string& policy) {
  try {
    recorded(model, policy);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

GateFile gate_of(GateKind kind, double threshold, int window, int n_sink, bool strict) {
  GateFile gate = test::random_gate(kind);
  gate.config.threshold = threshold;
  gate.config.window = window;
  gate.config.n_sink = n_sink;
  gate.config.strict = strict;
  return gate;
}

/// A KVpop gate of which every head has a decay of its own.
GateFile decaying_gate(GateKind kind = GateKind::kvpop_mlstm) {
  GateFile gate = test::random_gate(kind, kind == GateKind::kvpop_mlstm ? 16 : 0);
  gate.tensors["log_gamma"] = {{2, 2}, {std::log(0.9f), 0.0f, std::log(0.99f), std::log(0.7f)}};
  return gate;
}

TEST_CASE("policy defaults: a run takes threshold, window, sinks and strictness of its gate, and records them",
          "[engine][policy][gate]") {
  const engine::LoadedModel model = test::gated_model({gate_of(GateKind::sp_kv, 0.53, 24, 3, true)});
  const std::string rest = ",read=0,pool=0,drop=0.1,observe=256";
  CHECK(recorded(model, "sp-kv") == "sp-kv:threshold=0.53,strict=1,sinks=3,window=24" + rest);
  CHECK(recorded(model, "threshold") == "threshold:threshold=0.53,strict=1,sinks=3,window=24" + rest);
  CHECK(recorded(model, "top-k:budget=64") == "top-k:budget=64,sinks=3,window=24,decay=1,stride=1");
  CHECK(recorded(model, "hybrid:on=threshold") ==
        "hybrid:heads=a,full=1,count=0,on=threshold,threshold=0.53,strict=1,sinks=3,window=24,seed=0");
  // What was written wins, a default's own value too.
  CHECK(recorded(model, "sp-kv:threshold=0.5,window=20") == "sp-kv:threshold=0.5,strict=1,sinks=3,window=20" + rest);
  // Policies that read no gate have their own numbers.
  CHECK(recorded(model, "streaming") == "streaming:sinks=4,window=64");
  CHECK(recorded(model, "hybrid") ==
        "hybrid:heads=a,full=1,count=0,on=keep,threshold=0.5,strict=0,sinks=0,window=128,seed=0");
}

TEST_CASE("policy defaults: lifetimes follow the gate's threshold, not the method's", "[engine][policy][gate]") {
  const engine::LoadedModel model = test::gated_model({gate_of(GateKind::sp_kv, 0.53, 24, 3, false)});
  const RunRecord run = test::feed(model, ids(), kPrompt, "sp-kv").record;
  int kept = 0, dropped = 0;
  for (int head = 0; head < 2; ++head) {
    for (int t = 3; t + 24 < kTokens; ++t) {
      const float score = run.scores.row(0, head)[static_cast<std::size_t>(t)];
      const bool stays = score >= 0.53f;
      REQUIRE(run.evict_at.row(0, head)[static_cast<std::size_t>(t)] == (stays ? kNever : t + 24));
      ++(stays ? kept : dropped);
    }
  }
  CHECK(kept > 0);
  CHECK(dropped > 0);
}

TEST_CASE("policy defaults: a score that equals the threshold stays unless the gate, or who asks, is strict",
          "[engine][policy][gate]") {
  GateFile gate = gate_of(GateKind::sp_kv, 0.5, 16, 0, true);
  gate.config.scale = 0;  // every utility is sigmoid(0) = 0.5
  const engine::LoadedModel model = test::gated_model({gate});
  const auto kept = [&](const char* policy) {
    return test::feed(model, ids(), kPrompt, policy).record.evict_at.row(0, 0)[5] == kNever;
  };
  CHECK_FALSE(kept("sp-kv"));
  CHECK(kept("sp-kv:strict=0"));
}

TEST_CASE("policy defaults: a DMS model's window is counted as DMS counts", "[engine][policy][gate]") {
  // dms_window_size 90: the query and 90 behind it, 91 in a gate's own words.
  const engine::LoadedModel model = test::gated_model({gate_of(GateKind::dms, 0, 31, 0, false)});
  const RunRecord run = test::feed(model, ids(), kPrompt, "dms").record;
  CHECK(run.policy.count("window") == 30);
  CHECK(run.geometry().window == 31);
  for (int t = 0; t + 31 < kTokens; ++t) {
    const std::int32_t evict_at = run.evict_at.row(0, 0)[static_cast<std::size_t>(t)];
    REQUIRE((evict_at == kNever || evict_at == t + 31));
  }
}

TEST_CASE("policy defaults: a head directory gives sinks, window and as many full heads as reach its threshold",
          "[engine][policy][gate]") {
  GateFile gate = gate_of(GateKind::duo, 0.5, 20, 2, false);
  gate.tensors["alpha"].values = {1, 0, 0, 0};
  const engine::LoadedModel model = test::gated_model({gate});
  const RunRecord run = test::feed(model, ids(), kPrompt, "duo").record;
  CHECK(run.policy.to_string() == "duo:full=0.25,count=0,sinks=2,window=20");
  CHECK(run.local_heads() == std::vector<std::uint8_t>{0, 1, 1, 1});
  CHECK(recorded(model, "hybrid:heads=d") ==
        "hybrid:heads=d,full=0.25,count=0,on=keep,threshold=0.5,strict=0,sinks=2,window=20,seed=0");
  CHECK(recorded(model, "duo:full=0.5") == "duo:full=0.5,count=0,sinks=2,window=20");
}

TEST_CASE("policy defaults: a number of the gate that the policy may not have is refused, and writing one helps",
          "[engine][policy][gate]") {
  const engine::LoadedModel model = test::gated_model({gate_of(GateKind::sp_kv, 7, 16, 0, false)});
  CHECK_THAT(error_of(model, "sp-kv"),
             Contains("sp-kv, from the gate: threshold: \"7\"; expected a number from 0 to 1"));
  CHECK(error_of(model, "sp-kv:threshold=0.5") == "no error");
}

TEST_CASE("policy defaults: a policy that changes in mid-run takes the gate's numbers too", "[engine][policy][gate]") {
  const engine::LoadedModel model = test::gated_model({gate_of(GateKind::sp_kv, 0.53, 24, 3, true)});
  engine::Generation run(model, test::request({ids().begin(), ids().begin() + kPrompt}, "sp-kv", 10));
  run.prefill();
  run.change_policy(PolicySpec::parse("sp-kv:threshold=0.6"), nullptr);
  CHECK(run.request().policy.value("threshold") == 0.6);
  CHECK(run.request().policy.value("window") == 24);
  CHECK(run.request().policy.unwritten.empty());
}

TEST_CASE("policy defaults: every head decays by its own log_gamma, in a prompt and in decode steps",
          "[engine][policy][gate]") {
  const GateKind kind = GENERATE(GateKind::kvpop_mlstm, GateKind::kvpop_linear);
  const std::string stride = GENERATE("1", "8");
  const GateFile gate = decaying_gate(kind);
  const engine::LoadedModel model = test::gated_model({gate});
  const std::string policy = "kvpop:budget=32,sinks=2,window=16,stride=" + stride;
  const test::Fed at_once = test::feed(model, ids(), kTokens, policy), stepped = test::feed(model, ids(), 1, policy);
  CHECK(at_once.record.policy.to_string() == "kvpop:budget=32,sinks=2,window=16,decay=learned,stride=" + stride);
  CHECK(at_once.record.log_gamma() == gate.tensors.at("log_gamma").values);
  CHECK(at_once.kept == stepped.kept);
  CHECK(at_once.record.evict_at == stepped.record.evict_at);
  for (int head = 0; head < 2; ++head) {
    const RetentionGeometry geometry = at_once.record.geometry(0, head);
    CHECK(geometry.log_gamma == gate.tensors.at("log_gamma").values[static_cast<std::size_t>(head)]);
    std::vector<std::int32_t> expected(kTokens);
    std::vector<float> scores = at_once.record.scores.row(0, head);
    running_top_k(scores, geometry, kTokens, expected);
    CHECK(at_once.record.evict_at.row(0, head) == expected);
    std::vector<std::int32_t> without(kTokens);
    running_top_k(scores, at_once.record.geometry(), kTokens, without);
    CHECK((without == expected) == (head == 1));  // of which log_gamma is 0
  }
}

TEST_CASE("policy defaults: a smaller budget evicts by each head's own decay", "[engine][policy][gate]") {
  const GateFile gate = decaying_gate();
  const engine::LoadedModel model = test::gated_model({gate});
  engine::Generation run(model, test::request({ids().begin(), ids().begin() + 80}, "kvpop:budget=64,window=16", 10));
  std::map<std::int32_t, float> scores[4];
  for (const auto& s : run.prefill().scores) scores[s.layer * 2 + s.kv_head][s.token] = s.value;
  std::vector<std::vector<std::int32_t>> before;
  for (int head = 0; head < 4; ++head) before.push_back(run.cache().positions(head / 2, head % 2));
  run.change_policy(PolicySpec::parse("kvpop:budget=40,window=16"), nullptr);
  for (int head = 0; head < 4; ++head) {
    CAPTURE(head);
    // Sinks and window stay, and of the others the 20 of greatest effective score.
    std::vector<std::pair<float, std::int32_t>> free;
    std::vector<std::int32_t> expected;
    for (const std::int32_t t : before[static_cast<std::size_t>(head)]) {
      if (t < 4 || t >= 64)
        expected.push_back(t);
      else
        free.emplace_back(-effective_score(scores[head].at(t), t, 80,
                                           gate.tensors.at("log_gamma").values[static_cast<std::size_t>(head)], 1),
                          t);
    }
    std::sort(free.begin(), free.end());
    for (int i = 0; i < 20; ++i) expected.push_back(free[static_cast<std::size_t>(i)].second);
    std::sort(expected.begin(), expected.end());
    CHECK(run.cache().positions(head / 2, head % 2) == expected);
  }
}

TEST_CASE("policy defaults: a learned decay is refused where the gate has none, and may be left aside",
          "[engine][policy][gate]") {
  const engine::LoadedModel without = test::gated_model({test::random_gate(GateKind::kvpop_mlstm, 16)});
  CHECK_THAT(error_of(without, "kvpop:decay=learned"),
             Contains("decay: learned, but the gate has no log_gamma; expected a gate with a decay for each KV head"));
  CHECK_THAT(recorded(without, "kvpop"), Contains("decay=1"));
  const engine::LoadedModel with = test::gated_model({decaying_gate()});
  const RunRecord run = test::feed(with, ids(), kPrompt, "kvpop:decay=0.5").record;
  CHECK(run.log_gamma().empty());
  CHECK(run.geometry(1, 1).log_gamma == std::log(0.5));
}

TEST_CASE("policy rules: SnapKV and the pool watch the queries that their papers name", "[engine][policy]") {
  const auto read = [](const char* policy, engine::ReadObservation of) {
    const PolicySpec spec = PolicySpec::parse(policy);
    return of(spec, spec.geometry(1000));
  };
  // WG-KV App. K: maximum over the group, sum over 256 queries, maximum over 5, a tenth at a time; SnapKV as kvpress.
  CHECK(read("wg-kv:pool=100", engine::pool_observation) == engine::Observation{256, 5, true, true});
  CHECK(PolicySpec::parse("wg-kv:pool=100").value("drop") == 0.1);
  // Observers are not scored, so that the window has to protect all of them.
  CHECK(read("sp-kv:pool=100", engine::pool_observation).n_queries == 128);
  CHECK(read("sp-kv:pool=100,observe=100", engine::pool_observation).n_queries == 100);
  CHECK(read("snapkv", engine::snapkv_observation) == engine::Observation{64, 5, false, false});
  CHECK(PolicySpec::parse("snapkv").geometry(1000).budget() == 512);
}

}  // namespace
}  // namespace kvscope
