#include "kernels/retain_step.h"

#include "kernels/argument_check.h"

namespace kvscope::kernels {

void retain_step(const RetainStepArgs& args, Place place) {
  const ArgumentCheck check("retain_step");
  check.geometry(args.cache);
  check.range("position", args.position, 0, kMaxTokens);
  check.retention(args.policy, args.cache, args.decision);
  check.pointer("slot", args.slot);
  if (is_scored(args.policy.rule)) check.pointer("score", args.score);
  KVSCOPE_RUN(retain_step, args, place);
}

}  // namespace kvscope::kernels
