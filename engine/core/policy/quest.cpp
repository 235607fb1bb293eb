// Quest (Tang et al., 2024): nothing leaves; a query reads only the pages whose keys could matter to it.
#include "engine/core/policy/policy_shared.h"

namespace kvscope {
namespace {

constexpr ParameterInfo kParameters[] = {
    read_parameter(
        1024, 16,
        "Tokens that a query reads, in pages of 16 chosen by Quest's bound. Reading evicts nothing. Also written "
        "read=25%, a share of the run's positions."),
    {"dense", ParameterKind::count, "layers", 2, 0, 1024, "Number of first layers, which read everything."},
    tokens_parameter("window", kDefaultWindow, 1, kWindowOfMetrics)};

RetentionPlan plan(const PolicySpec& spec, const RetentionGeometry& geometry) {
  return {.selection = {.tokens = spec.tokens_of("read", geometry.n_positions), .dense_layers = spec.count("dense")}};
}

DecisionLog log(const LogQuestion& question) {
  const int tokens = question.plan.selection.tokens, all = question.n_tokens;
  if (question.layer < question.plan.selection.dense_layers)
    return {.note = "Nothing is evicted, and each query reads every token: this layer is one of the first " +
                    std::to_string(question.plan.selection.dense_layers) + ", which are dense."};
  if (all <= tokens)
    return {.note = "Nothing is evicted, and each query reads every token: there are " + std::to_string(all) +
                    ", and a query may read " + std::to_string(tokens) + "."};
  return {.note = "Nothing is evicted: each query of the answer reads " + counted(tokens, "token") +
                  " in pages of 16. The token strip shows which pages."};
}

std::vector<std::string> sweep(const SweepPoint& at) { return {"quest:read=" + at.percent}; }

}  // namespace

Policy quest_policy() {
  return {.info = {.name = "quest",
                   .title = "Quest",
                   .definition =
                       "Nothing is evicted. A query reads `read` tokens in pages of 16: always the newest page, then "
                       "those with the greatest bound sum_c max(q_c min_c, q_c max_c) on a page's attention, "
                       "maximum over the group. The first `dense` layers and the prompt read everything.",
                   .parameters = kParameters},
          .geometry = open_geometry,
          .plan = plan,
          .log = log,
          .sweep = sweep};
}

}  // namespace kvscope
