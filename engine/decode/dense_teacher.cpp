#include "engine/decode/dense_teacher.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "engine/decode/dense_attention.h"
#include "engine/model/ops.h"
#include "engine/model/transformer.h"

namespace kvscope::engine {
namespace {

constexpr double kEpsilon = 1e-6;  // inside the logarithm (KVpop eq. 3)
/// Queries of one pass; they bound the time until a cancel is heard. A GPU is idle between the launches of a short one.
constexpr int kChunkOfCpu = 256, kChunkOfGpu = 2048;

}  // namespace

/// Dense attention over all keys so far, with the mass added up on the way.
struct DenseTeacher::Impl final : AttentionHook {
  Impl(const LoadedModel& model_, int capacity_, int window_, const OracleSpec& spec_, int chunk_)
      : model(model_), capacity(capacity_), window(window_), spec(spec_), chunk(chunk_) {
    const ModelConfig& config = model.config();
    const Weights& weights = model.weights();
    if (chunk == 0) chunk = weights.device.is_cuda() ? kChunkOfGpu : kChunkOfCpu;
    const auto options = at::TensorOptions().device(weights.device);
    keys = at::empty({config.n_layers, capacity, config.n_kv_heads, config.head_dim}, options.dtype(weights.dtype));
    values = at::empty_like(keys);
    const auto floats = options.dtype(at::kFloat);
    mass = at::zeros({config.n_layers, config.n_heads, capacity}, floats);
    if (wants_kinds()) square = at::zeros_like(mass), most = at::zeros_like(mass);
    if (wants(OracleWeight::value)) value_norm = at::zeros({config.n_layers, config.n_kv_heads, capacity}, floats);
    if (wants(OracleWeight::output)) {
      output_norm = at::zeros_like(mass);
      output_sum = at::zeros({config.n_layers}, floats);
      grams.resize(static_cast<std::size_t>(config.n_layers));
    }
  }

  bool wants_kinds() const { return spec.all_kinds || spec.mass == OracleMass::rms || spec.mass == OracleMass::max; }
  bool wants(OracleWeight weight) const { return spec.all_kinds || spec.weight == weight; }

  at::Tensor attend(int layer, const LayerTokens& tokens) override {
    const at::Tensor &q = tokens.q, &k = tokens.k, &v = tokens.v;
    const std::int64_t n = q.size(0);
    const at::Tensor keys_here = keys[layer], values_here = values[layer];
    keys_here.narrow(0, horizon, n).copy_(k);
    values_here.narrow(0, horizon, n).copy_(v);
    ops::KeysInSight seen{keys_here.transpose(0, 1), values_here.transpose(0, 1)};
    const at::Tensor lse = at::empty({q.size(1), n}, mass.options());
    if (tokens.window > 0) {  // no policy decides here: its future attention is not needed
      const std::int64_t n_seen = horizon + n;
      return ops::lifetime_attention(q,
                                     in_window(seen.k.narrow(1, 0, n_seen), seen.v.narrow(1, 0, n_seen), tokens.window),
                                     horizon, tokens.scores);
    }
    const at::Tensor o = dense_attention(choose_dense_backend(q, k.size(1)), q, seen.k, seen.v, horizon, tokens.scores,
                                         /*window=*/0, lse);
    if (spec.sparse_lse && kept != nullptr) {
      seen.evict_at = lifetimes(layer, horizon + n);
      ops::lifetime_attention(q, seen, horizon, tokens.scores, lse);
    }
    ops::FutureMasses masses{.sum = mass[layer]};
    if (square.defined()) masses.square = square[layer], masses.most = most[layer];
    ops::future_attention(q, keys_here, lse, masses, horizon, tokens.scores, window, spec.look_ahead);
    weigh(layer, v, o);
    return o;
  }

