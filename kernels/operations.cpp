// Every operation as it is called: arguments are refused by name and value, nothing to do is done, then one version runs.

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "kernels/admit_step.h"
#include "kernels/append.h"
#include "kernels/attention_mass.h"
#include "kernels/cuda/decode_split.h"
#include "kernels/decode_attention.h"
#include "kernels/embed_row.h"
#include "kernels/future_attention.h"
#include "kernels/gate_score.h"
#include "kernels/lifetime_attention.h"
#include "kernels/logit_summary.h"
#include "kernels/mlstm_step.h"
#include "kernels/page_bounds.h"
#include "kernels/project.h"
#include "kernels/refuse.h"
#include "kernels/retain_step.h"
#include "kernels/ring_store.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "kernels/select_pages.h"
#include "kernels/swiglu.h"
#include "kernels/xor_words.h"

namespace kvscope::kernels {
namespace {

/// Positions are int32 everywhere, and a position plus a window must not overflow.
constexpr std::int64_t kMaxTokens = std::numeric_limits<std::int32_t>::max() / 2;

constexpr std::int64_t kMaxInt32 = std::numeric_limits<std::int32_t>::max();

/// Names the operation once for all checks of one call.
class ArgumentCheck {
 public:
  explicit ArgumentCheck(const char* op) : op_(op) {}

  void range(const char* name, std::int64_t value, std::int64_t low, std::int64_t high) const {
    if (value >= low && value <= high) return;
    refuse(op_, name, value, std::to_string(low) + " ... " + std::to_string(high));
  }
  void multiple(const char* name, std::int64_t value, std::int64_t of, const char* expected) const {
    if (value % of != 0) refuse(op_, name, value, expected);
  }
  void even(const char* name, std::int64_t value) const { multiple(name, value, 2, "an even number"); }
  void pointer(const char* name, const void* value) const {
    if (!value) throw std::invalid_argument(std::string(op_) + ": " + name + " is null");
  }
  void pointers(std::initializer_list<std::pair<const char*, const void*>> named) const {
    for (const auto& [name, value] : named) pointer(name, value);
  }
  void dtype(DType value) const { range("dtype", static_cast<int>(value), 0, static_cast<int>(DType::bf16)); }
  void heads(int n_heads, int n_kv_heads) const {
    range("n_kv_heads", n_kv_heads, 1, 4096);
    range("n_heads", n_heads, n_kv_heads, 65535);
    multiple("n_heads", n_heads, n_kv_heads, "a multiple of n_kv_heads");
  }

  /// Of a cache: its geometry; what is needed to read keys; keys and values.
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
    pointers({{"cache.k_pool", cache.k_pool}, {"cache.page_table", cache.page_table}});
  }
  void pools(const SlotCacheView& cache) const {
    keys(cache);
    pointer("cache.v_pool", cache.v_pool);
  }

  /// A policy, and what it reads and writes.
  void retention(const RetainPolicy& policy, const SlotCacheView& cache, const RetainDecision* decision) const {
    pointer("cache.n_slots", cache.n_slots);
    range("rule", static_cast<int>(policy.rule), 0, static_cast<int>(RetainRule::least));
    range("n_sink", policy.n_sink, 0, kMaxTokens);
    // A window of 0 would let token q leave before it was written.
    range("window", policy.window, 1, kMaxTokens);
    range("top_k", policy.top_k, 0, kMaxTokens);
    range("decay_stride", policy.decay_stride, 1, kMaxTokens);
    // Of n_sink + window + top_k + 1 tokens one must be neither sink nor protected. What head_top_k says lies on the
    // device: it may be 0.
    const bool is_least = policy.rule == RetainRule::least;
    const std::int64_t free_to_leave = policy.window + (policy.head_top_k ? 0 : std::int64_t{policy.top_k});
    range("protect", policy.protect, 0, is_least ? free_to_leave : kMaxTokens);
    pointer("decision", decision);
    if (is_scored(policy.rule) || is_least) pointer("cache.slot_priority", cache.slot_priority);
  }

