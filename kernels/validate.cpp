#include "kernels/validate.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/admit_step.h"
#include "kernels/append.h"
#include "kernels/attention_mass.h"
#include "kernels/decode_attention.h"
#include "kernels/embed_row.h"
#include "kernels/future_attention.h"
#include "kernels/gate.h"
#include "kernels/gate_score.h"
#include "kernels/lifetime_attention.h"
#include "kernels/logit_summary.h"
#include "kernels/mlstm_step.h"
#include "kernels/page_bounds.h"
#include "kernels/project.h"
#include "kernels/retain_step.h"
#include "kernels/ring_store.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "kernels/select_pages.h"
#include "kernels/xor_words.h"

namespace kvscope::kernels {
namespace {

/// Positions are int32 everywhere, and a position plus a window must not overflow.
constexpr std::int64_t kMaxTokens = std::numeric_limits<std::int32_t>::max() / 2;

/// Names the operation once for all checks of one call.
class Checker {
 public:
  explicit Checker(const char* op) : op_(op) {}

  void range(const char* name, std::int64_t value, std::int64_t low, std::int64_t high) const {
    if (value >= low && value <= high) return;
    refuse(op_, name, value, (std::to_string(low) + " ... " + std::to_string(high)).c_str());
  }
  void pointer(const char* name, const void* value) const {
    if (!value) throw std::invalid_argument(std::string(op_) + ": " + name + " is null");
  }
  void dtype(DType value) const { range("dtype", static_cast<int>(value), 0, static_cast<int>(DType::bf16)); }
  void heads(int n_heads, int n_kv_heads) const {
    range("n_kv_heads", n_kv_heads, 1, 4096);
    range("n_heads", n_heads, n_kv_heads, 65535);
    if (n_heads % n_kv_heads != 0) refuse(op_, "n_heads", n_heads, "a multiple of n_kv_heads");
  }

  void geometry(const SlotCacheView& cache) const {
    range("cache.n_kv_heads", cache.n_kv_heads, 1, 4096);
    range("cache.page_size", cache.page_size, 1, 4096);
    range("cache.max_pages", cache.max_pages, 1, kMaxTokens / cache.page_size);
    pointer("cache.slot_position", cache.slot_position);
  }
  void keys(const SlotCacheView& cache) const {
    geometry(cache);
    range("cache.head_dim", cache.head_dim, 1, 256);
    dtype(cache.dtype);
    pointer("cache.k_pool", cache.k_pool);
    pointer("cache.page_table", cache.page_table);
  }
  void pools(const SlotCacheView& cache) const {
    keys(cache);
    pointer("cache.v_pool", cache.v_pool);
  }

  /// What RetainStepArgs and AdmitStepArgs have in common.
  template <typename Args>
  void retention(const Args& args) const {
    pointer("cache.n_slots", args.cache.n_slots);
    range("rule", static_cast<int>(args.rule), 0, static_cast<int>(RetainRule::least));
    range("n_sink", args.n_sink, 0, kMaxTokens);
    // A window of 0 would let token q leave before it was written.
    range("window", args.window, 1, kMaxTokens);
    range("top_k", args.top_k, 0, kMaxTokens);
    range("decay_stride", args.decay_stride, 1, kMaxTokens);
    // Of n_sink + window + top_k + 1 tokens one must be neither sink nor protected. What head_top_k says lies on the
    // device: it may be 0.
    const std::int64_t free_to_leave = args.window + (args.head_top_k ? 0 : std::int64_t{args.top_k});
    range("protect", args.protect, 0, args.rule == RetainRule::least ? free_to_leave : kMaxTokens);
    pointer("decision", args.decision);
    if (is_scored(args.rule) || args.rule == RetainRule::least) {
      pointer("cache.slot_priority", args.cache.slot_priority);
    }
  }
  static bool is_scored(RetainRule rule) { return rule == RetainRule::threshold || rule == RetainRule::top_k; }

