// What every gate says of a token, in a prompt and in a decode step, against loops written from its definition.
#include <algorithm>
#include <cmath>

#include "engine/core/files/gate/gate_kinds.h"
#include "engine/core/lifetime/lifetime_map.h"
#include "engine/model/weights.h"
#include "tests/engine/gated_model.h"
#include "tests/engine/plain_layer.h"
#include "tests/support/mlstm_variants.h"
#include "tests/support/torch_catch.h"  // before LibTorch

namespace kvscope {
namespace {

using test::PlainLayer;

constexpr int kTokens = 48;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double activate(Activation activation, double x) {
  return activation == Activation::gelu   ? x * (1 + std::erf(x / std::sqrt(2.0))) / 2
         : activation == Activation::silu ? x * sigmoid(x)
                                          : x;
}

/// Row `row` of a tensor whose last axis has n columns.
std::vector<double> row_of(const GateFile& gate, const char* name, std::int64_t row, std::int64_t n) {
  const std::vector<float>& values = gate.tensors.at(name).values;
  return {values.begin() + row * n, values.begin() + (row + 1) * n};
}

std::vector<double> normed(const double* x, const std::vector<double>& weight, double eps) {
  const int n = static_cast<int>(weight.size());
  const double scale = 1 / std::sqrt(test::dot(x, x, n) / n + eps);
  std::vector<double> out;
  for (int i = 0; i < n; ++i) out.push_back(x[i] * scale * weight[static_cast<std::size_t>(i)]);
  return out;
}

/// What the gate's network is given.
std::vector<double> input(const GateFile& gate, const ModelConfig& config, const PlainLayer& layer, int index, int head,
                          int t) {
  const int d = config.head_dim;
  std::vector<double> x;
  switch (info_of(gate.config.kind).reads) {
    case GateReads::key_pair: {
      x = normed(layer.k_unrotated.at(t, head), row_of(gate, "pre_norm", index, d), gate.config.norm_eps);
      const auto after = normed(layer.k.at(t, head), row_of(gate, "post_norm", index, d), gate.config.norm_eps);
      x.insert(x.end(), after.begin(), after.end());
      return x;
    }
    case GateReads::key_value:
      x.assign(layer.k.at(t, head), layer.k.at(t, head) + d);
      x.insert(x.end(), layer.v.at(t, head), layer.v.at(t, head) + d);
      return x;
    case GateReads::layer_input:
      return normed(layer.x.at(t), row_of(gate, "norm", index, config.hidden_size), gate.config.norm_eps);
    default:
      return {layer.input.at(t), layer.input.at(t) + config.hidden_size};
  }
}

/// The hidden layer's outputs for token t.
std::vector<double> hidden_units(const GateFile& gate, const ModelConfig& config, const PlainLayer& layer, int index,
                                 int head, int t) {
  const GateConfig& c = gate.config;
  const std::vector<double> x = input(gate, config, layer, index, head, t);
  const auto n = static_cast<std::int64_t>(x.size());
  // Gates on the attention input share their hidden layer between heads.
  const bool shared = info_of(c.kind).reads == GateReads::attention_input;
  std::vector<double> hidden;
  for (std::int64_t unit = 0; unit < c.n_hidden; ++unit) {
    const std::int64_t row = (shared ? index : index * config.n_kv_heads + head) * c.n_hidden + unit;
    hidden.push_back(activate(
        c.activation,
        test::dot(row_of(gate, "w1", row, n).data(), x.data(), static_cast<int>(n)) + row_of(gate, "b1", row, 1)[0]));
  }
  return hidden;
}

/// SP-KV App. C.4: each unit's own filter over the tokens around t; nothing stands before the first.
std::vector<double> convolved_units(const GateFile& gate, const ModelConfig& config, const PlainLayer& layer, int index,
                                    int head, int t) {
  const int kernel = gate.config.kernel, n_hidden = gate.config.n_hidden;
  std::vector<double> sum(static_cast<std::size_t>(n_hidden));
  for (int j = 0; j < kernel; ++j) {
    const int from = t - kernel / 2 + j;
    if (from < 0) continue;
    const std::vector<double> hidden = hidden_units(gate, config, layer, index, head, from);
    for (int m = 0; m < n_hidden; ++m)
      sum[m] += row_of(gate, "conv", index * n_hidden + m, kernel)[j] * hidden[static_cast<std::size_t>(m)];
  }
  return sum;
}

/// Of the key alone: its norm, or its cosine with the sum of all unit keys so far.
double key_score(const GateFile& gate, const PlainLayer& layer, int head, int t, int d) {
  const double* key = layer.k.at(t, head);
  if (gate.config.kind == GateKind::knorm) return -std::sqrt(test::dot(key, key, d));
  std::vector<double> anchor(static_cast<std::size_t>(d));
  for (int u = 0; u <= t; ++u) {
    const double* one = layer.k.at(u, head);
    const double length = std::sqrt(test::dot(one, one, d));
    for (int i = 0; i < d; ++i) anchor[static_cast<std::size_t>(i)] += one[i] / length;
  }
  return -test::dot(key, anchor.data(), d) /
         std::sqrt(test::dot(key, key, d) * test::dot(anchor.data(), anchor.data(), d));
}

/// Score of token t by a network without memory, or by its key.
double network_score(const GateFile& gate, const ModelConfig& config, const PlainLayer& layer, int index, int head,
                     int t) {
  const GateConfig& c = gate.config;
  double y = 0;
  const GateReads reads = info_of(c.kind).reads;
  if (reads == GateReads::key) {
    y = key_score(gate, layer, head, t, config.head_dim);
  } else if (reads == GateReads::query_channel) {
    y = layer.q_unrotated.at(t + 1, head * layer.group_size())[config.head_dim - 1];  // token t + 1 marks t
  } else {
    const int from = t + (reads == GateReads::layer_input ? 1 : 0);
    const std::int64_t of_head = index * config.n_kv_heads + head;
    const auto units = c.n_hidden == 0 ? input : c.kernel > 1 ? convolved_units : hidden_units;
    const std::vector<double> last = units(gate, config, layer, index, head, from);
    y = test::dot(row_of(gate, "w2", of_head, static_cast<std::int64_t>(last.size())).data(), last.data(),
                  static_cast<int>(last.size())) +
        row_of(gate, "b2", of_head, 1)[0];
  }
  const double logit = (c.negated ? -1 : 1) * (c.scale * y + c.offset);
  return c.sigmoid ? sigmoid(logit) : logit;
}

/// Every kind that scores tokens but the mLSTM, and the kernels of its convolution.
const std::vector<std::pair<GateKind, int>>& networks() {
  static const std::vector<std::pair<GateKind, int>> all = [] {
    std::vector<std::pair<GateKind, int>> out;
    for (const GateKindInfo& info : gate_kinds()) {
      if (info.kind == GateKind::kvpop_mlstm || info.reads == GateReads::nothing) continue;
      out.emplace_back(info.kind, 1);
      if (!info.convolved.empty()) out.insert(out.end(), {{info.kind, 3}, {info.kind, 33}});  // 33: the whole window
    }
    return out;
  }();
  return all;
}

TEST_CASE("rules: a gate says of a token what its definition says, in a prompt and in decode steps",
          "[engine][rules][gate]") {
  const auto [kind, kernel] = networks()[GENERATE(range(std::size_t{0}, networks().size()))];
  CAPTURE(name_of(kind), kernel);
  GateFile gate = test::random_gate(kind, /*delay=*/0, kernel);
  if (kind == GateKind::dms) gate.config.offset = -5;  // as published
  gate.config.norm_eps = GENERATE(1e-6, 0.05);         // another one than the model's
  const GateReads reads = info_of(kind).reads;
  const bool has_norm = reads == GateReads::key_pair || reads == GateReads::layer_input;
  if (!has_norm && gate.config.norm_eps > 1e-6) return;
  const engine::LoadedModel model = test::gated_model({gate});
  const std::vector<std::int32_t> ids = test::some_ids(kTokens, 512, 31);
  const std::vector<PlainLayer> layers = test::dense_layers(model, ids);
  const std::string policy = "threshold:threshold=-1e6,window=16";  // everything stays: later layers are dense too
  const RunRecord at_once = test::feed(model, ids, kTokens, policy).record,
                  stepped = test::feed(model, ids, 1, policy).record;
  const int delay = gate.config.delay;
  double least = INFINITY, most = -INFINITY;
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < 2; ++head) {
      const std::vector<float>&prompt = at_once.scores.row(layer, head), &steps = stepped.scores.row(layer, head);
      for (int t = 0; t < kTokens - delay; ++t) {
        CAPTURE(layer, head, t);
        const double expected =
            network_score(gate, model.config(), layers[static_cast<std::size_t>(layer)], layer, head, t);
        // float32 against double: 1e-5 of the largest term, which DMS multiplies by its scale.
        const double tolerance = 1e-5 * std::max({1.0, std::abs(expected), gate.config.scale});
        REQUIRE(std::abs(prompt[static_cast<std::size_t>(t)] - expected) < tolerance);
        REQUIRE(std::abs(steps[static_cast<std::size_t>(t)] - expected) < tolerance);
        least = std::min(least, expected);
        most = std::max(most, expected);
      }
    }
  }
  CHECK(most - least > 0.05);                        // tokens differ
  for (int t = kTokens - delay; t < kTokens; ++t) {  // what they wait for has not come yet
    CHECK(std::isnan(at_once.scores.row(0, 0)[static_cast<std::size_t>(t)]));
    CHECK(std::isnan(stepped.scores.row(0, 0)[static_cast<std::size_t>(t)]));
  }
}

