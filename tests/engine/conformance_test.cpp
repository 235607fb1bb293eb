// What every policy has to keep to, whatever it does: one suite over all of them.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "engine/core/policy/policy.h"
#include "engine/core/policy/policy_parameters.h"
#include "engine/decode/eviction/slot_cache.h"
#include "engine/model/device.h"
#include "tests/engine/gated_model.h"
#include "tests/engine/policy_cases.h"
#include "tests/support/skip.h"
#include "tests/support/torch_catch.h"  // before LibTorch

namespace kvscope {
namespace {

constexpr int kTokens = 140, kPrompt = 61;

using test::PolicyCase;

/// Under a gate whose scores come six tokens late: they wait for the window's end, in a ring where that is longer.
const PolicyCase kAhead[] = {
    {"sp-kv:threshold=0.5,sinks=2,window=16", "sp-kv:threshold=0,window=16"},
    {"sp-kv:threshold=0.5,window=6", "sp-kv:threshold=0,window=6"},
    {"top-k:budget=40,sinks=4,window=16,decay=0.97,stride=8", "top-k:budget=512,window=16"},
};

GateFile gate_ahead() { return test::random_gate(GateKind::sp_kv, /*delay=*/0, /*kernel=*/13); }

const std::vector<PolicyCase>& cases() {
  static const std::vector<PolicyCase> all = [] {
    std::vector<PolicyCase> out = test::policy_cases();
    out.insert(out.end(), std::begin(kAhead), std::end(kAhead));
    return out;
  }();
  return all;
}

std::size_t some_case() { return GENERATE(range(std::size_t{0}, cases().size())); }

bool is_ahead(std::size_t index) { return index >= test::policy_cases().size(); }

const engine::LoadedModel& model_of(std::size_t index) {
  static const engine::LoadedModel ahead = test::gated_model({gate_ahead()});
  return is_ahead(index) ? ahead : test::model_of_every_policy();
}

RetentionPlan plan_of(const std::string& policy) {
  const PolicySpec spec = PolicySpec::parse(policy);
  return policy_of(spec).plan(spec, spec.geometry(kTokens));
}

int count_or_none(const PolicySpec& spec, const char* parameter) {
  return spec.has(parameter) ? spec.count(parameter) : 0;
}

/// Its rule has a window: the parameter is not there for the metrics alone.
bool has_window(const std::string& policy) {
  return std::ranges::none_of(find_policy(policy)->parameters,
                              [](const ParameterInfo& one) { return one.definition == kWindowOfMetrics; });
}

/// It evicts many tokens at once, between two steps.
bool compresses(const RetentionPlan& plan) { return !plan.eviction.empty() && plan.admission != Admission::least; }

/// One run, step by step, and what the cache holds after each.
struct Watched {
  std::vector<StepFacts> facts;                              // of the prompt, then of each step
  std::vector<std::vector<std::vector<std::int32_t>>> kept;  // after each: [head][positions, ascending]
  std::vector<HeadRules> heads;                              // after each, as RunRecord has them
  std::vector<float> logits;
};

Watched watch(const engine::LoadedModel& model, const std::string& policy, const std::vector<std::int32_t>& ids,
              int prompt_len = kPrompt) {
  engine::Generation run(model, test::request({ids.begin(), ids.begin() + prompt_len}, policy, kTokens - prompt_len));
  Watched out;
  const auto look = [&](StepFacts facts) {
    out.facts.push_back(std::move(facts));
    out.heads.push_back(run.heads());
    out.kept.emplace_back();
    for (int layer = 0; layer < model.config().n_layers; ++layer) {
      for (int head = 0; head < model.config().n_kv_heads; ++head) {
        out.kept.back().push_back(run.cache().positions(layer, head));
      }
    }
  };
  look(run.prefill());
  for (std::size_t i = static_cast<std::size_t>(prompt_len); i < ids.size(); ++i) look(run.step_forced(ids[i]));
  out.logits.assign(run.logits().begin(), run.logits().end());
  return out;
}

/// Tokens so far after entry i of a Watched.
int tokens_after(std::size_t i) { return kPrompt + static_cast<int>(i); }

bool same(const StepFacts& a, const StepFacts& b) {
  const auto cells = [](const StepFacts& facts) {
    std::vector<std::array<std::int32_t, 4>> out;
    for (const auto& l : facts.lifetimes) out.push_back({l.layer, l.kv_head, l.token, l.evict_at});
    return out;
  };
  const auto values = [](const StepFacts& facts) {
    std::vector<float> out;
    for (const auto& s : facts.scores) out.push_back(std::isnan(s.value) ? -1e30f : s.value);
    return out;
  };
  return cells(a) == cells(b) && values(a) == values(b) && a.contests == b.contests && a.reads == b.reads &&
         a.n_tokens == b.n_tokens;
}

TEST_CASE("conformance: a policy without a row is held to its declaration", "[engine][conformance]") {
  CHECK(test::of_declaration(*find_policy("kvpop")).policy == "kvpop:budget=40,window=16");
  CHECK(test::of_declaration(*find_policy("kvpop")).dense == "kvpop:budget=512,window=16");
  CHECK(test::of_declaration(*find_policy("full")).policy == "full");
  std::set<std::string_view> named;
  for (const PolicyCase& one : cases()) named.insert(std::string_view(one.policy).substr(0, one.policy.find(':')));
  for (const PolicyInfo& info : policy_list()) CHECK(named.contains(info.name));
}

TEST_CASE("conformance: changing later tokens never changes an earlier decision", "[engine][conformance]") {
  const std::size_t index = some_case();
  const std::string policy = cases()[index].policy;
  CAPTURE(policy);
  const std::vector<std::int32_t> ids = test::some_ids(kTokens);
  constexpr int kSame = kPrompt + 40;
  std::vector<std::int32_t> other = ids;
  for (int i = kSame; i < kTokens; ++i)
    other[static_cast<std::size_t>(i)] = (other[static_cast<std::size_t>(i)] + 1) % 512;
  const Watched a = watch(model_of(index), policy, ids), b = watch(model_of(index), policy, other);
  for (std::size_t i = 0; tokens_after(i) <= kSame; ++i) {
    CAPTURE(i);
    REQUIRE(same(a.facts[i], b.facts[i]));
    REQUIRE(a.kept[i] == b.kept[i]);
  }
  CHECK(a.logits != b.logits);  // the change was one
}

TEST_CASE("conformance: the same run twice is the same run", "[engine][conformance]") {
  const std::size_t index = some_case();
  const std::string policy = cases()[index].policy;
  CAPTURE(policy);
  const std::vector<std::int32_t> ids = test::some_ids(kTokens, 512, 2);
  const Watched a = watch(model_of(index), policy, ids), b = watch(model_of(index), policy, ids);
  for (std::size_t i = 0; i < a.facts.size(); ++i) REQUIRE(same(a.facts[i], b.facts[i]));
  CHECK(a.kept == b.kept);
  CHECK(a.logits == b.logits);
}

TEST_CASE("conformance: the cache holds what the told lifetimes say, and nothing comes back", "[engine][conformance]") {
  const std::size_t index = some_case();
  const std::string policy = cases()[index].policy;
  CAPTURE(policy);
  const Watched run = watch(model_of(index), policy, test::some_ids(kTokens, 512, 3));
  std::vector<std::map<std::int32_t, std::int32_t>> evicted(run.kept[0].size());  // [head] token -> evict_at
  bool anything_left = false;
  for (std::size_t i = 0; i < run.facts.size(); ++i) {
    CAPTURE(i);
    for (const auto& l : run.facts[i].lifetimes) {
      auto& of_head = evicted[static_cast<std::size_t>(l.layer * 2 + l.kv_head)];
      REQUIRE(l.token < l.evict_at);
      REQUIRE(l.evict_at <= tokens_after(i));
      REQUIRE(of_head.emplace(l.token, l.evict_at).second);  // once and for all
      anything_left = true;
    }
    // TOVA and H2O decide after a query; the cache hears of it with the next.
    for (std::size_t head = 0; head < evicted.size(); ++head) {
      std::vector<std::int32_t> expected;
      for (std::int32_t t = 0; t < tokens_after(i); ++t) {
        if (!evicted[head].contains(t)) expected.push_back(t);
      }
      REQUIRE(run.kept[i][head] == expected);
    }
  }
  const RetentionPlan plan = plan_of(policy);
  const bool keeps_all = policy == "full" || plan.selection.tokens > 0 || policy.starts_with("hybrid:heads=a");
  if (!keeps_all) CHECK(anything_left);  // of two layers strategy A makes both global
}

TEST_CASE("conformance: no head is ever over its budget, and the pool is no larger", "[engine][conformance]") {
  const std::size_t index = some_case();
  const std::string policy = cases()[index].policy;
  CAPTURE(policy);
  const PolicySpec spec = PolicySpec::parse(policy);
  const RetentionPlan plan = plan_of(policy);
  const int of_policy = spec.geometry(kTokens).budget(), pool = count_or_none(spec, "pool"),
            interval = count_or_none(spec, "interval");
  const Watched run = watch(model_of(index), policy, test::some_ids(kTokens, 512, 4));
  for (std::size_t i = 0; i < run.kept.size(); ++i) {
    CAPTURE(i);
    std::size_t held = 0;
    int sum = 0;
    for (std::size_t head = 0; head < run.kept[i].size(); ++head) {
      const int budget = run.heads[i].empty() ? of_policy : run.heads[i][head].budget();
      const std::size_t n = run.kept[i][head].size();
      held += n;
      sum += budget;
      if (plan.is_pooled()) continue;  // a head may have what the others leave
      if (compresses(plan) && pool == 0) {
        const int since = interval > 0 ? static_cast<int>(i) % interval : static_cast<int>(i);
        REQUIRE(n <= static_cast<std::size_t>(budget + since));
      } else if (plan.has_fixed_budget()) {
        // The query that makes a cache too large has still seen all of it.
        REQUIRE(n <= static_cast<std::size_t>(budget + (plan.admission == Admission::least ? 1 : 0)));
      }
    }
    if (plan.allocation.kind != Allocation::Kind::uniform)
      REQUIRE(sum == of_policy * static_cast<int>(run.kept[i].size()));
    // A dense prompt is cut before the first query behind it.
    if (plan.is_pooled() && (i > 0 || plan.cut_interval > 0))
      REQUIRE(held <= run.kept[i].size() * static_cast<std::size_t>(of_policy));
    if (pool > 0) {
      const RetentionGeometry geometry = spec.geometry(kTokens);
      const std::size_t fixed = run.kept[i].size() * static_cast<std::size_t>(geometry.window + geometry.n_sink);
      REQUIRE(held <= fixed + run.kept[i].size() * static_cast<std::size_t>(pool));
    }
  }
}

TEST_CASE("conformance: sinks and window are kept", "[engine][conformance]") {
  const std::size_t index = some_case();
  const std::string policy = cases()[index].policy;
  CAPTURE(policy);
  const PolicySpec spec = PolicySpec::parse(policy);
  const RetentionPlan plan = plan_of(policy);
  const RetentionGeometry geometry = spec.geometry(kTokens);
  // A window that is the metrics' alone protects nothing.
  const int protect = plan.admission == Admission::least           ? plan.protect
                      : spec.name == "expected-attention"          ? spec.count("protect")
                      : compresses(plan) && !has_window(spec.name) ? 0
                                                                   : geometry.window;
  const Watched run = watch(model_of(index), policy, test::some_ids(kTokens, 512, 5));
  for (std::size_t i = 0; i < run.kept.size(); ++i) {
    const int n = tokens_after(i);
    for (const auto& positions : run.kept[i]) {
      for (int t = 0; t < geometry.n_sink; ++t) REQUIRE(std::binary_search(positions.begin(), positions.end(), t));
      for (int t = std::max(0, n - protect); t < n; ++t)
        REQUIRE(std::binary_search(positions.begin(), positions.end(), t));
    }
  }
}

TEST_CASE("conformance: a policy that has no reason to evict is the full cache", "[engine][conformance]") {
  const std::size_t index = some_case();
  const std::string policy = cases()[index].dense;
  CAPTURE(policy);
  const std::vector<std::int32_t> ids = test::some_ids(kTokens, 512, 6);
  const Watched full = watch(model_of(index), "full", ids), run = watch(model_of(index), policy, ids);
  CHECK(run.kept == full.kept);
  CHECK(test::relative_difference(run.logits, full.logits) < 1e-5);
}

/// Not if it was published with a dense prompt, or with an eviction that only tokens of the answer cause: there it is
/// another method. Budgets that follow from the prompt's scores need one.
bool is_same_one_by_one(const std::string& policy) {
  const RetentionPlan plan = plan_of(policy);
  return !plan.allocation.by_score() && !plan.dense_prefill && (!compresses(plan) || plan.cut_interval > 0) &&
         plan.selection.tokens == 0;
}

TEST_CASE("conformance: a sparse prompt leaves the cache, lifetimes and logits of its tokens one by one",
          "[engine][conformance]") {
  const std::size_t index = some_case();
  const std::string policy = cases()[index].policy;
  if (!is_same_one_by_one(policy)) return;
  CAPTURE(policy);
  const std::vector<std::int32_t> ids = test::some_ids(kTokens, 512, 7);
  const test::Fed at_once = test::feed(model_of(index), ids, kTokens, policy),
                  stepped = test::feed(model_of(index), ids, 1, policy);
  CHECK(at_once.kept == stepped.kept);
  CHECK(at_once.record.evict_at == stepped.record.evict_at);
  CHECK(test::relative_difference(stepped.logits, at_once.logits) < 1e-4);
}

TEST_CASE("conformance: in every family a sparse prompt leaves the cache and logits of its tokens one by one",
          "[engine][conformance][family]") {
  const ModelFamily& family = test::some_family();
  const std::string policy = cases()[some_case()].policy;
  CAPTURE(family.architecture, policy);
  const engine::LoadedModel& model = test::family_model_of_every_policy(family);
  const std::vector<std::int32_t> ids = test::some_ids(kTokens, 512, 7);
  if (!is_same_one_by_one(policy)) return;
  const test::Fed at_once = test::feed(model, ids, kTokens, policy), stepped = test::feed(model, ids, 1, policy);
  CHECK(at_once.kept == stepped.kept);
  CHECK(at_once.record.evict_at == stepped.record.evict_at);
  CHECK(test::relative_difference(stepped.logits, at_once.logits) < 1e-4);
}

TEST_CASE("conformance: CPU and CUDA keep the same tokens", "[engine][conformance][cuda]") {
  if (engine::cuda_status().n_devices == 0) return test::skip("no CUDA device");
  const std::size_t index = some_case();
  const std::string policy = cases()[index].policy;
  CAPTURE(policy);
  static const engine::LoadedModel every = test::gated_model(test::gates_of_every_kind(), "cuda"),
                                   ahead = test::gated_model({gate_ahead()}, "cuda");
  const engine::LoadedModel& on_cuda = is_ahead(index) ? ahead : every;
  const std::vector<std::int32_t> ids = test::some_ids(kTokens, 512, 8);
  const Watched cpu = watch(model_of(index), policy, ids), cuda = watch(on_cuda, policy, ids);
  CHECK(test::relative_difference(cuda.logits, cpu.logits) < 1e-3);
  // Two backends sum in different orders; a tie within rounding may fall either way, which a run of random numbers
  // does not have.
  CHECK(cuda.kept == cpu.kept);
}

TEST_CASE("conformance: CPU and CUDA keep the same tokens of a model with heads of 256 channels",
          "[engine][conformance][cuda]") {
  if (engine::cuda_status().n_devices == 0) return test::skip("no CUDA device");
  const std::string policy = test::policy_cases()[GENERATE(range(std::size_t{0}, test::policy_cases().size()))].policy;
  CAPTURE(policy);
  static const ModelConfig wide = test::wide_config();
  static const engine::LoadedModel on_cpu = test::gated_model(test::gates_of_every_kind(wide), "cpu", "float32", wide),
                                   on_cuda =
                                       test::gated_model(test::gates_of_every_kind(wide), "cuda", "float32", wide);
  const std::vector<std::int32_t> ids = test::some_ids(kTokens, 512, 8);
  const Watched cpu = watch(on_cpu, policy, ids), cuda = watch(on_cuda, policy, ids);
  CHECK(test::relative_difference(cuda.logits, cpu.logits) < 1e-3);
  CHECK(cuda.kept == cpu.kept);
}

}  // namespace
}  // namespace kvscope
