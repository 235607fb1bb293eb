#include "kernels/admit_step.h"

#include <string>

#include "kernels/argument_check.h"

namespace kvscope::kernels {
namespace {

void check_scorer(const ArgumentCheck& check, const AdmitStepArgs& args) {
  const MlstmScorerView& scorer = args.scorer;
  check.range("scorer.delay", scorer.delay, 0, kMaxTokens);
  if (args.score_ring && args.score_delay != scorer.delay) {
    refuse("admit_step", "score_delay", args.score_delay, ("scorer.delay, " + std::to_string(scorer.delay)).c_str());
  }
  check.pointers({{"scorer.bias", scorer.bias},
                  {"scorer.read", scorer.read},
                  {"scorer.c", scorer.c},
                  {"scorer.z", scorer.z},
                  {"scorer.m", scorer.m}});
  if (scorer.delay == 0) return;
  check.pointers({{"scorer.queries", scorer.queries}, {"scorer.direct", scorer.direct}});
}

void check_args(const AdmitStepArgs& args) {
  const ArgumentCheck check("admit_step");
  check.pools(args.cache);
  check.heads(args.n_heads, args.cache.n_kv_heads);
  check.even("cache.head_dim", args.cache.head_dim);
  check.retention(args.policy, args.cache, args.decision);
  check.pointers({{"qkv", args.qkv}, {"inv_freq", args.inv_freq}, {"position", args.position}, {"q", args.q}});
  check.range("zero_channel", args.zero_channel, -1, args.cache.head_dim - 1);
  if (args.score_ring) check.range("score_delay", args.score_delay, 0, args.policy.window);
  if (args.scorer.project) {
    check_scorer(check, args);
  } else if (is_scored(args.policy.rule) || args.score_ring) {
    check.pointer("score", args.score);
  }
}

}  // namespace

KVSCOPE_RUN_ROWS(admit_step, AdmitStepArgs);

}  // namespace kvscope::kernels