 private:
  const char* op_;
};

void check_scorer(const ArgumentCheck& check, const AdmitStepArgs& args) {
  const MlstmScorerView& scorer = args.scorer;
  check.range("scorer.delay", scorer.delay, 0, kMaxTokens);
  if (args.score_ring && args.score_delay != scorer.delay) {
    refuse("admit_step", "score_delay", args.score_delay, "scorer.delay, " + std::to_string(scorer.delay));
  }
  check.pointers({{"scorer.bias", scorer.bias},
                  {"scorer.read", scorer.read},
                  {"scorer.c", scorer.c},
                  {"scorer.z", scorer.z},
                  {"scorer.m", scorer.m}});
  if (scorer.delay == 0) return;
  check.pointers({{"scorer.queries", scorer.queries}, {"scorer.direct", scorer.direct}});
}

/// What every source but `random` reads.
void check_inputs(const ArgumentCheck& check, const GateScoreArgs& args) {
  check.pointer("qkv", args.qkv);
  if (!has_weights(args.source)) return;
  check.pointer("inv_freq", args.inv_freq);
  if (args.n_hidden > 0) check.pointer("w1", args.w1);
  check.pointer("w2", args.w2);
  if (args.source != GateSource::key_pair) return;
  check.pointers({{"pre_weight", args.pre_weight}, {"post_weight", args.post_weight}});
}

}  // namespace

void admit_step(const AdmitStepArgs& args, Place place) {
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
  KVSCOPE_RUN(admit_step, args, place);
}

void append(const AppendArgs& args, Place place) {
  const ArgumentCheck check("append");
  check.pools(args.cache);
  check.range("n_tokens", args.n_tokens, 0, kMaxTokens);
  if (args.n_tokens == 0) return;
  check.pointers({{"k", args.k}, {"v", args.v}, {"slot", args.slot}, {"position", args.position}});
  KVSCOPE_RUN(append, args, place);
}

void attention_mass(const AttentionMassArgs& args, Place place) {
  const ArgumentCheck check("attention_mass");
  check.keys(args.cache);
  check.heads(args.n_heads, args.cache.n_kv_heads);
  check.range("rule", static_cast<int>(args.rule), 0, static_cast<int>(MassRule::last));
  check.pointers({{"cache.n_slots", args.cache.n_slots},
                  {"cache.slot_priority", args.cache.slot_priority},
                  {"q", args.q},
                  {"lse", args.lse}});
  if (args.rule == MassRule::sum) check.pointer("position", args.position);
  KVSCOPE_RUN(attention_mass, args, place);
}

std::int64_t decode_attention_scratch_floats(int n_heads, const SlotCacheView& cache) {
  const int n_splits = decode_splits(cache.max_pages * cache.page_size);
  if (n_splits == 1) return 0;
  return decode_counter_floats(n_heads) + static_cast<std::int64_t>(n_heads) * n_splits * (cache.head_dim + 2);
}

void decode_attention(const DecodeAttentionArgs& args, Place place) {
  const ArgumentCheck check("decode_attention");
  check.pools(args.cache);
  check.heads(args.n_heads, args.cache.n_kv_heads);
  check.pointers({{"cache.n_slots", args.cache.n_slots}, {"q", args.q}, {"o", args.o}});
  KVSCOPE_RUN(decode_attention, args, place);
}

void embed_row(const EmbedRowArgs& args, Place place) {
  const ArgumentCheck check("embed_row");
  check.dtype(args.dtype);
  check.range("dim", args.dim, 1, 65536);
  check.range("n_rows", args.n_rows, 1, kMaxInt32);
  check.pointers({{"table", args.table}, {"id", args.id}, {"out", args.out}});
  KVSCOPE_RUN(embed_row, args, place);
}

void future_attention(const FutureAttentionArgs& args, Place place) {
  const ArgumentCheck check("future_attention");
  check.dtype(args.dtype);
  check.heads(args.n_heads, args.n_kv_heads);
  check.range("head_dim", args.head_dim, 1, 256);
  check.range("q_start", args.q_start, 0, kMaxTokens);
  check.range("q_len", args.q_len, 0, kMaxTokens);
  check.range("kv_len", args.kv_len, 0, kMaxTokens);
  check.range("mass_stride", args.mass_stride, args.kv_len, INT64_MAX);
  check.range("window", args.window, 0, kMaxTokens);
  check.range("look_ahead", args.look_ahead, 0, kMaxTokens);
  if (args.q_len == 0 || args.kv_len == 0) return;
  check.pointers({{"q", args.q}, {"k", args.k}, {"lse", args.lse}, {"mass", args.mass}});
  KVSCOPE_RUN(future_attention, args, place);
}

