// Recall, chance, mass recall and verdicts of every policy, from the run's lifetimes and the model's own attention alone:
// loops in double precision that share nothing with the engine's transposed pass or with the core's oracle.

#include <algorithm>
#include <cmath>
#include <set>

#include "engine/core/policy/policy.h"
#include "engine/core/study/measure/oracle.h"
#include "engine/decode/run.h"
#include "tests/engine/plain_layer.h"
#include "tests/engine/policy_cases.h"
#include "tests/engine/small_model.h"
#include "tests/support/torch_catch.h"  // before LibTorch

namespace kvscope {
namespace {

using test::PlainLayer;
using Vector = std::vector<double>;

// Of two tokens whose targets are this close, float32 may take either. Masses of these runs are about 1 / 140, and float32
// sums of as many queries err by 1e-6 of them.
constexpr double kTie = 3e-5;

/// How the masses of one head are gathered over later queries.
enum class Mass { mean, rms, max_times_value };

/// The largest of the group of the attention that token t gets from queries t + window ... n - 1; NaN without any.
double effect_of(const std::vector<std::vector<Vector>>& p, const PlainLayer& layer, int kv_head, int t, int window,
                 Mass mass) {
  const int n = static_cast<int>(p[0].size());
  if (t + window >= n) return NAN;
  double best = 0;
  for (int head = kv_head * layer.group_size(); head < (kv_head + 1) * layer.group_size(); ++head) {
    double sum = 0, squares = 0, greatest = 0;
    for (int q = t + window; q < n; ++q) {
      const double x = p[static_cast<std::size_t>(head)][static_cast<std::size_t>(q)][static_cast<std::size_t>(t)];
      sum += x, squares += x * x, greatest = std::max(greatest, x);
    }
    const int n_later = n - t - window;
    const double found = mass == Mass::mean  ? sum / n_later
                         : mass == Mass::rms ? std::sqrt(squares / n_later)
                                             : greatest;
    best = std::max(best, found);
  }
  const double* v = layer.v.at(t, kv_head);
  return mass == Mass::max_times_value ? best * std::sqrt(test::dot(v, v, layer.v.dim)) : best;
}

/// One head of a run at query q, as the definitions have it.
struct Sets {
  std::set<int> eligible, kept, oracle, ties;  // ties: within kTie of the last that the oracle takes
  bool chosen = false;
};

Sets sets_at(const RunRecord& run, const Vector& effect, int layer, int head, int q, int stated) {
  const RetentionGeometry g = run.geometry(layer, head);
  const std::vector<std::int32_t>& evict_at = run.evict_at.row(layer, head);
  Sets sets;
  std::vector<std::pair<double, int>> ranked;  // (-priority, t): ascending is best first, of equals the older
  for (int t = g.n_sink; t <= q - g.window; ++t) {
    sets.eligible.insert(t);
    if (q < evict_at[static_cast<std::size_t>(t)]) sets.kept.insert(t);
    const double decay = std::floor(static_cast<double>(q - t) / g.decay_stride) * g.log_gamma;
    ranked.emplace_back(-(std::log(1e-6 + effect[static_cast<std::size_t>(t)]) + decay), t);
  }
  std::ranges::sort(ranked);
  const auto n = static_cast<int>(ranked.size());
  const int c =
      stated < 0 ? static_cast<int>(sets.kept.size()) : std::min(n, std::max(0, stated - g.n_sink - g.window));
  for (int i = 0; i < c; ++i) sets.oracle.insert(ranked[static_cast<std::size_t>(i)].second);
  sets.chosen = c > 0 && c < n;
  for (const auto& [priority, t] : ranked) {
    if (sets.chosen && std::min(std::abs(priority - ranked[static_cast<std::size_t>(c) - 1].first),
                                std::abs(priority - ranked[static_cast<std::size_t>(c)].first)) < kTie)
      sets.ties.insert(t);
  }
  return sets;
}

double sum_of(const Vector& effect, const std::set<int>& tokens) {
  double sum = 0;
  for (const int t : tokens) sum += effect[static_cast<std::size_t>(t)];
  return sum;
}

int n_common(const std::set<int>& a, const std::set<int>& b) {
  return static_cast<int>(std::ranges::count_if(a, [&](int t) { return b.contains(t); }));
}

struct Asked {
  const char* spec;
  Mass mass;
  int stated;  // tokens, sinks and window included; -1: as many as the policy keeps
};

void check_counts(const OracleCounts& found, const Sets& sets, const Vector& effect) {
  REQUIRE(found.eligible == static_cast<int>(sets.eligible.size()));
  REQUIRE(found.kept == static_cast<int>(sets.kept.size()));
  REQUIRE(found.capacity == static_cast<int>(sets.oracle.size()));
  REQUIRE(found.chosen == sets.chosen);
  const int hits = n_common(sets.kept, sets.oracle);
  // A tie has two tokens at least: one of them takes the other's place.
  REQUIRE(std::abs(found.hits - hits) <= (sets.ties.size() < 2 ? 0 : static_cast<int>(sets.ties.size())));
  if (!sets.chosen) {
    REQUIRE(std::isnan(found.recall()));
    REQUIRE(std::isnan(found.chance()));
    return;
  }
  if (found.hits == hits) REQUIRE(found.recall() == Approx(static_cast<double>(hits) / sets.oracle.size()));
  REQUIRE(found.chance() == Approx(static_cast<double>(sets.kept.size()) / sets.eligible.size()));
  REQUIRE(found.mass_recall() == Approx(sum_of(effect, sets.kept) / sum_of(effect, sets.oracle)).epsilon(1e-4));
  REQUIRE(found.mass_kept() == Approx(sum_of(effect, sets.kept) / sum_of(effect, sets.eligible)).epsilon(1e-4));
}

std::string some_policy() {
  return test::policy_cases()[GENERATE(range(std::size_t{0}, test::policy_cases().size()))].policy;
}

void check_oracle(const engine::LoadedModel& model, const std::string& policy, const Asked& asked) {
  const bool local = model.config().is_local(0);  // by the model's design
  RunRequest request = test::request(test::some_ids(100), policy, 40);
  request.oracle = true;
  request.oracle_spec = OracleSpec::parse(asked.spec);
  const RunRecord run = record_run(model, request);
  REQUIRE(run.status == RunStatus::complete);
  const int n = run.oracle_horizon;

  const std::vector<PlainLayer> layers = test::dense_layers(model, {run.ids.begin(), run.ids.begin() + n});
  const Oracle oracle(run);
  REQUIRE(oracle.is_known());
  std::vector<int> before(static_cast<std::size_t>(n));
  int n_verdicts = 0, n_ties = 0;
  for (int layer = 0; local && layer < 1; ++layer) {
    for (int head = 0; head < run.model.n_kv_heads; ++head) {
      CHECK(oracle.counts(layer, head, n - 1).eligible == 0);
      for (int t = 0; t < n; ++t) CHECK(std::isnan(oracle.effect(layer, head, t)));
    }
  }
  for (int layer = local ? 1 : 0; layer < run.model.n_layers; ++layer) {
    std::vector<std::vector<Vector>> p(static_cast<std::size_t>(run.model.n_heads));
    for (int head = 0; head < run.model.n_heads; ++head) {
      for (int q = 0; q < n; ++q) {
        std::vector<int> keys(static_cast<std::size_t>(q) + 1);
        for (int t = 0; t <= q; ++t) keys[static_cast<std::size_t>(t)] = t;
        p[static_cast<std::size_t>(head)].push_back(
            test::attention(layers[static_cast<std::size_t>(layer)], q, head, keys));
      }
    }
    for (int head = 0; head < run.model.n_kv_heads; ++head) {
      Vector effect;
      for (int t = 0; t < n; ++t) {
        effect.push_back(
            effect_of(p, layers[static_cast<std::size_t>(layer)], head, t, run.geometry().window, asked.mass));
        if (std::isnan(effect.back())) continue;
        REQUIRE(oracle.effect(layer, head, t) == Approx(effect.back()).epsilon(1e-4));
      }
      CAPTURE(layer, head);
      for (const int q : {0, 17, 50, 99, 100, 120, n - 1}) {
        CAPTURE(q);
        const Sets sets = sets_at(run, effect, layer, head, q, asked.stated);
        check_counts(oracle.counts(layer, head, q), sets, effect);
        n_ties += static_cast<int>(sets.ties.size()) > 2;
      }
      for (int t = 0; t < n; ++t) {
        const std::int32_t q = run.evict_at.row(layer, head)[static_cast<std::size_t>(t)];
        const VerdictOfEviction found = eviction_verdict(run, layer, head, t);
        if (q < 0 || q >= n) continue;
        const Sets sets = sets_at(run, effect, layer, head, q, asked.stated);
        if (!sets.chosen || !sets.eligible.contains(t) || sets.ties.contains(t)) continue;
        CAPTURE(t, q);
        REQUIRE(!found.by_quarter);
        REQUIRE(found.verdict == (sets.oracle.contains(t) ? EvictionVerdict::wrong : EvictionVerdict::right));
        ++n_verdicts;
      }
    }
  }
  CHECK(n_ties < 5);  // else the comparison says little
  if (policy.starts_with("threshold") || policy.starts_with("kvpop")) CHECK(n_verdicts > (local ? 50 : 100));
}

TEST_CASE(
    "every policy: recall, chance, mass recall and verdicts are those of loops over its lifetimes and the attention",
    "[engine][oracle][conformance]") {
  const std::string policy = some_policy();
  const Asked asked =
      GENERATE(Asked{"", Mass::mean, -1}, Asked{"mass=rms", Mass::rms, -1},
               Asked{"mass=max,weight=value", Mass::max_times_value, -1}, Asked{"mass=rms,budget=48", Mass::rms, 48});
  CAPTURE(policy, asked.spec);
  check_oracle(test::model_of_every_policy(), policy, asked);
  if (std::string_view(asked.spec) == "mass=rms") check_oracle(test::local_model_of_every_policy(), policy, asked);
}

TEST_CASE("every policy: in every family recall and verdicts are those of the loops",
          "[engine][oracle][conformance][family]") {
  const ModelFamily& family = test::some_family();
  const std::string policy = some_policy();
  CAPTURE(family.architecture, policy);
  check_oracle(test::family_model_of_every_policy(family), policy, {"mass=rms", Mass::rms, -1});
}

/// Recall and chance of a head at q, had it kept these tokens of the eligible ones.
OracleCounts had_kept(RunRecord run, int layer, int head, int q, const std::set<int>& eligible,
                      const std::set<int>& kept) {
  for (const int t : eligible)
    run.evict_at.row(layer, head)[static_cast<std::size_t>(t)] = kept.contains(t) ? kNever : q;
  return Oracle(run).counts(layer, head, q);
}

// H1, W1: an oracle without a capacity keeps everything, and then recall is the kept share whatever is kept.
TEST_CASE("every policy: where it keeps some of what it could, recall is not its kept share by construction",
          "[engine][oracle][conformance]") {
  std::set<std::string> chose;
  for (const test::PolicyCase& one : test::policy_cases()) {
    CAPTURE(one.policy);
    RunRequest request = test::request(test::some_ids(100), one.policy, 40);
    request.oracle = true;
    const RunRecord run = record_run(test::model_of_every_policy(), request);
    const int q = run.queries() - 1;
    const Oracle oracle(run);
    for (int layer = 0; layer < run.model.n_layers; ++layer) {
      for (int head = 0; head < run.model.n_kv_heads; ++head) {
        CAPTURE(layer, head);
        const RetentionGeometry g = run.geometry(layer, head);
        const auto keeps = oracle.keeps(layer, head, q);
        std::set<int> eligible, best, worst;
        for (int t = g.n_sink; t <= q - g.window; ++t) {
          eligible.insert(t);
          if (keeps[static_cast<std::size_t>(t)] != 0) best.insert(t);
        }
        const OracleCounts counts = oracle.counts(layer, head, q);
        if (counts.kept == 0 || counts.kept == static_cast<int>(eligible.size())) {
          REQUIRE(std::isnan(counts.recall()));  // nothing was chosen
          continue;
        }
        REQUIRE(best.size() == static_cast<std::size_t>(counts.kept));
        for (const bool of_oracle : {false, true}) {  // what the oracle leaves first
          for (const int t : eligible) {
            if (worst.size() < best.size() && best.contains(t) == of_oracle) worst.insert(t);
          }
        }
        const double share = static_cast<double>(counts.kept) / static_cast<double>(eligible.size());
        const OracleCounts at_best = had_kept(run, layer, head, q, eligible, best),
                           at_worst = had_kept(run, layer, head, q, eligible, worst);
        REQUIRE(counts.chance() == Approx(share));
        REQUIRE(at_best.chance() == Approx(share));
        REQUIRE(at_worst.chance() == Approx(share));
        REQUIRE(at_best.recall() == 1);
        REQUIRE(at_worst.recall() == Approx(n_common(best, worst) / static_cast<double>(best.size())));
        REQUIRE(at_worst.recall() < share);
        chose.insert(run.policy.name);
      }
    }
  }
  for (const PolicyInfo& info : policy_list()) {
    const bool chooses = info.has_budget || std::ranges::any_of(info.parameters, [](const ParameterInfo& parameter) {
                           return parameter.name == "threshold";
                         });
    CAPTURE(info.name);
    if (chooses) CHECK(chose.contains(std::string(info.name)));
  }
}

// Of 120 eligible tokens a head keeps c, each by a draw of its own: its hits are hypergeometric, recall has a standard
// deviation of at most sqrt(x (1 - x) / c), 0.076 a head, and the mean over 80 heads 0.0085; chance itself one of
// sqrt(x (1 - x) / 120), 0.042 a head and 0.0047 in the mean. Five of each are allowed.
TEST_CASE("every policy: random admission at rate x recalls what chance says, and chance is x", "[engine][oracle]") {
  double recall = 0, chance = 0;
  int n = 0;
  for (int seed = 1; seed <= 20; ++seed) {
    RunRequest request =
        test::request(test::some_ids(100), "random:admit=0.3,sinks=4,window=16,seed=" + std::to_string(seed), 40);
    request.oracle = true;
    const RunRecord run = record_run(test::model_of_every_policy(), request);
    const Oracle oracle(run);
    for (int layer = 0; layer < run.model.n_layers; ++layer) {
      for (int head = 0; head < run.model.n_kv_heads; ++head) {
        const OracleCounts counts = oracle.counts(layer, head, run.queries() - 1);
        REQUIRE(counts.eligible >= 118);
        REQUIRE(counts.chosen);
        recall += counts.recall(), chance += counts.chance(), ++n;
      }
    }
  }
  REQUIRE(n == 80);
  CAPTURE(recall / n, chance / n);
  CHECK(std::abs(recall / n - chance / n) < 5 * 0.0085);
  CHECK(std::abs(chance / n - 0.3) < 5 * 0.0047);
}

}  // namespace
}  // namespace kvscope
