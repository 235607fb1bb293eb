#include "kernels/gate_score.h"

#include <algorithm>
#include <cmath>

#include "kernels/reference/norm_rotate.h"
#include "kernels/rule/counter_random.h"

namespace kvscope::kernels::reference {
namespace {

/// Appends rms(k) weight.
void append_normed(const std::vector<float>& k, const float* weight, float eps, std::vector<double>& x) {
  double squares = 0;
  for (const float value : k) squares += static_cast<double>(value) * value;
  const double inverse = 1 / std::sqrt(squares / static_cast<double>(k.size()) + static_cast<double>(eps));
  for (std::size_t i = 0; i < k.size(); ++i) x.push_back(k[i] * inverse * weight[i]);
}

std::int64_t key_of(const GateScoreArgs& args, int head) {
  return (static_cast<std::int64_t>(args.n_heads) + head) * args.head_dim;
}

std::vector<float> unrotated_key(const GateScoreArgs& args, int head) {
  return normed_rows(args.qkv, key_of(args, head), 1, args.head_dim, args.k_norm, args.eps, args.norm_offset,
                     args.dtype);
}

/// As the cache holds it.
std::vector<float> rotated_key(const GateScoreArgs& args, std::vector<float> key) {
  rotate_rows(key, args.position, args.inv_freq, args.head_dim, args.attention_scaling);
  for (float& value : key) value = rounded(value, args.dtype);
  return key;
}

/// [2 head_dim] of a key source.
std::vector<double> inputs(const GateScoreArgs& args, int head) {
  const int dim = args.head_dim;
  const std::int64_t v_first = key_of(args, head) + static_cast<std::int64_t>(args.n_kv_heads) * dim;
  const std::vector<float> before = unrotated_key(args, head), after = rotated_key(args, before);
  std::vector<double> x;
  if (args.source == GateSource::key_pair) {
    append_normed(before, args.pre_weight, args.gate_eps, x);
    append_normed(after, args.post_weight, args.gate_eps, x);
    return x;
  }
  x.assign(after.begin(), after.end());
  for (int i = 0; i < dim; ++i) x.push_back(load(args.qkv, v_first + i, args.dtype));
  return x;
}

double activated(GateActivation activation, double x) {
  if (activation == GateActivation::silu) return silu(x);
  return activation == GateActivation::gelu ? gelu(x) : x;
}

double product(const float* w, const std::vector<double>& x) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += w[i] * x[i];
  return sum;
}

double score_from_weights(const GateScoreArgs& args, int head) {
  const std::vector<double> x = inputs(args, head);
  const std::int64_t n_inputs = 2L * args.head_dim, first = static_cast<std::int64_t>(head) * args.n_hidden;
  double score = args.b2 ? args.b2[head] : 0;
  if (args.n_hidden == 0) return score + product(args.w2 + head * n_inputs, x);
  for (int i = 0; i < args.n_hidden; ++i) {
    const double hidden = product(args.w1 + (first + i) * n_inputs, x) + (args.b1 ? args.b1[first + i] : 0);
    score += args.w2[first + i] * activated(args.activation, hidden);
  }
  return score;
}

double length_of(const std::vector<double>& x) {
  double squares = 0;
  for (const double value : x) squares += value * value;
  return std::sqrt(squares);
}

/// -|k|, or -cos of it and of the sum of all keys so far, each of length 1.
double score_of_key(const GateScoreArgs& args, int head) {
  const std::vector<float> rotated = rotated_key(args, unrotated_key(args, head));
  const std::vector<double> key(rotated.begin(), rotated.end());
  const double length = length_of(key);
  if (args.source == GateSource::key_norm) return -length;
  float* anchor = args.anchor + static_cast<std::int64_t>(head) * args.head_dim;
  std::vector<double> sum;
  double product = 0;
  for (std::size_t i = 0; i < key.size(); ++i) {
    sum.push_back(anchor[i] + key[i] / std::max(length, 1e-12));
    anchor[i] = static_cast<float>(sum[i]);
    product += key[i] * sum[i];
  }
  return -product / (std::max(length, 1e-8) * std::max(length_of(sum), 1e-8));
}

double score(const GateScoreArgs& args, int head) {
  if (is_of_key(args.source)) return score_of_key(args, head);
  if (has_weights(args.source)) return score_from_weights(args, head);
  if (args.source == GateSource::table) return table_score(args, head, *args.position);
  if (args.source == GateSource::random) return counter_uniform(args.seed, args.layer, head, *args.position);
  const std::int64_t query = static_cast<std::int64_t>(head) * (args.n_heads / args.n_kv_heads) * args.head_dim;
  return normed_rows(args.qkv, query, 1, args.head_dim, args.q_norm, args.eps, args.norm_offset, args.dtype).back();
}

}  // namespace

void gate_score(const GateScoreArgs& args) {
  for (int head = 0; head < args.n_kv_heads; ++head) {
    const double y = args.scale * score(args, head) + args.offset;
    args.out[head] = static_cast<float>(args.sigmoid ? sigmoid(y) : y);
  }
}

}  // namespace kvscope::kernels::reference