void gate_score(const GateScoreArgs& args, Place place) {
  const ArgumentCheck check("gate_score");
  check.dtype(args.dtype);
  check.heads(args.n_heads, args.n_kv_heads);
  check.range("head_dim", args.head_dim, 2, 256);
  check.even("head_dim", args.head_dim);
  check.range("source", static_cast<int>(args.source), 0, static_cast<int>(GateSource::random));
  check.range("n_hidden", args.n_hidden, 0, kMaxGateHidden);
  check.range("activation", static_cast<int>(args.activation), 0, static_cast<int>(GateActivation::identity));
  check.range("layer", args.layer, 0, 4095);
  check.pointer("out", args.out);
  if (args.source != GateSource::query_channel) check.pointer("position", args.position);
  if (args.source != GateSource::random) check_inputs(check, args);
  KVSCOPE_RUN(gate_score, args, place);
}

void lifetime_attention(const LifetimeAttentionArgs& args, Place place) {
  const ArgumentCheck check("lifetime_attention");
  check.dtype(args.dtype);
  check.heads(args.n_heads, args.n_kv_heads);
  check.range("head_dim", args.head_dim, 1, 256);
  check.range("q_start", args.q_start, 0, kMaxTokens);
  check.range("q_len", args.q_len, 0, kMaxTokens);
  check.range("kv_len", args.kv_len, args.k_position ? 0 : args.q_start + args.q_len, kMaxTokens);
  check.range("kv_token_stride", token_stride(args), args.head_dim, INT64_MAX);
  check.range("kv_head_stride", head_stride(args), args.head_dim, INT64_MAX);
  if (args.q_len == 0) return;
  check.pointers({{"q", args.q}, {"k", args.k}, {"v", args.v}, {"o", args.o}});
  KVSCOPE_RUN(lifetime_attention, args, place);
}

void logit_summary(const LogitSummaryArgs& args, Place place) {
  const ArgumentCheck check("logit_summary");
  check.range("n", args.n, 1, kMaxInt32);
  check.pointers({{"logits", args.logits}, {"out", args.out}});
  KVSCOPE_RUN(logit_summary, args, place);
}

void mlstm_step(const MlstmStepArgs& args, Place place) {
  const ArgumentCheck check("mlstm_step");
  check.range("n_heads", args.n_heads, 1, 65535);
  check.range("d_key", args.d_key, 1, 256);
  check.range("d_value", args.d_value, 1, 256);
  check.pointers({{"c", args.c},
                  {"z", args.z},
                  {"m", args.m},
                  {"k", args.k},
                  {"v", args.v},
                  {"log_i", args.log_i},
                  {"log_f", args.log_f}});
  if (args.q) check.pointer("h", args.h);
  if (place.is_cuda()) throw std::invalid_argument("mlstm_step: on CUDA it is a part of admit_step");
  place.backend == Backend::reference ? reference::mlstm_step(args) : cpu::mlstm_step(args);
}

void page_bounds(const PageBoundsArgs& args, Place place) {
  const ArgumentCheck check("page_bounds");
  check.keys(args.cache);
  check.pointers({{"cache.n_slots", args.cache.n_slots}, {"bounds", args.bounds}});
  KVSCOPE_RUN(page_bounds, args, place);
}

void project(const ProjectArgs& args, Place place) {
  const ArgumentCheck check("project");
  check.dtype(args.dtype);
  check.range("epilogue", static_cast<int>(args.epilogue), 0, static_cast<int>(Epilogue::sigmoid));
  check.range("dim", args.dim, 1, kMaxProjectDim);
  check.range("n_rows", args.n_rows, 1, kMaxInt32);
  if (args.epilogue == Epilogue::swiglu) check.even("n_rows", args.n_rows);
  check.range("n_tokens", args.n_tokens, 1, kMaxProjectTokens);
  check.pointers({{"weight", args.weight}, {"x", args.x}, {"out", args.out}});
  if (args.bias && !takes_bias(args.epilogue)) {
    throw std::invalid_argument("project: bias is given; expected null for the epilogues add and swiglu");
  }
  KVSCOPE_RUN(project, args, place);
}

