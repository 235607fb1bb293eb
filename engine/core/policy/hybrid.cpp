// Hybrids of global and local heads (SP-KV section 4): A and B take whole layers, C draws heads, D takes the densest,
// from a directory that kvscope heads exports.
#include <algorithm>

#include "engine/core/policy/policy_shared.h"
#include "engine/core/support/random.h"

namespace kvscope {
namespace {

constexpr std::string_view kStrategies[] = {"a", "b", "c", "d"};
constexpr std::string_view kGlobals[] = {"keep", "threshold"};
constexpr ParameterInfo kParameters[] = {
    {"heads", ParameterKind::choice, "", 0, 0, 3, "Which heads are global: SP-KV's strategies A to D.", kStrategies},
    {"full",
     ParameterKind::real,
     "",
     0.286,
     0,
     1,
     "Share of the KV heads that are global (c and d).",
     {},
     ParameterSlider{0, 1, 3}},
    {"on", ParameterKind::choice, "", 0, 0, 1,
     "What a global head keeps: everything, or tokens whose score reaches the threshold.", kGlobals},
    {"threshold", ParameterKind::real, "", 0.5, -1e6, 1e6,
     "Of on=threshold, for the first loaded gate that scores tokens."},
    sinks_parameter(0),
    window_parameter(128),
    kSeedParameter};

std::vector<std::uint8_t> whole_layers(const HeadsOfModel& heads, int first) {
  std::vector<std::uint8_t> local(static_cast<std::size_t>(heads.n_layers) * heads.n_kv_heads, 1);
  for (int layer = 0; layer < heads.n_layers; ++layer) {
    const bool is_global = (layer >= first && (layer - first) % 4 == 0) || layer == heads.n_layers - 1;
    if (is_global) std::fill_n(local.begin() + layer * heads.n_kv_heads, heads.n_kv_heads, std::uint8_t{0});
  }
  return local;
}

std::vector<std::uint8_t> local_heads(const PolicySpec& spec, const HeadsOfModel& heads) {
  switch (spec.count("heads")) {
    case 0:
      return whole_layers(heads, 0);
    case 1:
      return whole_layers(heads, 3);
    case 2: {
      HeadsOfModel drawn = heads;
      drawn.alpha.clear();
      Random random(static_cast<std::uint64_t>(spec.value("seed")));
      for (int i = 0; i < heads.n_layers * heads.n_kv_heads; ++i)
        drawn.alpha.push_back(static_cast<float>(random.uniform()));
      return least_heads_local(drawn, spec.value("full"));
    }
    default:
      return least_heads_local(heads, spec.value("full"));
  }
}

/// Whole layers are what they are; only drawn heads have a seed.
bool uses(const PolicySpec& spec, std::string_view parameter) {
  const int strategy = spec.count("heads");
  if (parameter == "full") return strategy >= 2;
  if (parameter == "seed") return strategy == 2;
  return parameter != "threshold" || spec.value("on") != 0;
}

std::string heads_note(const PolicySpec& spec, const HeadsOfModel& heads) {
  constexpr std::string_view kNotes[] = {"A: 3 local : 1 global from layer 0 on, and the last",
                                         "B: 3 local : 1 global from layer 3 on, and the last",
                                         "C: drawn with the seed", "D: the densest of the loaded directory"};
  const int strategy = spec.count("heads");
  HeadsOfModel any = heads;  // of d, how many does not depend on which
  any.alpha.assign(static_cast<std::size_t>(heads.n_layers) * heads.n_kv_heads, 0);
  return count_global(local_heads(spec, any), "global") + ", " + std::string(kNotes[strategy]);
}

RetentionPlan plan(const PolicySpec& spec, const RetentionGeometry&) {
  if (spec.value("on") == 0) return {};
  return {.source = ScoreSource::gate,
          .admission = Admission::threshold,
          .threshold = static_cast<float>(spec.value("threshold"))};
}

}  // namespace

Policy hybrid_policy() {
  return {
      .info = {.name = "hybrid",
               .title = "Hybrid heads",
               .definition =
                   "A global head keeps everything, or what a gate's threshold admits; a local head sinks and window. "
                   "Global are, by `heads`: every fourth layer from layer 0 (a) or from layer 3 (b), and the last; a "
                   "share `full` drawn with `seed` (c); those of greatest value in the loaded head directory (d).",
               .parameters = kParameters},
      .geometry = open_geometry,
      .plan = plan,
      .local_heads = local_heads,
      .uses = uses,
      .heads_note = heads_note};
}

}  // namespace kvscope
