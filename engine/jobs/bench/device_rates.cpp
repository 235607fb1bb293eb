#include "engine/jobs/bench/device_rates.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "engine/core/support/seconds_since.h"
#include "engine/decode/dense_attention.h"
#include "engine/jobs/bench/floors.h"
#include "engine/model/ops.h"
#include "engine/model/weights.h"
#include "kernels/xor_words.h"

namespace kvscope::engine {
namespace {

constexpr std::int64_t kMostMeasured = 1 << 17;  // tokens of dense attention

at::TensorOptions options_of(const LoadedModel& model) {
  return at::TensorOptions().device(model.weights().device).dtype(model.weights().dtype);
}

}  // namespace

Spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  const double median = n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
  return {median, values.front(), values.back()};
}

nlohmann::json to_json(const Spread& spread) {
  return {{"median", spread.median}, {"min", spread.min}, {"max", spread.max}};
}

Spread time_repeats(int n_warm_up, int n_repeats, const std::function<void()>& body) {
  for (int i = 0; i < n_warm_up; ++i) body();
  std::vector<double> seconds;
  for (int i = 0; i < n_repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    body();
    seconds.push_back(seconds_since(start));
  }
  return spread_of(std::move(seconds));
}

void wait_for_device(const LoadedModel& model) {
  const c10::Device device = model.weights().device;
  if (device.is_cuda()) c10::impl::VirtualGuardImpl(c10::kCUDA).synchronizeDevice(device.index());
}

double measure_matrix_rate(const LoadedModel& model) {
  const c10::InferenceMode no_gradients;
  const bool is_cuda = model.weights().device.is_cuda();
  const std::int64_t n = is_cuda ? 8192 : 1024;
  const at::Tensor a = at::randn({n, n}, options_of(model)), b = at::randn({n, n}, options_of(model));
  at::Tensor c = at::empty_like(a);
  const Spread seconds = time_repeats(3, 10, [&] {
    at::mm_out(c, a, b);
    wait_for_device(model);
  });
  return 2.0 * static_cast<double>(n) * n * n / seconds.min;
}

double measure_read_rate(const LoadedModel& model) {
  const c10::InferenceMode no_gradients;
  const bool is_cuda = model.weights().device.is_cuda();
  const std::int64_t n = (is_cuda ? 2048L : 256L) << 18;  // words: 2 GiB, 256 MiB
  const at::Tensor words = at::ones({n}, options_of(model).dtype(at::kInt)), out = at::zeros({1}, words.options());
  const kernels::XorWordsArgs args = {.data = reinterpret_cast<std::uint32_t*>(words.data_ptr<std::int32_t>()),
                                      .out = reinterpret_cast<std::uint32_t*>(out.data_ptr<std::int32_t>()),
                                      .n = n};
  const Spread seconds = time_repeats(2, 10, [&] {
    kernels::xor_words(args, ops::place_of(model.weights().device));
    wait_for_device(model);
  });
  return static_cast<double>(words.nbytes()) / seconds.min;
}

Spread measure_layer_products(const LoadedModel& model, const ModelConfig& config, std::int64_t chunk, std::int64_t n,
                              int n_repeats) {
  const c10::InferenceMode no_gradients;
  const LayerWeights& layer = model.weights().layers.front();
  const std::int64_t q_rows = static_cast<std::int64_t>(config.n_heads) * config.head_dim;
  const at::Tensor x = at::randn({chunk, config.hidden_size}, options_of(model)),
                   o = at::randn({chunk, q_rows}, options_of(model)),
                   y = at::randn({chunk, layer.down.size(-1)}, options_of(model));
  // Of experts, all with as many tokens each.
  const auto mlp = [&] {
    if (!layer.router.defined()) {
      at::linear(x, layer.gate_up);
      at::linear(y, layer.down);
      return;
    }
    const ExpertConfig& experts = config.layers.front().experts;
    const std::int64_t rows = std::max<std::int64_t>(1, chunk * experts.per_token / experts.n);
    at::linear(x, layer.router);
    for (std::int64_t i = 0; i < experts.n; ++i) {
      at::linear(x.narrow(0, 0, std::min(rows, chunk)), layer.gate_up[i]);
      at::linear(y.narrow(0, 0, std::min(rows, chunk)), layer.down[i]);
    }
  };
  Spread seconds = time_repeats(2, n_repeats, [&] {
    at::linear(x, layer.qkv_proj);
    at::linear(o, layer.o_proj);
    mlp();
    wait_for_device(model);
  });
  const double times = config.n_layers * static_cast<double>(n) / static_cast<double>(chunk);
  for (double* value : {&seconds.median, &seconds.min, &seconds.max}) *value *= times;
  return seconds;
}

Spread measure_dense_attention(const LoadedModel& model, const ModelConfig& config, std::int64_t n, int n_repeats,
                               const char** backend) {
  const c10::InferenceMode no_gradients;
  const std::int64_t all = n;
  n = std::min(n, kMostMeasured);
  const at::Tensor q = at::randn({n, config.n_heads, config.head_dim}, options_of(model)),
                   k = at::randn({config.n_kv_heads, n, config.head_dim}, options_of(model)),
                   v = at::randn({config.n_kv_heads, n, config.head_dim}, options_of(model));
  const DenseBackend chosen = choose_dense_backend(q, config.n_kv_heads);
  *backend = name_of(chosen);
  Spread seconds = time_repeats(1, n_repeats, [&] {
    dense_attention(chosen, q, k, v, 0, config.attention_scale(0));
    wait_for_device(model);
  });
  // A local layer, and what is left out of a long text, at the same rate for each pair: LibTorch has no attention with a
  // window, and a million tokens would take half a minute.
  const double pairs = static_cast<double>(n) * (static_cast<double>(n) + 1) / 2,
               of_all = static_cast<double>(all) * (static_cast<double>(all) + 1) / 2,
               times = pairs_of_layers(config, of_all, static_cast<int>(all)) / pairs;
  for (double* value : {&seconds.median, &seconds.min, &seconds.max}) *value *= times;
  return seconds;
}

std::int64_t peak_bytes(const LoadedModel& model) {
  const c10::Device device = model.weights().device;
  if (device.is_cuda()) {
    constexpr std::size_t kAll = 0;  // of all pools together
    return c10::getDeviceAllocator(c10::kCUDA)->getDeviceStats(device.index()).allocated_bytes[kAll].peak;
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
}

void forget_peak(const LoadedModel& model) {
  const c10::Device device = model.weights().device;
  if (device.is_cuda()) c10::getDeviceAllocator(c10::kCUDA)->resetPeakStats(device.index());
}

}  // namespace kvscope::engine
