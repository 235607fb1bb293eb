// DuoAttention (Xiao et al., 2025): retrieval heads keep everything, streaming heads sinks and window. Which head is
// which stands in a directory with full_attention_heads.tsv.
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
                                          ParameterSlider{0, 1, 3}},
                                         sinks_parameter(64),
                                         window_parameter(256)};
constexpr std::string_view kGates[] = {"duo"};

std::vector<std::uint8_t> local_heads(const PolicySpec& spec, const HeadsOfModel& heads) {
  return least_heads_local(heads, spec.value("full"));
}

std::string heads_note(const PolicySpec& spec, const HeadsOfModel& heads) {
  HeadsOfModel any = heads;  // how many does not depend on which
  any.alpha.assign(static_cast<std::size_t>(heads.n_layers) * heads.n_kv_heads, 0);
  return count_global(least_heads_local(any, spec.value("full")), "full");
}

}  // namespace

Policy duo_policy() {
  return {
      .info = {.name = "duo",
               .title = "DuoAttention",
               .definition = "A full head keeps everything, a streaming head sinks and window: the share `full` of the "
                             "heads with the greatest alpha of the loaded DuoAttention directory are full. Of equal "
                             "alphas the lower layer, then the lower head.",
               .parameters = kParameters,
               .gates = kGates},
      .geometry = open_geometry,
      .local_heads = local_heads,
      .heads_note = heads_note};
}

}  // namespace kvscope