 private:
  const char* op_;
};

}  // namespace

void validate(const GateArgs& args) {
  const Checker check("gate");
  check.dtype(args.dtype);
  check.range("dim", args.dim, 1, 1 << 20);
  check.range("n_rows", args.n_rows, 0, std::numeric_limits<std::int32_t>::max());
  if (args.n_rows == 0) return;
  check.pointer("gate_up", args.gate_up);
  check.pointer("out", args.out);
}

void validate(const RmsNormArgs& args) {
  const Checker check("rms_norm");
  check.dtype(args.dtype);
  check.range("dim", args.dim, 1, 16384);
  check.range("n_rows", args.n_rows, 0, std::numeric_limits<std::int32_t>::max());
  if (args.n_rows == 0) return;
  check.range("x_stride", args.x_stride, args.dim, std::numeric_limits<std::int64_t>::max());
  check.pointer("x", args.x);
  check.pointer("weight", args.weight);
  check.pointer("out", args.out);
}

void validate(const RopeArgs& args) {
  const Checker check("rope");
  check.dtype(args.dtype);
  check.range("head_dim", args.head_dim, 2, 256);
  if (args.head_dim % 2 != 0) refuse("rope", "head_dim", args.head_dim, "an even number");
  check.range("n_heads", args.n_heads, 1, 65535);
  check.range("n_tokens", args.n_tokens, 0, kMaxTokens);
  if (args.n_tokens == 0) return;
  check.pointer("x", args.x);
  check.pointer("positions", args.positions);
  check.pointer("inv_freq", args.inv_freq);
}

void validate(const AppendArgs& args) {
  const Checker check("append");
  check.pools(args.cache);
  check.range("position", args.position, 0, kMaxTokens);
  check.pointer("k", args.k);
  check.pointer("v", args.v);
  check.pointer("slot", args.slot);
}

void validate(const AppendManyArgs& args) {
  const Checker check("append_many");
  check.pools(args.cache);
  check.range("n_tokens", args.n_tokens, 0, kMaxTokens);
  if (args.n_tokens == 0) return;
  check.pointer("k", args.k);
  check.pointer("v", args.v);
  check.pointer("slot", args.slot);
  check.pointer("position", args.position);
}

void validate(const RetainStepArgs& args) {
  const Checker check("retain_step");
  check.geometry(args.cache);
  check.range("position", args.position, 0, kMaxTokens);
  check.retention(args);
  check.pointer("slot", args.slot);
  if (Checker::is_scored(args.rule)) check.pointer("score", args.score);
}

void validate(const DecodeAttentionArgs& args) {
  const Checker check("decode_attention");
  check.pools(args.cache);
  check.heads(args.n_heads, args.cache.n_kv_heads);
  check.pointer("cache.n_slots", args.cache.n_slots);
  check.pointer("q", args.q);
  check.pointer("o", args.o);
}

void validate(const LifetimeAttentionArgs& args) {
  const Checker check("lifetime_attention");
  check.dtype(args.dtype);
  check.heads(args.n_heads, args.n_kv_heads);
  check.range("head_dim", args.head_dim, 1, 256);
  check.range("q_start", args.q_start, 0, kMaxTokens);
  check.range("q_len", args.q_len, 0, kMaxTokens);
  check.range("kv_len", args.kv_len, args.k_position ? 0 : args.q_start + args.q_len, kMaxTokens);
  check.range("kv_token_stride", token_stride(args), args.head_dim, INT64_MAX);
  check.range("kv_head_stride", head_stride(args), args.head_dim, INT64_MAX);
  if (args.q_len == 0) return;
  check.pointer("q", args.q);
  check.pointer("k", args.k);
  check.pointer("v", args.v);
  check.pointer("o", args.o);
}

void validate(const FutureAttentionArgs& args) {
  const Checker check("future_attention");
  check.dtype(args.dtype);
  check.heads(args.n_heads, args.n_kv_heads);
  check.range("head_dim", args.head_dim, 1, 256);
  check.range("q_start", args.q_start, 0, kMaxTokens);
  check.range("q_len", args.q_len, 0, kMaxTokens);
  check.range("kv_len", args.kv_len, 0, kMaxTokens);
  check.range("mass_stride", args.mass_stride, args.kv_len, std::numeric_limits<std::int64_t>::max());
  check.range("window", args.window, 0, kMaxTokens);
  check.range("look_ahead", args.look_ahead, 0, kMaxTokens);
  if (args.q_len == 0 || args.kv_len == 0) return;
  check.pointer("q", args.q);
  check.pointer("k", args.k);
  check.pointer("lse", args.lse);
  check.pointer("mass", args.mass);
}

void validate(const MlstmStepArgs& args) {
  const Checker check("mlstm_step");
  check.range("n_heads", args.n_heads, 1, 65535);
  check.range("d_key", args.d_key, 1, 256);
  check.range("d_value", args.d_value, 1, 256);
  check.pointer("c", args.c);
  check.pointer("z", args.z);
  check.pointer("m", args.m);
  check.pointer("k", args.k);
  check.pointer("v", args.v);
  check.pointer("log_i", args.log_i);
  check.pointer("log_f", args.log_f);
  if (args.q) check.pointer("h", args.h);
}

void validate(const ProjectArgs& args) {
  const Checker check("project");
  check.dtype(args.dtype);
  check.range("epilogue", static_cast<int>(args.epilogue), 0, static_cast<int>(Epilogue::sigmoid));
  check.range("dim", args.dim, 1, kMaxProjectDim);
  check.range("n_rows", args.n_rows, 1, std::numeric_limits<std::int32_t>::max());
  if (args.epilogue == Epilogue::swiglu && args.n_rows % 2 != 0)
    refuse("project", "n_rows", args.n_rows, "an even number");
  check.range("n_tokens", args.n_tokens, 1, kMaxProjectTokens);
  check.pointer("weight", args.weight);
  check.pointer("x", args.x);
  check.pointer("out", args.out);
  if (args.bias && !takes_bias(args.epilogue)) {
    throw std::invalid_argument("project: bias is given; expected null for the epilogues add and swiglu");
  }
}

void validate(const AdmitStepArgs& args) {
  const Checker check("admit_step");
  check.pools(args.cache);
  check.heads(args.n_heads, args.cache.n_kv_heads);
  if (args.cache.head_dim % 2 != 0) refuse("admit_step", "cache.head_dim", args.cache.head_dim, "an even number");
  check.retention(args);
  check.pointer("qkv", args.qkv);
  check.pointer("inv_freq", args.inv_freq);
  check.pointer("position", args.position);
  check.pointer("q", args.q);
  check.range("zero_channel", args.zero_channel, -1, args.cache.head_dim - 1);
  if (args.score_ring) check.range("score_delay", args.score_delay, 0, args.window);
  const MlstmScorerView& scorer = args.scorer;
  if (!scorer.project) {
    if (Checker::is_scored(args.rule) || args.score_ring) check.pointer("score", args.score);
    return;
  }
  check.range("scorer.delay", scorer.delay, 0, kMaxTokens);
  if (args.score_ring && args.score_delay != scorer.delay) {
    refuse("admit_step", "score_delay", args.score_delay, ("scorer.delay, " + std::to_string(scorer.delay)).c_str());
  }
  check.pointer("scorer.bias", scorer.bias);
  check.pointer("scorer.read", scorer.read);
  check.pointer("scorer.c", scorer.c);
  check.pointer("scorer.z", scorer.z);
  check.pointer("scorer.m", scorer.m);
  if (scorer.delay == 0) return;
  check.pointer("scorer.queries", scorer.queries);
  check.pointer("scorer.direct", scorer.direct);
}

void validate(const GateScoreArgs& args) {
  const Checker check("gate_score");
  check.dtype(args.dtype);
  check.heads(args.n_heads, args.n_kv_heads);
  check.range("head_dim", args.head_dim, 2, 256);
  if (args.head_dim % 2 != 0) refuse("gate_score", "head_dim", args.head_dim, "an even number");
  check.range("source", static_cast<int>(args.source), 0, static_cast<int>(GateSource::random));
  check.range("n_hidden", args.n_hidden, 0, kMaxGateHidden);
  check.range("activation", static_cast<int>(args.activation), 0, static_cast<int>(GateActivation::identity));
  check.range("layer", args.layer, 0, 4095);
  check.pointer("out", args.out);
  if (args.source != GateSource::query_channel) check.pointer("position", args.position);
  if (args.source == GateSource::random) return;
  check.pointer("qkv", args.qkv);
  if (!has_weights(args.source)) return;
  check.pointer("inv_freq", args.inv_freq);
  if (args.n_hidden > 0) check.pointer("w1", args.w1);
  check.pointer("w2", args.w2);
  if (args.source != GateSource::key_pair) return;
  check.pointer("pre_weight", args.pre_weight);
  check.pointer("post_weight", args.post_weight);
}

void validate(const EmbedRowArgs& args) {
  const Checker check("embed_row");
  check.dtype(args.dtype);
  check.range("dim", args.dim, 1, 65536);
  check.range("n_rows", args.n_rows, 1, std::numeric_limits<std::int32_t>::max());
  check.pointer("table", args.table);
  check.pointer("id", args.id);
  check.pointer("out", args.out);
}

void validate(const LogitSummaryArgs& args) {
  const Checker check("logit_summary");
  check.range("n", args.n, 1, std::numeric_limits<std::int32_t>::max());
  check.pointer("logits", args.logits);
  check.pointer("out", args.out);
}

void validate(const XorWordsArgs& args) {
  const Checker check("xor_words");
  check.range("n", args.n, 0, std::int64_t{std::numeric_limits<std::int32_t>::max()} * kXorTileWords);
  if (args.n % kXorTileWords != 0) refuse("xor_words", "n", args.n, "a multiple of 8192");
  check.pointer("data", args.data);
  check.pointer("out", args.out);
}

void validate(const AttentionMassArgs& args) {
  const Checker check("attention_mass");
  check.keys(args.cache);
  check.heads(args.n_heads, args.cache.n_kv_heads);
  check.range("rule", static_cast<int>(args.rule), 0, static_cast<int>(MassRule::last));
  check.pointer("cache.n_slots", args.cache.n_slots);
  check.pointer("cache.slot_priority", args.cache.slot_priority);
  check.pointer("q", args.q);
  check.pointer("lse", args.lse);
  if (args.rule == MassRule::sum) check.pointer("position", args.position);
}

void validate(const PageBoundsArgs& args) {
  const Checker check("page_bounds");
  check.keys(args.cache);
  check.pointer("cache.n_slots", args.cache.n_slots);
  check.pointer("bounds", args.bounds);
}

void validate(const SelectPagesArgs& args) {
  const Checker check("select_pages");
  check.keys(args.cache);
  check.heads(args.n_heads, args.cache.n_kv_heads);
  check.range("n_pages", args.n_pages, 1, kMaxTokens);
  check.range("read_window", args.read_window, 1, kMaxTokens);
  check.range("max_selected", args.max_selected, std::min(args.n_pages, args.cache.max_pages),
              kMaxTokens / args.cache.page_size);
  check.pointer("cache.n_slots", args.cache.n_slots);
  check.pointer("q", args.q);
  check.pointer("bounds", args.bounds);
  check.pointer("position", args.position);
  check.pointer("rank", args.rank);
  check.pointer("page_table", args.page_table);
  check.pointer("slot_position", args.slot_position);
  check.pointer("n_slots", args.n_slots);
  check.pointer("selected", args.selected);
}

void validate(const RingStoreArgs& args) {
  const Checker check("ring_store");
  check.range("row_bytes", args.row_bytes, 16, std::int64_t{1} << 31);
  if (args.row_bytes % 16 != 0) refuse("ring_store", "row_bytes", args.row_bytes, "a multiple of 16");
  check.range("n_rows", args.n_rows, 1, kMaxTokens);
  check.pointer("row", args.row);
  check.pointer("ring", args.ring);
  check.pointer("position", args.position);
}

}  // namespace kvscope::kernels
