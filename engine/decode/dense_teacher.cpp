#include "engine/decode/dense_teacher.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "engine/model/ops.h"
#include "engine/model/transformer.h"

namespace kvscope::engine {
namespace {

constexpr double kEpsilon = 1e-6;     // inside the logarithm (KVpop eq. 3)
constexpr std::int64_t kChunk = 256;  // queries of one pass; bounds the time until a cancel is heard

}  // namespace

/// Dense attention over all keys so far, with the mass added up on the way.
struct DenseTeacher::Impl final : AttentionSite {
  Impl(const LoadedModel& model_, int capacity_, int window_, const OracleSpec& spec_)
      : model(model_), capacity(capacity_), window(window_), spec(spec_) {
    const ModelConfig& config = model.config();
    const Weights& weights = model.weights();
    const auto options = at::TensorOptions().device(weights.device);
    keys = at::empty({config.n_layers, capacity, config.n_kv_heads, config.head_dim}, options.dtype(weights.dtype));
    values = at::empty_like(keys);
    mass = at::zeros({config.n_layers, config.n_heads, capacity}, options.dtype(at::kFloat));
  }

  at::Tensor attend(int layer, const LayerTokens& tokens) override {
    const at::Tensor &q = tokens.q, &k = tokens.k, &v = tokens.v;
    const std::int64_t n = q.size(0);
    const at::Tensor keys_here = keys[layer], values_here = values[layer];
    keys_here.narrow(0, horizon, n).copy_(k);
    values_here.narrow(0, horizon, n).copy_(v);
    ops::KeysInSight seen{keys_here.transpose(0, 1), values_here.transpose(0, 1)};
    const at::Tensor lse = at::empty({q.size(1), n}, mass.options());
    const at::Tensor o = ops::lifetime_attention(q, seen, horizon, tokens.scale, lse);
    if (spec.sparse_lse && kept != nullptr) {
      seen.evict_at = lifetimes(layer, horizon + n);
      ops::lifetime_attention(q, seen, horizon, tokens.scale, lse);
    }
    ops::future_attention(q, keys_here, lse, mass[layer], horizon, tokens.scale, window, spec.look_ahead);
    return o;
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
  int horizon = 0;                    // tokens seen: where those of the next pass stand
  const LifetimeMap* kept = nullptr;  // the policy's, while absorb() lasts
  at::Tensor keys, values;            // [n_layers, capacity, n_kv_heads, head_dim]
  at::Tensor mass;                    // [n_layers, n_heads, capacity] sums, not yet divided by N_t
};

DenseTeacher::DenseTeacher(const LoadedModel& model, int capacity, int window, const OracleSpec& spec) {
  const c10::InferenceMode no_gradients;
  impl_ = std::make_unique<Impl>(model, capacity, window, spec);
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
    const std::int64_t n = std::min<std::int64_t>(kChunk, static_cast<std::int64_t>(ids.size()));
    forward(teacher.model.config(), teacher.model.weights(), ids_tensor(teacher.model.weights(), ids.data(), n),
            teacher.horizon, teacher);
    teacher.horizon += static_cast<int>(n);
    ids = ids.subspan(static_cast<std::size_t>(n));
  }
  return true;
}

HeadSeries<float> DenseTeacher::future_mass() const {
  const c10::InferenceMode no_gradients;
  const ModelConfig& config = impl_->model.config();
  const std::int64_t n = impl_->horizon;
  at::Tensor counts = at::empty({n}, at::kFloat);  // queries that look at each token, at least 1
  for (std::int64_t t = 0; t < n; ++t) {
    counts.data_ptr<float>()[t] = static_cast<float>(std::max<std::int64_t>(1, impl_->n_queries(t)));
  }
  const OracleSpec& spec = impl_->spec;
  at::Tensor mass = impl_->mass.narrow(2, 0, n).reshape({config.n_layers, config.n_kv_heads, config.group_size(), n});
  if (spec.normalised) mass = mass / counts.to(mass.device());
  mass = spec.aggregate == OracleSpec::Aggregate::max ? mass.amax(2)
                                                      : ((mass + kEpsilon).log().mean(2).exp() - kEpsilon).clamp_min(0);
  mass = mass.cpu().contiguous();
  HeadSeries<float> out(config.n_layers, config.n_kv_heads);
  const float* data = mass.data_ptr<float>();
  for (int layer = 0; layer < config.n_layers; ++layer) {
    for (int head = 0; head < config.n_kv_heads; ++head, data += n) {
      std::vector<float>& row = out.row(layer, head);
      row.assign(data, data + n);
      for (std::int64_t t = std::max<std::int64_t>(0, n - impl_->window); t < n; ++t) row[t] = std::nanf("");
    }
  }
  return out;
}

}  // namespace kvscope::engine
