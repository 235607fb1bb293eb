// DuoAttention (Xiao et al., 2025): retrieval heads keep everything, streaming heads sinks and window. Which head is
// which stands in a directory with full_attention_heads.tsv.
#include "engine/core/policy/policy_shared.h"

namespace kvscope {
namespace {

constexpr ParameterInfo kParameters[] = {
    {"full", ParameterKind::real, "", 0.5, 0, 1, "Share of the KV heads that keep everything."},
    sinks_parameter(128),
    window_parameter(256)};
constexpr std::string_view kGates[] = {"duo"};

std::vector<std::uint8_t> local_heads(const PolicySpec& spec, const HeadsOfModel& heads) {
  return least_heads_local(heads, spec.value("full"));
}

}  // namespace

Policy duo_policy() {
  return {
      .info = {.name = "duo",
               .title = "DuoAttention",
               .definition = "A full head keeps everything, a streaming head sinks and window: the share `full` of the "
                             "heads with the greatest alpha of the loaded DuoAttention directory are full. Of equal "
                             "alphas the lower layer, then the lower head. Unwritten, full is the share of heads whose "
                             "alpha reaches the directory's threshold of 0.5, sinks and window are the directory's.",
               .parameters = kParameters,
               .gates = kGates},
      .geometry = open_geometry,
      .local_heads = local_heads,
      .reads_heads = [](const PolicySpec&) { return true; }};
}

}  // namespace kvscope
