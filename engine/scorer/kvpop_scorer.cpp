// The chunkwise form follows xLSTM (Beck et al., 2024) and its chunkwise kernels (Beck et al., 2025): within a block
// the quadratic form, between blocks the stabilised state.
#include "engine/scorer/kvpop_scorer.h"

#include <limits>

#include "engine/model/ops.h"
#include "kernels/mlstm_prompt.h"

namespace kvscope::engine {
namespace {

constexpr float kSmallestDenominator = 1e-6f;  // as in kernels/mlstm_step.h
constexpr std::int64_t kBlock = 128;           // tokens of one quadratic block: [n_kv_heads, 128, 128] weights
constexpr std::int64_t kBlocksAtOnce = 16;     // of one round of products: memory does not grow with the text

/// W_v of v~ = v: the kernels know no other values than projected ones, and a product with 1 and zeros is exact.
at::Tensor identity_of_values(std::int64_t layers, std::int64_t heads, std::int64_t d) {
  return at::cat({at::zeros({d, d}), at::eye(d)}).expand({layers, heads, 2 * d, d});
}

}  // namespace

KvpopScorer::KvpopScorer(const KvpopScorerConfig& config, const ModelConfig& model, const TensorSource& source,
                         c10::Device device)
    : TokenScorer("kvpop_mlstm", config.delay),
      config_(config),
      head_dim_(model.head_dim),
      n_kv_heads_(model.n_kv_heads),
      map_width_(config.variant.feature_map == FeatureMap::softmax ? model.head_dim : model.head_dim / 2) {
  const std::int64_t layers = model.n_layers, heads = model.n_kv_heads, d = model.head_dim;
  const auto on_device = [&](const at::Tensor& x) { return x.to(at::TensorOptions(device).dtype(at::kFloat)); };
  const auto get = [&](const char* name, std::vector<std::int64_t> shape) { return on_device(source(name, shape)); };
  const MlstmVariant& variant = config.variant;
  at::Tensor out = get("out", {layers, heads, variant.skip ? 3 * d : d});
  if (!variant.skip) out = at::constant_pad_nd(out, {0, 2 * d});
  const at::Tensor wv =
      variant.cached_values ? on_device(identity_of_values(layers, heads, d)) : get("wv", {layers, heads, 2 * d, d});
  project_ = at::cat({get("wq", {layers, heads, 2 * d, map_width_}), get("wk", {layers, heads, 2 * d, map_width_}), wv,
                      get("gi", {layers, heads, 2 * d, 1}), get("gf", {layers, heads, 2 * d, 1}),
                      out.narrow(2, d, 2 * d).unsqueeze(-1)},
                     -1);
  bias_ = at::cat(
      {get("bi", {layers, heads, 1}), get("bf", {layers, heads, 1}), get("b", {layers, heads}).unsqueeze(-1)}, -1);
  read_ = out.narrow(2, 0, d).contiguous();
  if (variant.head_norm) norm_ = get("norm", {layers, heads, d}).contiguous();
}

ScorerState KvpopScorer::initial_state() const {
  const auto options = read_.options();
  ScorerState state;
  state.c = at::zeros({n_kv_heads_, head_dim_, head_dim_}, options);
  state.z = at::zeros({n_kv_heads_, head_dim_}, options);
  state.m = at::full({n_kv_heads_}, -std::numeric_limits<float>::infinity(), options);
  state.queries = at::zeros({n_kv_heads_, config_.delay, head_dim_}, options);
  state.direct = at::zeros({n_kv_heads_, config_.delay}, options);
  return state;
}

namespace {

struct KvpopMemory final : ScorerMemory {
  std::vector<ScorerState> layers;
};

}  // namespace

std::unique_ptr<ScorerMemory> KvpopScorer::new_memory() const {
  auto memory = std::make_unique<KvpopMemory>();
  for (std::int64_t layer = 0; layer < read_.size(0); ++layer) memory->layers.push_back(initial_state());
  return memory;
}

at::Tensor KvpopScorer::absorb(int layer, const LayerTokens& tokens, std::int64_t first, ScorerMemory* memory) const {
  ScorerState& state = static_cast<KvpopMemory*>(memory)->layers[static_cast<std::size_t>(layer)];
  state.n_tokens = first;  // decode steps, which count nothing, may lie between
  return absorb(layer, tokens.k, tokens.v, state);
}

kernels::MlstmScorerView KvpopScorer::mlstm(int layer, ScorerMemory* memory) const {
  return view(layer, static_cast<KvpopMemory*>(memory)->layers[static_cast<std::size_t>(layer)]);
}

double KvpopScorer::weight_bytes() const {
  return static_cast<double>(project_.nbytes() + bias_.nbytes() + read_.nbytes() +
                             (norm_.defined() ? norm_.nbytes() : 0));
}

double KvpopScorer::memory_bytes() const {
  return 4.0 * static_cast<double>(read_.size(0)) * n_kv_heads_ * head_dim_ * (head_dim_ + 1);
}

/// Non-negative and normalised, so that q~ . k~ is a weight.
at::Tensor KvpopScorer::phi(const at::Tensor& y) const {
  if (config_.variant.feature_map == FeatureMap::softmax) return y.softmax(-1);
  return at::cat({y.softmax(-1), y.neg().softmax(-1)}, -1);
}

at::Tensor KvpopScorer::cap(const at::Tensor& gate) const {
  return config_.soft_cap == 0 ? gate : at::tanh(gate / config_.soft_cap) * config_.soft_cap;
}

KvpopScorer::Features KvpopScorer::features(int layer, const at::Tensor& k, const at::Tensor& v) const {
  const std::int64_t d = head_dim_, map = map_width_;
  const at::Tensor x = at::cat({k, v}, -1).to(at::kFloat).transpose(0, 1);  // [n_kv_heads, n, 2 D]
  const at::Tensor y = at::bmm(x, project_[layer]);
  const at::Tensor bias = bias_[layer];  // [n_kv_heads, 3]
  const auto gate = [&](int index) { return y.select(2, 2 * map + d + index) + bias.narrow(1, index, 1); };
  return {phi(y.narrow(2, 0, map)),  phi(y.narrow(2, map, map)),    y.narrow(2, 2 * map, d).contiguous(),
          cap(gate(0)).contiguous(), at::log_sigmoid(cap(gate(1))), gate(2)};
}

at::Tensor KvpopScorer::score(int layer, const at::Tensor& h, const at::Tensor& direct) const {
  const at::Tensor read =
      norm_.defined() ? at::layer_norm(h, {head_dim_}, {}, {}, config_.norm_eps) * norm_[layer].unsqueeze(1) : h;
  return (at::silu(read) * read_[layer].unsqueeze(1)).sum(-1) + direct;
}

/// Blocks of states e and the reads that they serve, those of tokens e - delay. In a block, with b_e the sum of log f
/// up to e inside it,
///
///     log weight of token j is b_e - b_j + log i_j, that of the state before the block b_e + m; everything times
///     exp(-m_e), m_e the greatest of them
///
/// The quadratic parts of all blocks are products side by side; only the states go from block to block, and their
/// stabilisers m follow from a running maximum: with G the sum of log f up to the end of a block,
///
///     m - G = max over blocks so far of (greatest log weight at the block's end - G), and of m before the first
///
/// The normaliser z is the last column of the state, that of a value which is always 1.
at::Tensor KvpopScorer::absorb_blocks(int layer, const Features& f, std::int64_t block, ScorerState& state) const {
  const std::int64_t heads = n_kv_heads_, d = head_dim_, n = f.k.size(1), n_blocks = n / block, delay = config_.delay;
  const at::Tensor queries = at::cat({state.queries, f.q}, 1), direct = at::cat({state.direct, f.direct}, 1);
  const at::Tensor q = queries.narrow(1, 0, n).reshape({heads * n_blocks, block, d}),
                   k = f.k.reshape({heads * n_blocks, block, d}),
                   v = at::cat({f.v, at::ones({heads, n, 1}, f.v.options())}, 2).view({heads * n_blocks, block, d + 1});

  const at::Tensor b = f.log_f.reshape({heads, n_blocks, block}).cumsum(2),
                   log_i = f.log_i.view({heads, n_blocks, block});
  const at::Tensor later = at::ones({block, block}, b.options().dtype(at::kBool)).triu_(1);  // j > e
  const at::Tensor log_w =                                                                   // [heads, n_blocks, e, j]
      (b.unsqueeze(3) + (log_i - b).unsqueeze(2)).masked_fill_(later, -std::numeric_limits<float>::infinity());
  const at::Tensor greatest = log_w.amax(3), total = b.select(2, block - 1), sum = total.cumsum(1);
  const at::Tensor m_after =  // [heads, n_blocks]
      at::maximum(std::get<0>((greatest.select(2, block - 1) - sum).cummax(1)), state.m.unsqueeze(1)) + sum;
  const at::Tensor m_before = at::cat({state.m.unsqueeze(1), m_after.narrow(1, 0, n_blocks - 1)}, 1);

  // States before each block and after the last, [heads, n_blocks + 1, d, d + 1].
  const at::Tensor last = (log_w.select(2, block - 1) - m_after.unsqueeze(2)).exp_().view({heads * n_blocks, block, 1}),
                   carry = (total + m_before - m_after).exp_();
  const at::Tensor added = at::bmm((k * last).transpose(1, 2), v).view({heads, n_blocks, d, d + 1});
  const at::Tensor states = at::cat({at::cat({state.c, state.z.unsqueeze(2)}, 2).unsqueeze(1), added}, 1);
  for (std::int64_t i = 0; i < n_blocks; ++i) {
    states.select(1, i + 1).addcmul_(states.select(1, i), carry.select(1, i).view({heads, 1, 1}));
  }

  const at::Tensor log_state = b + m_before.unsqueeze(2), m = at::maximum(log_state, greatest);
  const at::Tensor w = (log_w - m.unsqueeze(3)).exp_().view({heads * n_blocks, block, block}),
                   w_state = (log_state - m).exp_().view({heads * n_blocks, block, 1});
  const at::Tensor before = states.narrow(1, 0, n_blocks).reshape({heads * n_blocks, d, d + 1});
  const at::Tensor sums = at::bmm(at::bmm(q, k.transpose(1, 2)).mul_(w), v).add_(at::bmm(q, before).mul_(w_state));
  const at::Tensor below = sums.narrow(2, d, 1);
  const at::Tensor h = sums.narrow(2, 0, d) /
                       (config_.guarded ? at::maximum(below.abs(), m.neg().exp().view({heads * n_blocks, block, 1}))
                                        : below.clamp_min(kSmallestDenominator));

  state.c = states.select(1, n_blocks).narrow(2, 0, d).contiguous();
  state.z = states.select(1, n_blocks).select(2, d).contiguous();
  state.m = m_after.select(1, n_blocks - 1).contiguous();
  state.queries = queries.narrow(1, n, delay);
  state.direct = direct.narrow(1, n, delay);
  state.n_tokens += n;
  return score(layer, h.reshape({heads, n, d}), direct.narrow(1, 0, n));
}

at::Tensor KvpopScorer::absorb(int layer, const at::Tensor& k, const at::Tensor& v, ScorerState& state) const {
  if (k.is_cuda() && kernels::has_mlstm_prompt(head_dim_)) return absorb_on_device(layer, k, v, state);
  const std::int64_t n = k.size(0), first = state.n_tokens, delay = config_.delay;
  // Inside, the last tokens stand in order of age; between calls token t stands in row t % delay, where step() wants
  // it.
  const std::int64_t rows = std::max<std::int64_t>(1, delay);
  state.queries = state.queries.roll(-(first % rows), 1);
  state.direct = state.direct.roll(-(first % rows), 1);
  std::vector<at::Tensor> scores;
  for (std::int64_t begin = 0; begin < n;) {
    const std::int64_t left = n - begin, block = std::min(kBlock, left),
                       length = std::min(kBlocksAtOnce, left / block) * block;
    const Features f = features(layer, k.narrow(0, begin, length), v.narrow(0, begin, length));
    scores.push_back(absorb_blocks(layer, f, block, state));
    begin += length;
  }
  state.queries = state.queries.roll(state.n_tokens % rows, 1).contiguous();
  state.direct = state.direct.roll(state.n_tokens % rows, 1).contiguous();
  at::Tensor out = at::cat(scores, 1);
  if (const std::int64_t before = std::min(n, std::max<std::int64_t>(0, delay - first)); before > 0) {
    out.narrow(1, 0, before).fill_(std::numeric_limits<float>::quiet_NaN());
  }
  return out;
}

at::Tensor KvpopScorer::absorb_on_device(int layer, const at::Tensor& k, const at::Tensor& v,
                                         ScorerState& state) const {
  const std::int64_t n = k.size(0);
  // A token's heads lie side by side; tokens may be rows of the QKV product.
  const auto rows = [&](const at::Tensor& x) {
    return x.stride(2) == 1 && x.stride(1) == head_dim_ ? x : x.contiguous();
  };
  const at::Tensor keys = rows(k), values = rows(v);
  std::vector<at::Tensor> scores;
  for (std::int64_t begin = 0; begin < n; begin += kernels::kMlstmPromptTokens) {
    const std::int64_t length = std::min(kernels::kMlstmPromptTokens, n - begin);
    scores.push_back(at::empty({n_kv_heads_, length}, read_.options()));
    kernels::MlstmPromptArgs args = {.scorer = view(layer, state),
                                     .k = keys.narrow(0, begin, length).data_ptr(),
                                     .v = values.narrow(0, begin, length).data_ptr(),
                                     .k_stride = keys.stride(0),
                                     .v_stride = values.stride(0),
                                     .first = state.n_tokens,
                                     .n = length,
                                     .score = scores.back().data_ptr<float>(),
                                     .scratch = nullptr,
                                     .n_kv_heads = n_kv_heads_,
                                     .head_dim = head_dim_,
                                     .dtype = kernel_dtype(keys.scalar_type())};
    const at::Tensor scratch = at::empty({kernels::mlstm_prompt_scratch_floats(args)}, read_.options());
    args.scratch = scratch.data_ptr<float>();
    kernels::mlstm_prompt(args, ops::place_of(keys.device()));
    state.n_tokens += length;
  }
  return scores.size() == 1 ? scores.front() : at::cat(scores, 1);
}

kernels::MlstmScorerView KvpopScorer::view(int layer, const ScorerState& state) const {
  for (const at::Tensor& tensor : {state.c, state.z, state.m, state.queries, state.direct}) {
    TORCH_CHECK(tensor.is_contiguous(), "a scorer's state is not contiguous");
  }
  return {.project = project_[layer].data_ptr<float>(),
          .bias = bias_[layer].data_ptr<float>(),
          .read = read_[layer].data_ptr<float>(),
          .norm = norm_.defined() ? norm_[layer].data_ptr<float>() : nullptr,
          .c = state.c.data_ptr<float>(),
          .z = state.z.data_ptr<float>(),
          .m = state.m.data_ptr<float>(),
          .queries = state.queries.data_ptr<float>(),
          .direct = state.direct.data_ptr<float>(),
          .delay = config_.delay,
          .soft_cap = static_cast<float>(config_.soft_cap),
          .norm_eps = static_cast<float>(config_.norm_eps),
          .guarded = config_.guarded,
          .softmax_map = config_.variant.feature_map == FeatureMap::softmax};
}

}  // namespace kvscope::engine