TEST_CASE("rules: DMS drops a token 513 keys behind unless token t + 1 left it unmarked", "[engine][rules][gate]") {
  GateFile gate = test::random_gate(GateKind::dms);
  const engine::LoadedModel model = test::gated_model({gate});
  const std::vector<std::int32_t> ids = test::some_ids(kTokens, 512, 32);
  const PlainLayer layer = test::dense_layers(model, ids)[0];
  const int prompt_len = GENERATE(1, 30, kTokens);
  const RunRecord run = test::feed(model, ids, prompt_len, "dms:window=7").record;
  int marked = 0;
  for (int head = 0; head < 2; ++head) {
    for (int t = 0; t + 8 < kTokens; ++t) {
      const double logit =
          100 * layer.q_unrotated.at(t + 1, head * 2)[model.config().head_dim - 1] + gate.config.offset;
      REQUIRE(run.evict_at.row(0, head)[static_cast<std::size_t>(t)] == (logit > 0 ? t + 8 : kNever));
      marked += logit > 0;
    }
  }
  CHECK(marked > 8);
  CHECK(marked < 72);
}

TEST_CASE(
    "rules: with a dense prompt KVzap evicts after it, by the scores of a full cache, and token by token in the answer",
    "[engine][rules][gate]") {
  constexpr int kPrompt = 32, kWindow = 7;
  const GateFile gate = test::random_gate(GateKind::kvzap_linear);
  const engine::LoadedModel model = test::gated_model({gate});
  const std::vector<std::int32_t> ids = test::some_ids(kTokens, 512, 34);
  const std::vector<PlainLayer> layers = test::dense_layers(model, ids);
  const int chunk = GENERATE(0, 5), n_sink = GENERATE(0, 3);
  CAPTURE(chunk, n_sink);
  const std::string policy = "kvzap:threshold=0,window=7,prefill=dense,sinks=" + std::to_string(n_sink);
  const RunRecord run = test::feed(model, ids, kPrompt, policy, {.chunk = chunk}).record;
  int left = 0, stayed = 0;
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < 2; ++head) {
      // What leaves after the prompt changes layer 1 in the answer.
      for (int t = 0; t < (layer == 0 ? kTokens : kPrompt) - kWindow; ++t) {
        CAPTURE(layer, head, t);
        const double score =
            network_score(gate, model.config(), layers[static_cast<std::size_t>(layer)], layer, head, t);
        const bool stays = t < n_sink || score >= 0;
        REQUIRE(run.evict_at.row(layer, head)[static_cast<std::size_t>(t)] ==
                (stays ? kNever : std::max(t + kWindow, kPrompt)));
        (stays ? stayed : left) += 1;
      }
    }
  }
  CHECK(left > 20);
  CHECK(stayed > 20);
}