void retain_step(const RetainStepArgs& args, Place place) {
  const ArgumentCheck check("retain_step");
  check.geometry(args.cache);
  check.range("position", args.position, 0, kMaxTokens);
  check.retention(args.policy, args.cache, args.decision);
  check.pointer("slot", args.slot);
  if (is_scored(args.policy.rule)) check.pointer("score", args.score);
  KVSCOPE_RUN(retain_step, args, place);
}

void ring_store(const RingStoreArgs& args, Place place) {
  const ArgumentCheck check("ring_store");
  check.range("row_bytes", args.row_bytes, 16, std::int64_t{1} << 31);
  check.multiple("row_bytes", args.row_bytes, 16, "a multiple of 16");
  check.range("n_rows", args.n_rows, 1, kMaxTokens);
  check.pointers({{"row", args.row}, {"ring", args.ring}, {"position", args.position}});
  KVSCOPE_RUN(ring_store, args, place);
}

void rms_norm(const RmsNormArgs& args, Place place) {
  const ArgumentCheck check("rms_norm");
  check.dtype(args.dtype);
  check.range("dim", args.dim, 1, 16384);
  check.range("n_rows", args.n_rows, 0, kMaxInt32);
  if (args.n_rows == 0) return;
  check.range("x_stride", args.x_stride, args.dim, INT64_MAX);
  check.pointers({{"x", args.x}, {"weight", args.weight}, {"out", args.out}});
  KVSCOPE_RUN(rms_norm, args, place);
}

void rope(const RopeArgs& args, Place place) {
  const ArgumentCheck check("rope");
  check.dtype(args.dtype);
  check.range("head_dim", args.head_dim, 2, 256);
  check.even("head_dim", args.head_dim);
  check.range("n_heads", args.n_heads, 1, 65535);
  check.range("n_tokens", args.n_tokens, 0, kMaxTokens);
  if (args.n_tokens == 0) return;
  check.pointers({{"x", args.x}, {"positions", args.positions}, {"inv_freq", args.inv_freq}});
  KVSCOPE_RUN(rope, args, place);
}

void select_pages(const SelectPagesArgs& args, Place place) {
  const ArgumentCheck check("select_pages");
  check.keys(args.cache);
  check.heads(args.n_heads, args.cache.n_kv_heads);
  check.range("n_pages", args.n_pages, 1, kMaxTokens);
  check.range("read_window", args.read_window, 1, kMaxTokens);
  check.range("max_selected", args.max_selected, std::min(args.n_pages, args.cache.max_pages),
              kMaxTokens / args.cache.page_size);
  check.pointers({{"cache.n_slots", args.cache.n_slots},
                  {"q", args.q},
                  {"bounds", args.bounds},
                  {"position", args.position},
                  {"rank", args.rank},
                  {"page_table", args.page_table},
                  {"slot_position", args.slot_position},
                  {"n_slots", args.n_slots},
                  {"selected", args.selected}});
  KVSCOPE_RUN(select_pages, args, place);
}

void swiglu(const SwigluArgs& args, Place place) {
  const ArgumentCheck check("swiglu");
  check.dtype(args.dtype);
  check.range("dim", args.dim, 1, 1 << 20);
  check.range("n_rows", args.n_rows, 0, kMaxInt32);
  if (args.n_rows == 0) return;
  check.pointers({{"gate_up", args.gate_up}, {"out", args.out}});
  KVSCOPE_RUN(swiglu, args, place);
}

void xor_words(const XorWordsArgs& args, Place place) {
  const ArgumentCheck check("xor_words");
  check.range("n", args.n, 0, kMaxInt32 * kXorTileWords);
  check.multiple("n", args.n, kXorTileWords, "a multiple of 8192");
  check.pointers({{"data", args.data}, {"out", args.out}});
  KVSCOPE_RUN(xor_words, args, place);
}

}  // namespace kvscope::kernels
