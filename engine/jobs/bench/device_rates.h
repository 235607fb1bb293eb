#pragma once
// What this device can do, measured beside every benchmark: the floors that its figures are divided by.

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "engine/decode/generation.h"

namespace kvscope::engine {

/// How repeated measurements are told: the median and how far they lie apart.
struct Spread {
  double median = 0, min = 0, max = 0;
};
/// Of at least one value.
Spread spread_of(std::vector<double> values);
/// {"median", "min", "max"}
nlohmann::json to_json(const Spread& spread);

/// Seconds of `body`, which must have waited for the device when it returns: after `n_warm_up` calls, the spread of
/// n_repeats.
Spread time_repeats(int n_warm_up, int n_repeats, const std::function<void()>& body);

/// Returns when everything that was enqueued on the model's device is done.
void wait_for_device(const LoadedModel& model);

/// Floating-point operations per second of one large product of square matrices of random numbers in the model's dtype
/// on its device: 8192 rows on CUDA, 1024 on the CPU. The best of several, since it stands for what is possible.
double measure_matrix_rate(const LoadedModel& model);

/// Bytes per second at which memory far larger than any cache is read, likewise the best of several.
double measure_read_rate(const LoadedModel& model);

/// Seconds of the products alone with the layers' matrices of `config` for chunks of `chunk` tokens out of `n`: one
/// layer is measured, with random numbers, and multiplied by the layers.
Spread measure_layer_products(const LoadedModel& model, const ModelConfig& config, std::int64_t chunk, std::int64_t n,
                              int n_repeats);

/// Seconds of causal attention of all layers over n tokens at once, keys complete, by the fastest backend there is
/// (dense_attention.h); `backend` is its name. One layer is measured, over 131,072 tokens at most; more tokens
/// and local layers count at the same rate for each pair.
Spread measure_dense_attention(const LoadedModel& model, const ModelConfig& config, std::int64_t n, int n_repeats,
                               const char** backend);

/// Bytes that LibTorch had taken on the device at most since the last call of forget_peak(); on the CPU, what the
/// process had resident at most since it began.
std::int64_t peak_bytes(const LoadedModel& model);
void forget_peak(const LoadedModel& model);

}  // namespace kvscope::engine