  /// Norms of the chunk's values v [n, n_kv_heads, head_dim], and of what they can do to the output.
  void weigh(int layer, const at::Tensor& v, const at::Tensor& o) {
    const at::Tensor values_here = v.to(at::kFloat).transpose(0, 1);  // [n_kv_heads, n, head_dim]
    const std::int64_t n = v.size(0);
    if (value_norm.defined()) value_norm[layer].narrow(1, horizon, n).copy_(values_here.norm(2, -1));
    if (!output_norm.defined()) return;
    const ModelConfig& config = model.config();
    const at::Tensor& o_proj = model.weights().layers[static_cast<std::size_t>(layer)].o_proj;
    // |W_h v|^2 = v^T (W_h^T W_h) v: head_dim^2 products a token in place of hidden * head_dim. Made once: a live run
    // comes here every few tokens.
    at::Tensor& gram = grams[static_cast<std::size_t>(layer)];  // [n_heads, d, d]
    if (!gram.defined()) {
      const at::Tensor by_head =
          o_proj.to(at::kFloat).view({-1, config.n_heads, config.head_dim}).transpose(0, 1);  // [n_heads, hidden, d]
      gram = by_head.transpose(1, 2).matmul(by_head);
    }
    const at::Tensor of_head = values_here.repeat_interleave(config.group_size(), 0);  // [n_heads, n, d]
    const at::Tensor squares = (of_head.matmul(gram) * of_head).sum(-1).clamp_min(0);
    output_norm[layer].narrow(1, horizon, n).copy_(squares.sqrt());
    const at::Tensor output = o.reshape({n, -1}).matmul(o_proj.t()).to(at::kFloat);
    output_sum[layer].add_(output.norm(2, -1).sum());
  }

  /// Of the group's query heads, as the spec says: [n_layers, n_heads, n] -> [n_layers, n_kv_heads, n].
  at::Tensor aggregate(const at::Tensor& by_head) const {
    const ModelConfig& config = model.config();
    const at::Tensor grouped = by_head.reshape({config.n_layers, config.n_kv_heads, config.group_size(), -1});
    switch (spec.aggregate) {
      case OracleSpec::Aggregate::max:
        return grouped.amax(2);
      case OracleSpec::Aggregate::mean:
        return grouped.mean(2);
      case OracleSpec::Aggregate::log_mean:
        break;
    }
    return ((grouped + kEpsilon).log().mean(2).exp() - kEpsilon).clamp_min(0);
  }

  /// [n_layers, n_kv_heads, horizon] as rows; without_future: NaN where no later query looks.
  HeadSeries<float> rows(const at::Tensor& values, bool without_future = true) const {
    const at::Tensor host = values.cpu().contiguous();
    const ModelConfig& config = model.config();
    HeadSeries<float> out(config.n_layers, config.n_kv_heads);
    const float* data = host.data_ptr<float>();
    for (int layer = 0; layer < config.n_layers; ++layer) {
      for (int head = 0; head < config.n_kv_heads; ++head, data += horizon) {
        std::vector<float>& row = out.row(layer, head);
        row.assign(data, data + horizon);
        const int first = config.is_local(layer) ? 0 : std::max(0, horizon - window);
        for (int t = first; without_future && t < horizon; ++t) row[t] = std::nanf("");
      }
    }
    return out;
  }

  /// Mean over later queries of what was summed, [n_layers, n_heads, horizon].
  at::Tensor mean_of(const at::Tensor& sums) const {
    at::Tensor counts = at::empty({horizon}, at::kFloat);  // queries that look at each token, at least 1
    for (int t = 0; t < horizon; ++t) {
      counts.data_ptr<float>()[t] = static_cast<float>(std::max<std::int64_t>(1, n_queries(t)));
    }
    return sums.narrow(2, 0, horizon) / counts.to(sums.device());
  }

  /// How many queries a token is looked at by, 0 while there is none.
  std::int64_t n_queries(std::int64_t t) const {
    const std::int64_t all = std::max<std::int64_t>(0, horizon - (t + window));
    return spec.look_ahead == 0 ? all : std::min<std::int64_t>(all, spec.look_ahead + 1);
  }

  /// [n_kv_heads, n] int32 on the device, of the policy's lifetimes.
  at::Tensor lifetimes(int layer, std::int64_t n) const {
    at::Tensor host = at::full({kept->n_kv_heads(), n}, kNever, at::kInt);
    for (int head = 0; head < kept->n_kv_heads(); ++head) {
      const std::vector<std::int32_t>& row = kept->row(layer, head);
      const auto end = row.begin() + std::min<std::int64_t>(n, static_cast<std::int64_t>(row.size()));
      std::copy(row.begin(), end, host.data_ptr<std::int32_t>() + head * n);
    }
    return host.to(mass.device());
  }