TEST_CASE("rules: attention does not see the channel that carries DMS's gate", "[engine][rules][gate]") {
  const std::vector<std::int32_t> ids = test::some_ids(kTokens, 512, 33);
  const engine::LoadedModel with = test::gated_model({test::random_gate(GateKind::dms)}), without = test::small_model();
  const at::Tensor inv_freq = with.weights().layers[0].inv_freq;
  const int d = with.config().head_dim;
  for (const PlainLayer& layer : test::dense_layers(with, ids)) {
    for (int t = 0; t < kTokens; ++t) {
      for (int head = 0; head < layer.q.n_heads; ++head) {
        const double gate = layer.q_unrotated.at(t, head)[d - 1], partner = layer.q_unrotated.at(t, head)[d / 2 - 1];
        const double angle = t * static_cast<double>(inv_freq.data_ptr<float>()[d / 2 - 1]);
        REQUIRE(gate != 0);
        const bool carries = head % 2 == 0;  // the first of a group of two
        const double seen = carries ? 0 : gate;
        // The gate's rotation partner is turned as if the gate were 0, and the gate is 0 afterwards.
        REQUIRE(layer.q.at(t, head)[d / 2 - 1] ==
                Approx(partner * std::cos(angle) - seen * std::sin(angle)).margin(1e-5));
        REQUIRE(layer.q.at(t, head)[d - 1] ==
                Approx(carries ? 0 : seen * std::cos(angle) + partner * std::sin(angle)).margin(1e-5));
      }
    }
  }
  // Decode steps do not see it either: they give the prompt's logits, and not those of the model without a gate.
  const std::vector<float> at_once = test::feed(with, ids, kTokens, "full").logits;
  CHECK(test::relative_difference(test::feed(with, ids, 1, "full").logits, at_once) < 1e-5);
  CHECK(test::relative_difference(test::feed(without, ids, kTokens, "full").logits, at_once) > 1e-4);
}

