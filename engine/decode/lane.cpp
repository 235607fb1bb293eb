#include "engine/decode/lane.h"

#include <algorithm>

namespace kvscope::engine {
namespace {

/// What one head decided at query position q, as facts. `newcomer` is -1 while sinks or nobody leave the window.
void note_decision(const kernels::RetainDecision& decision, int layer, int head, std::int32_t q, StepFacts& facts) {
  if (decision.evicted >= 0) facts.lifetimes.push_back({layer, head, decision.evicted, q});
  if (decision.boundary < 0) return;
  facts.contests.push_back({.q = q,
                            .layer = static_cast<std::int16_t>(layer),
                            .kv_head = static_cast<std::int16_t>(head),
                            .newcomer = decision.newcomer,
                            .boundary = decision.boundary,
                            .newcomer_effective = decision.newcomer_effective,
                            .boundary_effective = decision.boundary_effective,
                            .evicted = decision.evicted});
}

/// A number for each head, on the device.
template <typename T, typename Value>
at::Tensor of_heads(const SequenceState& sequence, const Value& value) {
  const ModelConfig& config = sequence.model.config();
  std::vector<T> values;
  for (int head = 0; head < config.n_layers * config.n_kv_heads; ++head) values.push_back(value(head));
  return at::tensor(at::ArrayRef<T>(values))
      .to(sequence.model.weights().device)
      .view({config.n_layers, config.n_kv_heads});
}

}  // namespace

Lane::Lane(SequenceState& sequence) : sequence_(&sequence) {
  for (int layer = 0; layer < sequence.model.config().n_layers; ++layer)
    if (!sequence.policy.is_local_layer(layer)) scored_layers_.push_back(layer);
}

void Lane::prepare(std::int32_t position) {
  sequence_->cache.reserve_next();
  sequence_->find_recent_slots(position);
  const ActivePolicy& policy = sequence_->policy;
  if (policy_version_ == policy.version()) return;
  const RetentionPlan& plan = policy.plan();
  const auto decay = [&](int head) { return static_cast<float>(plan.of_head(policy.geometry(), head).log_gamma); };
  const auto top_k = [&](int head) { return plan.of_head(policy.geometry(), head).top_k; };
  const auto threshold = [&](int head) { return policy.threshold(head); };
  log_gamma_ = head_threshold_ = head_top_k_ = at::Tensor();
  const bool decays = policy.geometry().log_gamma != 0 ||
                      std::ranges::any_of(plan.heads, [](const HeadRule& head) { return head.log_gamma != 0; });
  if (decays) log_gamma_ = of_heads<float>(*sequence_, decay);
  if (policy.has_head_thresholds()) head_threshold_ = of_heads<float>(*sequence_, threshold);
  if (plan.has_fixed_budget() && policy.divides_budget()) head_top_k_ = of_heads<std::int32_t>(*sequence_, top_k);
  policy_version_ = policy.version();
}

void Lane::note_step(std::int32_t position, const StepBuffers::Decided& decided) {
  const ModelConfig& config = sequence_->model.config();
  for (int layer = 0; layer < config.n_layers; ++layer) {
    for (int head = 0; head < config.n_kv_heads; ++head) {
      sequence_->cache.note_slot(layer, head, decided.decisions[layer * config.n_kv_heads + head].slot);
    }
  }
  for (const auto& method : sequence_->methods) method->observe_step(position, decided.decisions, decided.scores);
  const TokenScorer* scorer = sequence_->policy.scorer();
  if (scorer != nullptr && scorer->scores_between_steps()) score_newest(position, decided.decisions);
}

void Lane::score_newest(std::int32_t position, const kernels::RetainDecision* decisions) const {
  std::vector<std::int32_t> slots;
  const ModelConfig& config = sequence_->model.config();
  for (int head = 0; head < config.n_layers * config.n_kv_heads; ++head) slots.push_back(decisions[head].slot);
  const SlotCache::Rows rows = sequence_->cache.rows_of(scored_layers_, slots);
  sequence_->policy.scorer()->score_newest({.position = position, .layers = scored_layers_, .k = rows.k, .v = rows.v},
                                           sequence_->memory.get());
}

void Lane::enqueue_score(int layer, int row, const StepBuffers& buffers, kernels::Place place,
                         std::vector<kernels::GateScoreArgs>& gates) const {
  const TokenScorer* scorer = sequence_->policy.scorer();
  if (scorer == nullptr || sequence_->policy.is_local_layer(layer) ||
      scorer->mlstm(layer, sequence_->memory.get()).project != nullptr)
    return;
  const DecodeToken token = {.layer = layer,
                             .x = row_of_tensor(buffers.x, row),
                             .input_norm = data_or_null(sequence_->model.weights().layers[layer].input_norm),
                             .input = buffers.rounded.defined() ? row_of_tensor(buffers.rounded, row) : nullptr,
                             .qkv = row_of_tensor(buffers.qkv, row),
                             .position = buffers.position(row),
                             .score = buffers.decided(row).scores + layer * sequence_->model.config().n_kv_heads,
                             .memory = sequence_->memory.get()};
  if (const std::optional<kernels::GateScoreArgs> gate = scorer->gate(token)) {
    gates.push_back(*gate);
  } else {
    scorer->enqueue(token, place);
  }
}

kernels::AdmitStepArgs Lane::admit_args(int index, int row, const StepBuffers& buffers) const {
  SequenceState& sequence = *sequence_;
  const ModelConfig& config = sequence.model.config();
  const Weights& weights = sequence.model.weights();
  const LayerWeights& layer = weights.layers[index];
  const RetentionGeometry geometry =
      sequence.policy.plan().of_head(sequence.policy.geometry(), index * config.n_kv_heads);
  const RetentionPlan& plan = sequence.policy.plan();
  const StepBuffers::Decided out = buffers.decided(row);
  kernels::AdmitStepArgs args = {.cache = sequence.cache.view(index),
                                 .qkv = row_of_tensor(buffers.qkv, row),
                                 .q_norm = data_or_null(layer.q_norm),
                                 .k_norm = data_or_null(layer.k_norm),
                                 .inv_freq = layer.inv_freq.data_ptr<float>(),
                                 .position = buffers.position(row),
                                 .q = row_of_tensor(buffers.q, row),
                                 .n_heads = config.n_heads,
                                 .eps = config.layers[index].norm_eps,
                                 .norm_offset = weights.norm_offset,
                                 .attention_scaling = layer.attention_scaling,
                                 .zero_channel = weights.gate_channel,
                                 .policy = {.rule = sequence.policy.rule(index),
                                            .threshold = plan.threshold,
                                            .strict = plan.strict,
                                            .n_sink = geometry.n_sink,
                                            .window = geometry.window,
                                            .top_k = geometry.top_k,
                                            .protect = sequence.policy.is_local_layer(index) ? 0 : plan.protect,
                                            .decay_stride = geometry.decay_stride},
                                 .decision = out.decisions + index * config.n_kv_heads};
  if (sequence.policy.is_local_layer(index)) return args;  // no score is asked for there
  if (sequence.recent_slot.defined() && sequence.recent_slot.size(2) == geometry.window)
    args.policy.recent_slot = sequence.recent_slot[index].data_ptr<std::int32_t>();
  if (log_gamma_.defined()) args.policy.log_gamma = log_gamma_[index].data_ptr<float>();
  if (head_top_k_.defined()) {
    args.policy.head_top_k = head_top_k_[index].data_ptr<std::int32_t>();
    for (int head = 1; head < config.n_kv_heads; ++head)
      args.policy.top_k =
          std::min(args.policy.top_k, plan.of_head(sequence.policy.geometry(), index * config.n_kv_heads + head).top_k);
  }
  if (head_threshold_.defined()) args.policy.head_threshold = head_threshold_[index].data_ptr<float>();
  args.score = out.scores +
               index * config.n_kv_heads;  // stay 0 in heads without a scorer, which a hybrid's thresholds tell apart
  if (const TokenScorer* scorer = sequence.policy.scorer()) {
    args.scorer = scorer->mlstm(index, sequence.memory.get());
    if (sequence.score_ring.defined()) {
      args.score_ring = sequence.score_ring[index].data_ptr<float>();
      args.score_delay = scorer->delay();
    }
  }
  return args;
}

LayerStep Lane::layer_step(int layer, int row, const StepBuffers& buffers, kernels::Place place) const {
  return {.layer = layer,
          .q = row_of_tensor(buffers.q, row),
          .lse = static_cast<float*>(row_of_tensor(buffers.lse, row)),
          .position = buffers.position(row),
          .decision = buffers.decided(row).decisions + layer * sequence_->model.config().n_kv_heads,
          .place = place};
}

kernels::DecodeAttentionArgs Lane::attention_args(int layer, int row, const StepBuffers& buffers,
                                                  kernels::Place place) const {
  const ModelConfig& config = sequence_->model.config();
  const auto& methods = sequence_->methods;
  const bool reads_lse = std::any_of(methods.begin(), methods.end(), [](const auto& m) { return m->reads_lse(); });
  const LayerStep step = layer_step(layer, row, buffers, place);
  const AttentionScores scores = attention_scores(config, sequence_->model.weights(), layer);
  kernels::SlotCacheView cache = sequence_->cache.view(layer);
  for (const auto& method : methods) cache = method->select(step, cache);
  return {.cache = cache,
          .q = step.q,
          .o = row_of_tensor(buffers.o, row),
          .lse = reads_lse ? static_cast<float*>(row_of_tensor(buffers.lse, row)) : nullptr,
          .n_heads = config.n_heads,
          .scale = static_cast<float>(scores.scale),
          .scratch = buffers.attention_scratch.size(1) > 0
                         ? static_cast<float*>(row_of_tensor(buffers.attention_scratch, row))
                         : nullptr,
          .variant = scores.variant()};
}

void Lane::after_attention(int layer, int row, const StepBuffers& buffers, kernels::Place place) const {
  const LayerStep step = layer_step(layer, row, buffers, place);
  for (const auto& method : sequence_->methods) method->after_attention(step);
}

void Lane::gather(int row, std::int32_t position, const StepBuffers& buffers, StepFacts& facts) const {
  const int layers = sequence_->model.config().n_layers, heads = sequence_->model.config().n_kv_heads;
  const TokenScorer* scorer = sequence_->policy.scorer();
  const std::int32_t scored = position - (scorer != nullptr ? scorer->delay() : 0);
  const StepBuffers::Decided decided = buffers.decided_on_host(row);
  for (int layer = 0; layer < layers; ++layer) {
    for (int head = 0; head < heads; ++head) {
      const int i = layer * heads + head;
      note_decision(decided.decisions[i], layer, head, position, facts);
      if (scorer != nullptr && scored >= 0 && !sequence_->policy.is_local_layer(layer))
        facts.scores.push_back({layer, head, scored, decided.scores[i]});
    }
  }
  for (const auto& method : sequence_->methods) method->gather(position, facts);
}

void Lane::append_identity(std::vector<std::uintptr_t>& identity) const {
  const kernels::SlotCacheView cache = sequence_->cache.view(0);
  for (const void* there : {static_cast<const void*>(sequence_), static_cast<const void*>(cache.k_pool),
                            static_cast<const void*>(cache.page_table)}) {
    identity.push_back(reinterpret_cast<std::uintptr_t>(there));
  }
  identity.push_back(static_cast<std::uintptr_t>(sequence_->policy.version()));
}

}  // namespace kvscope::engine
