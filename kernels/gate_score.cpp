#include "kernels/gate_score.h"

#include "kernels/argument_check.h"

namespace kvscope::kernels {
namespace {

/// What every source but `random` reads.
void check_inputs(const ArgumentCheck& check, const GateScoreArgs& args) {
  check.pointer("qkv", args.qkv);
  if (!has_weights(args.source) && !is_of_key(args.source)) return;
  check.pointer("inv_freq", args.inv_freq);
  if (args.source == GateSource::key_anchor) check.pointer("anchor", args.anchor);
  if (!has_weights(args.source)) return;
  if (args.n_hidden > 0) check.pointer("w1", args.w1);
  check.pointer("w2", args.w2);
  if (args.source != GateSource::key_pair) return;
  check.pointers({{"pre_weight", args.pre_weight}, {"post_weight", args.post_weight}});
}

void check_args(const GateScoreArgs& args) {
  const ArgumentCheck check("gate_score");
  check.dtype(args.dtype);
  check.heads(args.n_heads, args.n_kv_heads);
  check.range("head_dim", args.head_dim, 2, 256);
  check.even("head_dim", args.head_dim);
  check.range("source", static_cast<int>(args.source), 0, static_cast<int>(GateSource::key_anchor));
  check.range("n_hidden", args.n_hidden, 0, kMaxGateHidden);
  check.range("activation", static_cast<int>(args.activation), 0, static_cast<int>(GateActivation::identity));
  check.range("layer", args.layer, 0, 4095);
  check.pointer("out", args.out);
  if (args.source != GateSource::query_channel) check.pointer("position", args.position);
  if (args.source == GateSource::table) {
    check.pointer("table", args.table);
    check.range("table_stride", args.table_stride, 1, kMaxTokens);
  } else if (args.source != GateSource::random) {
    check_inputs(check, args);
  }
}

}  // namespace

KVSCOPE_RUN_ROWS(gate_score, GateScoreArgs);

}  // namespace kvscope::kernels
