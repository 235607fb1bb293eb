#include "engine/oracle/dense_teacher.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "engine/model/ops.h"
#include "engine/model/transformer.h"

namespace kvscope::engine {
namespace {

constexpr std::int64_t kChunk = 256;  // queries of one pass; bounds the time until a cancel is heard

/// Dense attention over all keys so far, with the mass added up on the way.
class TeacherSite final : public AttentionSite {
 public:
  TeacherSite(const ModelConfig& config, const Weights& weights, int capacity, int window)
      : window_(window), n_heads_(config.n_heads) {
    const auto options = at::TensorOptions().device(weights.device);
    keys_ = at::empty({config.n_layers, capacity, config.n_kv_heads, config.head_dim}, options.dtype(weights.dtype));
    values_ = at::empty_like(keys_);
    mass_ = at::zeros({config.n_layers, config.n_heads, capacity}, options.dtype(at::kFloat));
  }

  void begin(std::int64_t position) { position_ = position; }

  at::Tensor attend(int layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) override {
    const std::int64_t n = q.size(0);
    const at::Tensor keys = keys_[layer], values = values_[layer];
    keys.narrow(0, position_, n).copy_(k);
    values.narrow(0, position_, n).copy_(v);
    const at::Tensor lse = at::empty({n_heads_, n}, mass_.options());
    const at::Tensor o = ops::lifetime_attention(q, keys, values, {}, position_, lse);
    ops::future_attention(q, keys, lse, mass_[layer], position_, window_);
    return o;
  }

  const at::Tensor& mass() const { return mass_; }

 private:
  int window_;
  std::int64_t n_heads_;
  std::int64_t position_ = 0;
  at::Tensor keys_, values_;  // [n_layers, capacity, n_kv_heads, head_dim]
  at::Tensor mass_;           // [n_layers, n_heads, capacity] sums, not yet divided by N_t
};

}  // namespace

struct DenseTeacher::Impl {
  Impl(const LoadedModel& model_, int capacity_, int window_)
      : model(model_), capacity(capacity_), window(window_), site(model.config(), model.weights(), capacity, window) {}
  const LoadedModel& model;
  int capacity, window;
  TeacherSite site;
  int horizon = 0;
};

DenseTeacher::DenseTeacher(const LoadedModel& model, int capacity, int window) {
  const c10::InferenceMode no_gradients;
  impl_ = std::make_unique<Impl>(model, capacity, window);
}

DenseTeacher::~DenseTeacher() = default;

int DenseTeacher::horizon() const { return impl_->horizon; }

bool DenseTeacher::absorb(std::span<const std::int32_t> ids, const std::function<bool()>& stop) {
  const c10::InferenceMode no_gradients;
  Impl& teacher = *impl_;
  if (teacher.horizon + static_cast<std::int64_t>(ids.size()) > teacher.capacity) {
    throw std::logic_error("DenseTeacher: more tokens than its capacity");
  }
  while (!ids.empty()) {
    if (stop && stop()) return false;
    const std::int64_t n = std::min<std::int64_t>(kChunk, static_cast<std::int64_t>(ids.size()));
    teacher.site.begin(teacher.horizon);
    forward(teacher.model.config(), teacher.model.weights(), ids_tensor(teacher.model.weights(), ids.data(), n),
            teacher.horizon, teacher.site);
    teacher.horizon += static_cast<int>(n);
    ids = ids.subspan(static_cast<std::size_t>(n));
  }
  return true;
}

HeadSeries<float> DenseTeacher::future_mass() const {
  const c10::InferenceMode no_gradients;
  const ModelConfig& config = impl_->model.config();
  const std::int64_t n = impl_->horizon;
  const at::Tensor sums = impl_->site.mass().narrow(2, 0, n);
  const at::Tensor best =
      sums.reshape({config.n_layers, config.n_kv_heads, config.group_size(), n}).amax(2).cpu().contiguous();
  HeadSeries<float> out(config.n_layers, config.n_kv_heads);
  const float* data = best.data_ptr<float>();
  for (int layer = 0; layer < config.n_layers; ++layer) {
    for (int head = 0; head < config.n_kv_heads; ++head, data += n) {
      std::vector<float>& row = out.row(layer, head);
      row.assign(static_cast<std::size_t>(n), std::numeric_limits<float>::quiet_NaN());
      for (std::int64_t t = 0; t + impl_->window < n; ++t)
        row[t] = data[t] / static_cast<float>(n - (t + impl_->window));
    }
  }
  return out;
}

}  // namespace kvscope::engine