  const LoadedModel& model;
  int capacity, window;
  OracleSpec spec;
  int chunk;
  int horizon = 0;                    // tokens seen: where those of the next pass stand
  const LifetimeMap* kept = nullptr;  // the policy's, while absorb() lasts
  at::Tensor keys, values;            // [n_layers, capacity, n_kv_heads, head_dim]
  at::Tensor mass, square;            // [n_layers, n_heads, capacity] sums, not yet divided by N_t; square if wanted
  at::Tensor most;                    // the same shape, if wanted
  at::Tensor value_norm;              // [n_layers, n_kv_heads, capacity], if wanted
  at::Tensor output_norm;             // [n_layers, n_heads, capacity], if wanted
  at::Tensor output_sum;              // [n_layers] of |o W_o| over all queries
  std::vector<at::Tensor> grams;      // [n_layers] W_h^T W_h of each query head, made when first needed
};

DenseTeacher::DenseTeacher(const LoadedModel& model, int capacity, int window, const OracleSpec& spec, int chunk) {
  const c10::InferenceMode no_gradients;
  impl_ = std::make_unique<Impl>(model, capacity, window, spec, chunk);
}

DenseTeacher::~DenseTeacher() = default;

int DenseTeacher::horizon() const { return impl_->horizon; }

bool DenseTeacher::absorb(std::span<const std::int32_t> ids, const std::function<bool()>& stop,
                          const LifetimeMap* kept) {
  const c10::InferenceMode no_gradients;
  Impl& teacher = *impl_;
  if (teacher.horizon + static_cast<std::int64_t>(ids.size()) > teacher.capacity) {
    throw std::logic_error("DenseTeacher: more tokens than its capacity");
  }
  teacher.kept = kept;
  while (!ids.empty()) {
    if (stop && stop()) return false;
    const std::int64_t n = std::min<std::int64_t>(teacher.chunk, static_cast<std::int64_t>(ids.size()));
    forward(teacher.model.config(), teacher.model.weights(), ids_tensor(teacher.model.weights(), ids.data(), n),
            teacher.horizon, teacher);
    teacher.horizon += static_cast<int>(n);
    ids = ids.subspan(static_cast<std::size_t>(n));
  }
  return true;
}

HeadSeries<float> DenseTeacher::future_mass() const {
  const c10::InferenceMode no_gradients;
  return impl_->rows(impl_->aggregate(impl_->mean_of(impl_->mass)));
}

FutureAttention DenseTeacher::future() const {
  const c10::InferenceMode no_gradients;
  const Impl& seen = *impl_;
  const std::int64_t n = seen.horizon;
  const at::Tensor mean = seen.mean_of(seen.mass);
  at::Tensor rms, most;
  if (seen.square.defined()) rms = seen.mean_of(seen.square).sqrt(), most = seen.most.narrow(2, 0, n);
  FutureAttention out{.mass = seen.rows(seen.aggregate(mean)), .kinds = {}};
  if (rms.defined()) {
    out.kinds.rms = seen.rows(seen.aggregate(rms));
    out.kinds.max = seen.rows(seen.aggregate(most));
  }
  if (seen.value_norm.defined()) out.kinds.value_norm = seen.rows(seen.value_norm.narrow(2, 0, n), false);
  if (!seen.output_norm.defined()) return out;
  const at::Tensor scale = (static_cast<double>(n) / seen.output_sum).view({-1, 1, 1});  // 1 / mean |o W_o|
  const at::Tensor weight = seen.output_norm.narrow(2, 0, n) * scale;
  out.kinds.output_mean = seen.rows(seen.aggregate(mean * weight));
  if (!rms.defined()) return out;
  out.kinds.output_rms = seen.rows(seen.aggregate(rms * weight));
  out.kinds.output_max = seen.rows(seen.aggregate(most * weight));
  return out;
}

}  // namespace kvscope::engine
