// DuoAttention (Xiao et al., 2025): retrieval heads keep everything, streaming heads sinks and window. Which head is
// which stands in a directory with full_attention_heads.tsv.
#include "engine/core/policy/head_strategy.h"
#include "engine/core/policy/policy_shared.h"

namespace kvscope {
namespace {

constexpr ParameterInfo kParameters[] = {{"full",
                                          ParameterKind::real,
                                          "",
                                          0.5,
                                          0,
                                          1,
                                          "Share of the KV heads that keep everything.",
                                          {},
                                          {},
                                          ParameterSlider{0, 1, 3}},
                                         kGlobalCountParameter,
                                         sinks_parameter(128),
                                         window_parameter(256)};
constexpr std::string_view kGates[] = {"duo"};

std::vector<std::uint8_t> local_heads(const PolicySpec& spec, const HeadsOfModel& heads) {
  return local_heads_by(HeadStrategy::d, heads, global_heads(spec, heads));
}

PolicySpec with_own_share(const PolicySpec& spec, const HeadsOfModel& heads) {
  return spec_with_share(spec, heads, std::nullopt);
}

std::string heads_note(const PolicySpec& spec, const HeadsOfModel& heads) {
  HeadsOfModel any = heads;  // how many does not depend on which
  any.alpha.assign(static_cast<std::size_t>(heads.n_layers) * heads.n_kv_heads, 0);
  return count_global(local_heads_by(HeadStrategy::d, any, global_heads(spec, any)), "global");
}

}  // namespace

Policy duo_policy() {
  return {.info = {.name = "duo",
                   .title = "DuoAttention",
                   .definition =
                       "A global head keeps everything; a local head keeps sinks and window. Global heads are the "
                       "share `full`, or `count` heads, with the greatest alpha in the loaded DuoAttention "
                       "directory; ties go to the lower layer, then to the lower head. If you give neither, global "
                       "heads are those whose alpha reaches the directory's threshold (0.5 if it has none). Sinks "
                       "and window default to those of the directory.",
                   .parameters = kParameters,
                   .gates = kGates},
          .geometry = open_geometry,
          .local_heads = local_heads,
          .with_own_share = with_own_share,
          .reads_heads = [](const PolicySpec&) { return true; },
          .heads_note = heads_note};
}

}  // namespace kvscope
