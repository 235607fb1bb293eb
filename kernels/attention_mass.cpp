#include "kernels/attention_mass.h"

#include "kernels/argument_check.h"

namespace kvscope::kernels {

void attention_mass(const AttentionMassArgs& args, Place place) {
  const ArgumentCheck check("attention_mass");
  check.keys(args.cache);
  check.heads(args.n_heads, args.cache.n_kv_heads);
  check.soft_cap(args.soft_cap);
  check.range("rule", static_cast<int>(args.rule), 0, static_cast<int>(MassRule::mean));
  check.pointers({{"cache.n_slots", args.cache.n_slots},
                  {"cache.slot_priority", args.cache.slot_priority},
                  {"q", args.q},
                  {"lse", args.lse}});
  if (args.rule != MassRule::last) check.pointer("position", args.position);
  KVSCOPE_RUN(attention_mass, args, place);
}

}  // namespace kvscope::kernels
