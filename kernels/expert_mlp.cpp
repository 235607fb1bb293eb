#include "kernels/expert_mlp.h"

#include "kernels/argument_check.h"

namespace kvscope::kernels {

void expert_mlp(const ExpertMlpArgs& args, Place place) {
  const ArgumentCheck check("expert_mlp");
  check.dtype(args.dtype);
  check.range("n_tokens", args.n_tokens, 1, kMaxExpertTokens);
  check.range("n_chosen", args.n_chosen, 1, kMaxChosenExperts);
  check.range("dim", args.dim, 1, kMaxExpertDim);
  check.range("ff", args.ff, 1, kMaxExpertFf);
  check.range("gate", static_cast<int>(args.gate), 0, static_cast<int>(GluActivation::clamped));
  check.pointers({{"x", args.x},
                  {"norm_weight", args.norm_weight},
                  {"gate_up", args.gate_up},
                  {"down", args.down},
                  {"expert", args.expert},
                  {"weight", args.weight},
                  {"activation", args.activation},
                  {"out", args.out}});
  KVSCOPE_RUN(expert_mlp, args, place);
}

}  // namespace kvscope::kernels
