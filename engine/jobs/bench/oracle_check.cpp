#include <c10/core/InferenceMode.h>

#include "engine/decode/dense_teacher.h"
#include "engine/jobs/bench/bench_check.h"
#include "engine/model/transformer.h"

namespace kvscope::engine {
namespace {

/// The whole matrix of probabilities, and of each key the mean that queries behind the window give it.
class PlainTeacher final : public AttentionHook {
 public:
  explicit PlainTeacher(int window) : window_(window) {}

  at::Tensor attend(int layer, const LayerTokens& tokens) override {
    const std::int64_t n = tokens.q.size(0), group = tokens.q.size(1) / tokens.k.size(1);
    const auto by_head = [](const at::Tensor& x) { return x.to(at::kFloat).transpose(0, 1); };
    const at::Tensor q = by_head(tokens.q), k = by_head(tokens.k).repeat_interleave(group, 0),
                     v = by_head(tokens.v).repeat_interleave(group, 0);
    const at::Tensor position = at::arange(n, q.options()), age = position.view({-1, 1}) - position;  // [query, key]
    at::Tensor hidden = age < 0;
    if (tokens.window > 0) hidden = hidden.logical_or(age >= tokens.window);
    const at::Tensor scores = tokens.scores.score_(q.matmul(k.transpose(1, 2))).masked_fill(hidden, -INFINITY);
    const at::Tensor weights = tokens.scores.weights_of(scores);  // [head, query, key]
    if (tokens.window == 0) {
      const at::Tensor later = age >= window_, n_queries = later.sum(0).clamp_min(1);
      const at::Tensor mean = weights.masked_fill(later.logical_not(), 0).sum(1) / n_queries;  // [head, key]
      mass.push_back(mean.view({-1, group, n}).amax(1).cpu().contiguous());                    // [KV head, key]
      layers.push_back(layer);
    }
    return weights.matmul(v).transpose(0, 1).contiguous().to(tokens.q.scalar_type());
  }

  std::vector<at::Tensor> mass;
  std::vector<int> layers;  // whose masses they are

 private:
  int window_;
};

}  // namespace

double check_oracle(const LoadedModel& model, std::span<const std::int32_t> ids, int window) {
  const c10::InferenceMode no_gradients;
  const auto n = static_cast<std::int64_t>(ids.size());
  OracleSpec spec;
  spec.all_kinds = false;
  DenseTeacher teacher(model, static_cast<int>(n), window, spec);
  teacher.absorb(ids);
  const HeadSeries<float> future = teacher.future_mass();
  PlainTeacher plain(window);
  forward(model.config(), model.weights(), ids_tensor(model.weights(), ids.data(), n), 0, plain);
  std::vector<float> found, expected;
  for (std::size_t i = 0; i < plain.mass.size(); ++i) {
    for (int head = 0; head < model.config().n_kv_heads; ++head) {
      const auto& row = future.row(plain.layers[i], head);
      const auto n_looked_at = static_cast<std::size_t>(std::max<std::int64_t>(0, n - window));  // NaN after these
      found.insert(found.end(), row.begin(), row.begin() + static_cast<std::ptrdiff_t>(n_looked_at));
      const float* values = plain.mass[i].data_ptr<float>() + head * n;
      expected.insert(expected.end(), values, values + n_looked_at);
    }
  }
  return check_close(found, expected, model, "oracle", "window=" + std::to_string(window));
}

}  // namespace kvscope::engine