/// phi(W x), W [2 D, D / 2]; the softmax map W [2 D, D].
std::vector<double> features(const GateFile& gate, const char* weight, const std::vector<double>& x,
                             std::int64_t of_head, int d) {
  const bool is_softmax = gate.config.mlstm.feature_map == FeatureMap::softmax;
  std::vector<double> y(static_cast<std::size_t>(is_softmax ? d : d / 2)), out(static_cast<std::size_t>(d));
  const float* w = gate.tensors.at(weight).values.data() + of_head * 2 * d * static_cast<std::int64_t>(y.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t j = 0; j < y.size(); ++j) y[j] += x[i] * w[i * y.size() + j];
  }
  double plus = 0, minus = 0;
  for (const double one : y) plus += std::exp(one), minus += std::exp(-one);
  for (std::size_t j = 0; j < y.size(); ++j) {
    out[j] = std::exp(y[j]) / plus;
    if (!is_softmax) out[j + y.size()] = std::exp(-y[j]) / minus;
  }
  return out;
}

/// v~, column by column.
std::vector<double> memory_values(const GateFile& gate, const std::vector<double>& x, std::int64_t of_head, int d) {
  if (gate.config.mlstm.cached_values) return {x.begin() + d, x.end()};
  const std::vector<float>& wv = gate.tensors.at("wv").values;
  std::vector<double> out(static_cast<std::size_t>(d));
  for (int r = 0; r < 2 * d; ++r) {
    for (int col = 0; col < d; ++col)
      out[static_cast<std::size_t>(col)] += x[static_cast<std::size_t>(r)] * wv[(of_head * 2 * d + r) * d + col];
  }
  return out;
}

/// (h - mean) / deviation, times the head's weight.
void normalise(const GateFile& gate, std::int64_t of_head, std::vector<double>& h) {
  const auto n = static_cast<double>(h.size());
  const std::vector<double> weight = row_of(gate, "norm", of_head, static_cast<int>(h.size()));
  double mean = 0, variance = 0;
  for (const double one : h) mean += one / n;
  for (const double one : h) variance += (one - mean) * (one - mean) / n;
  for (std::size_t i = 0; i < h.size(); ++i)
    h[i] = (h[i] - mean) / std::sqrt(variance + gate.config.norm_eps) * weight[i];
}

