#pragma once
// Ranges that several policies share, and their parameters in common.

#include <array>

#include "engine/core/policy/policy_text.h"

namespace kvscope {

/// The largest number of tokens that a parameter may name; 16 Mi positions.
inline constexpr double kMaxTokens = 1 << 24;
/// The window of policies that name none (full): the window of the others by default, so that density, oracle and
/// previews of a full run look at the same tokens.
inline constexpr int kDefaultWindow = 64;
inline constexpr int kDefaultSinks = 4;

/// The same, to be folded away.
constexpr ParameterInfo rare(ParameterInfo parameter) {
  parameter.rare = true;
  return parameter;
}
/// The same, not written out while it has its default.
constexpr ParameterInfo quiet(ParameterInfo parameter) {
  parameter.quiet = true;
  return parameter;
}
/// A parameter that counts tokens.
constexpr ParameterInfo tokens_parameter(std::string_view name, double default_value, double min,
                                         std::string_view definition, double max = kMaxTokens) {
  return {name, ParameterKind::tokens, "tokens", default_value, min, max, definition};
}
constexpr ParameterInfo sinks_parameter(double default_value) {
  return tokens_parameter("sinks", default_value, 0, "First tokens of the text that always stay.");
}
constexpr ParameterInfo window_parameter(double default_value) {
  return tokens_parameter("window", default_value, 1,
                          "Newest tokens, including the query's own, that always stay: query q sees t > q - window.");
}

inline constexpr ParameterInfo kSinksParameter = sinks_parameter(kDefaultSinks);
inline constexpr ParameterInfo kWindowParameter = window_parameter(kDefaultWindow);
/// Of a policy whose rule has no window.
inline constexpr std::string_view kWindowOfMetrics = "Window of the metrics only; the policy has no window.";
inline constexpr ParameterInfo kBudgetParameter = tokens_parameter(
    "budget", 512, 1,
    "Tokens that a head may hold: sinks + window + top_k. Also written keep=25% or compression=4x, relative to the "
    "run's positions.");
inline constexpr ParameterInfo kDecayParameter(
    "decay", ParameterKind::real, "", 1, 1e-6, 1,
    "gamma: a token loses -log(gamma) of score for every stride of age. 1: no decay. learned: a separate decay for "
    "each KV head, log_gamma of the gate (KVpop eq. 21); the default if the gate has it.",
    {}, "learned", ParameterSlider{0.99, 1, 6});  // what matters is how far it is from 1
inline constexpr ParameterInfo kStrideParameter =
    rare({"stride", ParameterKind::count, "tokens", 1, 1, kMaxTokens,
          "n of KVpop eq. 5: a token loses log(decay) once every n tokens of age."});
inline constexpr ParameterInfo kSeedParameter =
    rare({"seed", ParameterKind::count, "", 0, 0, kMaxTokens, "Seed of the random draw."});
inline constexpr ParameterInfo kGlobalCountParameter(
    "count", ParameterKind::count, "heads", 0, 0, kMaxTokens,
    "Number of global KV heads, instead of the share full. 0: use full.");
inline constexpr std::string_view kCapacities[] = {"head", "pooled"};
/// Of a policy that keeps the tokens of greatest score under a budget: see top_k_plan().
constexpr ParameterInfo capacity_parameter(bool quiet = true) {
  return {.name = "capacity",
          .kind = ParameterKind::choice,
          .unit = "",
          .default_value = 0,
          .min = 0,
          .max = 1,
          .definition =
              "Who holds the budget. head: each head has its own. pooled: all heads share the sum of their slots, "
              "and the tokens with the lowest scores are evicted whichever head they are in. A share is then of the "
              "final length, and between two cuts the heads hold less (docs/policies.md, Pooled budgets).",
          .choices = kCapacities,
          .quiet = quiet};
}
inline constexpr ParameterInfo kCapacityParameter = capacity_parameter();
inline constexpr ParameterInfo kIntervalParameter = quiet(rare(tokens_parameter(
    "interval", 0, 0,
    "With capacity=pooled: the pool is cut to its budget before every query whose position is a multiple of "
    "interval, in prompt and answer, and has room for interval - 1 more tokens per head until the next cut. 0: the "
    "prompt is dense, and the pool is cut before every token of the answer.",
    4096)));
/// Tokens that a query reads: a number, or a share of the run.
constexpr ParameterInfo read_parameter(double default_value, double min, std::string_view definition) {
  ParameterInfo parameter = tokens_parameter("read", default_value, min, definition);
  parameter.may_be_share = true;
  return parameter;
}
inline constexpr ParameterInfo kReadParameter = rare(
    read_parameter(0, 0,
                   "Tokens that a query reads, in pages of 16 chosen by Quest's bound. Reading evicts nothing. Also "
                   "written read=25%, a share of the run's positions. 0: all."));
inline constexpr ParameterInfo kPoolParameter = rare(tokens_parameter(
    "pool", 0, 0,
    "Long-range tokens that the heads may hold on average (WG-KV App. K). Above it, each head evicts those with the "
    "least observed attention, repeatedly until there is room. 0: no limit."));
inline constexpr ParameterInfo kDropParameter = rare({"drop",
                                                      ParameterKind::real,
                                                      "",
                                                      0.1,
                                                      0.001,
                                                      0.999,
                                                      "Share of its long-range tokens that a head evicts when the "
                                                      "pool is full.",
                                                      {},
                                                      {},
                                                      ParameterSlider{0.001, 0.999, 3}});
inline constexpr ParameterInfo kObserveParameter = rare(tokens_parameter(
    "observe", 256, 1,
    "Newest queries, at most the window, whose attention decides what is evicted when the pool is full: maximum over "
    "the group, sum over these queries, maximum over 5 neighbours.",
    4096));

/// What becomes of a score that equals the threshold.
constexpr ParameterInfo strict_parameter(double default_value) {
  return rare({"strict", ParameterKind::count, "", default_value, 0, 1,
               "1: a token stays only if its score is above the threshold. 0: it also stays if they are equal."});
}

inline constexpr std::string_view kDensityScopes[] = {"model", "head"};
/// A threshold that the run finds by itself: see density.h.
inline constexpr ParameterInfo kDensityParameter{
    .name = "density",
    .kind = ParameterKind::real,
    .unit = "",
    .default_value = kWordValue,
    .min = 0.001,
    .max = 1,
    .definition =
        "Instead of threshold: the share of the prompt's tokens outside sinks and window to keep. Also written "
        "density=25%. The run finds the nearest threshold and prints it (docs/policies.md, Density).",
    .word = "none",
    .slider = ParameterSlider{0, 1, 2},
    .percent = true,
    .instead_of = "threshold",
    .quiet = true};
inline constexpr ParameterInfo kDensityOverParameter{
    .name = "density_over",
    .kind = ParameterKind::choice,
    .unit = "",
    .default_value = 0,
    .min = 0,
    .max = 1,
    .definition =
        "What the density is a share of. model: the tokens of all heads together, with one threshold. head: the "
        "tokens of each head, with a separate threshold.",
    .choices = kDensityScopes,
    .quiet = true,
    .rare = true};

/// Of a policy whose gate admits by a threshold: see gated_plan().
constexpr std::array<ParameterInfo, 10> gated_parameters(const ParameterInfo& threshold, const ParameterInfo& sinks,
                                                         const ParameterInfo& window, double strict = 0) {
  return {threshold, kDensityParameter, kDensityOverParameter, strict_parameter(strict), sinks,
          window,    kReadParameter,    kPoolParameter,        kDropParameter,           kObserveParameter};
}

inline constexpr std::string_view kAllocations[] = {"uniform", "pyramid", "ada", "ada-pyramid"};
/// How a budget is divided among heads: see allocation.h.
inline constexpr ParameterInfo kAllocationParameter{
    .name = "allocation",
    .kind = ParameterKind::choice,
    .unit = "",
    .default_value = 0,
    .min = 0,
    .max = 3,
    .definition =
        "How the budget is divided among heads; their mean stays the budget. uniform: all have it. pyramid: less "
        "from layer to layer (PyramidKV). ada: within a layer, more where the prompt's best scores are (AdaKV). "
        "ada-pyramid: both.",
    .choices = kAllocations,
    .quiet = true,
    .rare = true};
/// Of a policy whose heads of a layer hold the same tokens.
inline constexpr ParameterInfo kLayerAllocationParameter{
    .name = "allocation",
    .kind = ParameterKind::choice,
    .unit = "",
    .default_value = 0,
    .min = 0,
    .max = 1,
    .definition =
        "How the budget is divided among layers; their mean stays the budget. uniform: all have it. pyramid: less "
        "from layer to layer (PyramidKV).",
    .choices = std::span(kAllocations).first<2>(),
    .quiet = true,
    .rare = true};
inline constexpr ParameterInfo kBetaParameter =
    quiet(rare({"beta", ParameterKind::real, "", 20, 1, 1000,
                "With allocation=pyramid: the last layer has 1 / beta of the mean places beside sinks and window."}));
inline constexpr ParameterInfo kSafeguardParameter =
    quiet(rare({"safeguard", ParameterKind::real, "", 0.2, 0, 1,
                "With allocation=ada: the share of an even budget that every head keeps."}));

inline constexpr std::string_view kPrefillChoices[] = {"dense", "sparse"};
inline constexpr ParameterInfo kPrefillParameter(
    "prefill", ParameterKind::choice, "", 0, 0, 1,
    "dense, as published: the prompt's queries see everything and eviction starts after the prompt. sparse: the "
    "prompt is read token by token, like the answer.",
    kPrefillChoices);

}  // namespace kvscope
