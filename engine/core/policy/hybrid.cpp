// Hybrids of global and local heads (SP-KV section 4): A and B take whole layers, C draws heads, D takes the densest,
// from a directory that kvscope heads exports.
#include "engine/core/policy/head_strategy.h"
#include "engine/core/policy/policy_shared.h"

namespace kvscope {
namespace {

constexpr std::string_view kGlobals[] = {"keep", "threshold"};
constexpr ParameterInfo kParameters[] = {
    {"heads", ParameterKind::choice, "", 0, 0, 3, "Which heads are global: strategy A, B, C or D of SP-KV.",
     kHeadStrategies},
    {"full",
     ParameterKind::real,
     "",
     0.286,
     0,
     1,
     "Share of the KV heads that are global, for c and d. The share of a and b is fixed; the run records it here.",
     {},
     {},
     ParameterSlider{0, 1, 3}},
    kGlobalCountParameter,
    {"on", ParameterKind::choice, "", 0, 0, 1,
     "What a global head keeps: everything, or tokens whose score reaches the threshold.", kGlobals},
    {"threshold", ParameterKind::real, "", 0.5, -1e6, 1e6,
     "With on=threshold: the threshold for the first loaded gate that scores tokens."},
    kDensityParameter,
    kDensityOverParameter,
    strict_parameter(0),
    sinks_parameter(0),
    window_parameter(128),
    kSeedParameter};

HeadStrategy strategy_of(const PolicySpec& spec) { return static_cast<HeadStrategy>(spec.count("heads")); }

std::vector<std::uint8_t> local_heads(const PolicySpec& spec, const HeadsOfModel& heads) {
  const HeadStrategy strategy = strategy_of(spec);
  const int n_global = own_global_heads(strategy, heads) ? 0 : global_heads(spec, heads);
  return local_heads_by(strategy, heads, n_global, static_cast<std::uint64_t>(spec.value("seed")));
}

PolicySpec with_own_share(const PolicySpec& spec, const HeadsOfModel& heads) {
  return spec_with_share(spec, heads, own_global_heads(strategy_of(spec), heads));
}

/// Whole layers are what they are; only drawn heads have a seed.
bool uses(const PolicySpec& spec, std::string_view parameter) {
  const int strategy = spec.count("heads");
  if (parameter == "full") return strategy >= 2 && spec.count("count") == 0;
  if (parameter == "count") return strategy >= 2;
  if (parameter == "seed") return strategy == 2;
  if (spec.value("on") != 0) return uses_density(spec, parameter);
  return parameter != "threshold" && parameter != "strict" && !parameter.starts_with("density");
}

std::string heads_note(const PolicySpec& spec, const HeadsOfModel& heads) {
  constexpr std::string_view kNotes[] = {
      "A: every fourth layer from layer 0, and the last", "B: every fourth layer from layer 3, and the last",
      "C: drawn at random with the seed", "D: the densest of the loaded head directory"};
  constexpr std::string_view kNoDirectory = "D: the densest of a head directory (load one first)";
  const int strategy = spec.count("heads");
  HeadsOfModel any = heads;  // of d, how many does not depend on which
  any.alpha.assign(static_cast<std::size_t>(heads.n_layers) * heads.n_kv_heads, 0);
  return count_global(local_heads(spec, any), "global") + ", " +
         std::string(strategy == 3 && heads.alpha.empty() ? kNoDirectory : kNotes[strategy]);
}

RetentionPlan plan(const PolicySpec& spec, const RetentionGeometry&) {
  if (spec.value("on") == 0) return {};
  return threshold_plan(spec);
}

}  // namespace

Policy hybrid_policy() {
  return {
      .info = {.name = "hybrid",
               .title = "Hybrid heads",
               .definition =
                   "A global head keeps everything, or what a gate's threshold admits; a local head keeps sinks and "
                   "window. `heads` selects the global heads: every fourth layer from layer 0 (a) or from layer 3 (b), "
                   "and the last layer; a share `full`, or `count` heads, drawn with `seed` (c); the same number of "
                   "heads with the greatest value in the loaded head directory (d). With d, heads, sinks and window "
                   "default to those of the directory.",
               .parameters = kParameters},
      .geometry = open_geometry,
      .plan = plan,
      .local_heads = local_heads,
      .with_own_share = with_own_share,
      .reads_heads = [](const PolicySpec& spec) { return spec.value("heads") == 3; },
      .uses = uses,
      .heads_note = heads_note};
}

}  // namespace kvscope