/// KVpop E.3 as it is printed, token by token and without a stabiliser: C = f C + i k v^T, z = f z + i k. Scores of one
/// head, read `delay` tokens later.
std::vector<double> mlstm_scores(const GateFile& gate, const PlainLayer& layer, int index, int head, int n) {
  const int d = layer.k.dim, delay = gate.config.delay;
  const std::int64_t of_head = index * layer.k.n_heads + head;
  const auto cap = [&](double a) {
    const double c = gate.config.soft_cap;
    return c == 0 ? a : c * std::tanh(a / c);
  };
  std::vector<double> c(static_cast<std::size_t>(d) * d), z(static_cast<std::size_t>(d)), scores;
  std::vector<std::vector<double>> xs, qs;
  for (int t = 0; t < n; ++t) {
    std::vector<double> x(layer.k.at(t, head), layer.k.at(t, head) + d);
    x.insert(x.end(), layer.v.at(t, head), layer.v.at(t, head) + d);
    const auto linear = [&](const char* w, const char* b) {
      return cap(test::dot(row_of(gate, w, of_head, 2 * d).data(), x.data(), 2 * d) + row_of(gate, b, of_head, 1)[0]);
    };
    const double i = std::exp(linear("gi", "bi")), f = sigmoid(linear("gf", "bf"));
    const std::vector<double> k = features(gate, "wk", x, of_head, d), v = memory_values(gate, x, of_head, d);
    for (int r = 0; r < d; ++r) {
      for (int col = 0; col < d; ++col)
        c[r * d + col] = f * c[r * d + col] + i * k[static_cast<std::size_t>(r)] * v[static_cast<std::size_t>(col)];
    }
    for (std::size_t r = 0; r < z.size(); ++r) z[r] = f * z[r] + i * k[r];
    qs.push_back(features(gate, "wq", x, of_head, d));
    xs.push_back(x);
    if (t < delay) continue;
    const std::vector<double>&q = qs[static_cast<std::size_t>(t - delay)],
          &read = xs[static_cast<std::size_t>(t - delay)],
          out = row_of(gate, "out", of_head, gate.config.mlstm.skip ? 3 * d : d);
    double below = test::dot(q.data(), z.data(), d);
    if (gate.config.guarded) below = std::max(std::abs(below), 1.0);  // exp(-m) in units of exp(m)
    double score = row_of(gate, "b", of_head, 1)[0];
    if (gate.config.mlstm.skip) score += test::dot(out.data() + d, read.data(), 2 * d);
    std::vector<double> h(static_cast<std::size_t>(d));
    for (int r = 0; r < d; ++r) {
      for (int col = 0; col < d; ++col)
        h[static_cast<std::size_t>(col)] += q[static_cast<std::size_t>(r)] * c[r * d + col] / below;
    }
    if (gate.config.mlstm.head_norm) normalise(gate, of_head, h);
    for (std::size_t col = 0; col < h.size(); ++col) score += out[col] * activate(Activation::silu, h[col]);
    scores.push_back((gate.config.negated ? -1 : 1) * (gate.config.scale * score + gate.config.offset));
  }
  return scores;
}

/// Scores of a prompt and of steps are the recurrence's.
void check_scores(const GateFile& gate) {
  const engine::LoadedModel model = test::gated_model({gate});
  const std::vector<std::int32_t> ids = test::some_ids(kTokens, 512, 34);
  const std::vector<PlainLayer> layers = test::dense_layers(model, ids);
  const std::string policy = "kvpop:budget=512,sinks=0,window=16";
  const RunRecord at_once = test::feed(model, ids, kTokens, policy).record,
                  stepped = test::feed(model, ids, 1, policy).record;
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < 2; ++head) {
      CAPTURE(layer, head);
      const std::vector<double> expected =
          mlstm_scores(gate, layers[static_cast<std::size_t>(layer)], layer, head, kTokens);
      REQUIRE(expected.size() == static_cast<std::size_t>(kTokens - gate.config.delay));
      if (gate.config.guarded) {
        GateFile plain = gate;
        plain.config.guarded = false;
        CHECK(mlstm_scores(plain, layers[static_cast<std::size_t>(layer)], layer, head, kTokens) != expected);
      }
      for (std::size_t t = 0; t < expected.size(); ++t) {
        const double tolerance = 1e-5 * std::max(1.0, std::abs(expected[t]));
        REQUIRE(std::abs(at_once.scores.row(layer, head)[t] - expected[t]) < tolerance);
        REQUIRE(std::abs(stepped.scores.row(layer, head)[t] - expected[t]) < tolerance);
      }
    }
  }
}

TEST_CASE("rules: the variants of KVpop's mLSTM, delayed and immediate, are their recurrences",
          "[engine][rules][gate]") {
  const int delay = GENERATE(0, 16);
  const MlstmVariant variant = test::mlstm_variants()[GENERATE(0u, 1u, 2u, 3u, 4u)];
  CAPTURE(delay, static_cast<int>(variant.feature_map), variant.head_norm, variant.cached_values, variant.skip);
  GateFile gate = test::random_gate(GateKind::kvpop_mlstm, delay, /*kernel=*/1, variant);
  gate.config.norm_eps = 1e-3;  // so large that a score shows it
  gate.config.negated = delay == 0;
  check_scores(gate);
}

TEST_CASE("rules: KVpop's mLSTM, delayed and immediate, plain and guarded, is its recurrence",
          "[engine][rules][gate]") {
  const int delay = GENERATE(0, 16);
  const bool guarded = GENERATE(false, true);
  CAPTURE(delay, guarded);
  GateFile gate = test::random_gate(GateKind::kvpop_mlstm, delay);
  gate.config.guarded = guarded;
  gate.config.negated = guarded;
  gate.config.scale = guarded ? 2.5 : 1;
  gate.config.offset = delay == 0 ? 0.75 : 0;
  check_scores(gate);
}

}  // namespace
}  // namespace kvscope
