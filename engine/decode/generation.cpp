#include "engine/decode/generation.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <stdexcept>

#include "engine/core/files/tokenizer/chat.h"
#include "engine/decode/density_pass.h"
#include "engine/decode/eviction/mass_eviction.h"
#include "engine/decode/generation_impl.h"
#include "engine/decode/oracle_pass.h"

namespace kvscope::engine {
namespace {

Error prompt_error(std::string found, std::string expected, std::string hint = "") {
  return Error({.file = "prompt", .found = std::move(found), .expected = std::move(expected), .hint = std::move(hint)});
}

void check_ids(const LoadedModel& model, const std::vector<std::int32_t>& ids) {
  check_token_ids(ids, model.config().vocab_size, model.has_tokenizer() ? &model.tokenizer() : nullptr);
}

void check_prompt(const LoadedModel& model, const std::vector<std::int32_t>& ids, int max_tokens) {
  const ModelConfig& config = model.config();
  if (ids.empty()) throw prompt_error("no token", "at least one");
  const int n = static_cast<int>(ids.size());
  if (n > config.max_positions) {
    throw prompt_error(std::to_string(n) + " tokens",
                       "at most " + std::to_string(config.max_positions) + ", the model's context",
                       "shorten the prompt");
  }
  check_ids(model, ids);
  if (max_tokens < 0) {
    throw Error(
        {.code = ExitCode::usage, .file = "max_tokens", .found = std::to_string(max_tokens), .expected = "0 or more"});
  }
}

void check_answer(const LoadedModel& model, const std::vector<std::int32_t>& ids, int room) {
  check_ids(model, ids);
  if (static_cast<int>(ids.size()) <= room) return;
  throw Error({.code = ExitCode::usage,
               .file = "answer",
               .found = std::to_string(ids.size()) + " tokens",
               .expected = "at most " + std::to_string(room) + ", the number of new tokens"});
}

}  // namespace

/// The first weight that has such values is the reason; without one the model's own numbers grew too large.
void Generation::Impl::throw_not_finite() const {
  std::string damaged;
  const auto look = [&](const at::Tensor& tensor, const std::string& name) {
    if (damaged.empty() && tensor.defined() && !at::isfinite(tensor).all().item<bool>()) damaged = name;
  };
  const Weights& weights = model.weights();
  look(weights.embed, "embedding");
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    const LayerWeights& layer = weights.layers[i];
    for (const at::Tensor* tensor :
         {&layer.input_norm, &layer.qkv_proj, &layer.qkv_bias, &layer.q_norm, &layer.k_norm, &layer.whole_q_norm,
          &layer.whole_k_norm, &layer.sink, &layer.o_proj, &layer.o_bias, &layer.attention_out_norm, &layer.post_norm,
          &layer.router, &layer.router_bias, &layer.gate_up, &layer.gate_up_bias, &layer.down, &layer.down_bias,
          &layer.mlp_out_norm})
      look(*tensor, "layer " + std::to_string(i));
  }
  look(weights.final_norm, "final norm");
  look(weights.lm_head, "output head");
  const std::string after = "logits after position " + std::to_string(static_cast<int>(ids.size()) - 1);
  throw Error({.file = model.info().path,
               .where = damaged.empty() ? after : damaged,
               .found = damaged.empty() ? "values that are not finite numbers" : "weights that are not finite numbers",
               .expected = damaged.empty() ? "weights small enough for " + model.info().dtype : "undamaged weights"});
}

std::int32_t Generation::Impl::begin_step(std::int32_t id, StepFacts& facts) {
  const std::int32_t position = static_cast<std::int32_t>(ids.size());
  if (position >= n_positions) throw std::logic_error("Generation: a step beyond n_positions");
  for (const auto& method : state.methods) method->before_queries(position, records ? &facts : nullptr);
  facts.ids = {id};
  facts.pieces.push_back(piece(id));
  facts.logprobs_from = position;
  facts.logprobs = {logprob(id)};
  ids.push_back(id);
  return position;
}

void Generation::Impl::end_step(DecodeStep& step, int index, std::chrono::steady_clock::time_point start,
                                StepFacts& facts) {
  decode = &step;
  sequence = index;
  note_step();
  if (records) decode->gather(sequence, facts);
  for (const auto& method : state.methods) {
    method->after_step(prompt_len, static_cast<int>(ids.size()), records ? &facts : nullptr);
  }
  const std::int32_t id = ids.back();
  const std::vector<std::int32_t>& ends = model.config().eos_ids;
  at_end = request.stop_at_eos && std::find(ends.begin(), ends.end(), id) != ends.end();
  if (!at_end) stops.push(piece(id));
  facts.n_tokens = static_cast<std::int32_t>(ids.size());
  facts.seconds = seconds_since(start);
  timings.decode_s += facts.seconds;
  ++timings.decode_steps;
}

std::vector<std::int32_t> prompt_ids(const LoadedModel& model, const RunRequest& request) {
  if (!request.prompt_ids.empty()) return request.prompt_ids;
  if (request.raw) return model.tokenizer().encode_with_special(request.prompt);
  const std::vector<ChatMessage> one{{"user", request.prompt}};
  return ChatTemplate::load(model.info().path)
      .encode(model.tokenizer(), request.messages.empty() ? one : request.messages, request.chat);
}

int positions_of_run(const LoadedModel& model, std::size_t prompt_len, int max_tokens) {
  const std::int64_t wanted = static_cast<std::int64_t>(prompt_len) + max_tokens;
  return static_cast<int>(std::min<std::int64_t>(wanted, model.config().max_positions));
}

int chunk_of_run(const LoadedModel& model, const RunRequest& request) {
  const PolicySpec policy = ActivePolicy::resolved(request.policy, model);
  const bool at_times_of_its_own = policy_of(policy).plan(policy, {.top_k = 1}).cut_interval > 0;
  return at_times_of_its_own && request.changes.empty() ? 0 : request.chunk;
}

Generation::Generation(const LoadedModel& model, const RunRequest& asked, const Hooks& hooks) {
  const c10::InferenceMode no_gradients;
  RunRequest request = asked;
  request.chunk = chunk_of_run(model, asked);
  std::vector<std::int32_t> ids = prompt_ids(model, request);
  check_prompt(model, ids, request.max_tokens);
  const int n_positions = positions_of_run(model, ids.size(), request.max_tokens);
  if (request.answer_ids) check_answer(model, *request.answer_ids, n_positions - static_cast<int>(ids.size()));
  const auto read_prompt = [&](const std::vector<float>& thresholds) {
    const FirstPass first{.future = nullptr, .thresholds = thresholds, .budgets = {}};
    Generation run(std::make_unique<Impl>(model, request, ids, n_positions, first));
    return run.prefill(hooks, {.logprobs = false});
  };
  FirstPass first{.future = oracle_scorer(model, request, ids, n_positions, hooks),
                  .thresholds = density_thresholds(model, request, ids, n_positions, hooks, read_prompt),
                  .budgets = head_budgets(model, request, ids, n_positions, hooks)};
  impl_ = std::make_unique<Impl>(model, request, std::move(ids), n_positions, std::move(first));
  impl_->check_chunk();
}

Generation::Generation(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Generation::~Generation() = default;
Generation::Generation(Generation&&) noexcept = default;

void Generation::change_policy(const PolicySpec& spec, StepFacts* facts) {
  const c10::InferenceMode no_gradients;
  impl_->state.change_policy(spec);
  impl_->request.policy = impl_->state.policy.spec();
  evict_to_budget(impl_->state, static_cast<int>(impl_->ids.size()), impl_->records ? facts : nullptr);
}

StepFacts Generation::step() { return step_forced(impl_->next_id()); }

StepFacts Generation::step_forced(std::int32_t id) {
  const c10::InferenceMode no_gradients;
  Impl& run = *impl_;
  const auto start = std::chrono::steady_clock::now();
  StepFacts facts;
  const DecodeInput input = {0, id, run.begin_step(id, facts)};
  run.own_step().run({&input, 1});
  run.end_step(*run.own_decode, 0, start, facts);
  return facts;
}

void Generation::set_recording(bool on) {
  impl_->records = on;
  impl_->timings.instrumented = on;
}

bool Generation::finished() const {
  if (impl_->is_given()) return false;
  return !impl_->request.draws() || impl_->at_end || impl_->stops.found() ||
         static_cast<int>(impl_->ids.size()) >= impl_->n_positions;
}

std::string_view Generation::piece(std::int32_t id) const { return impl_->piece(id); }

std::string Generation::answer() const {
  const auto begin = impl_->ids.begin() + impl_->prompt_len;
  const auto end = impl_->ids.end() - (impl_->at_end ? 1 : 0);
  if (!impl_->model.has_tokenizer()) return {};
  return impl_->model.tokenizer().decode_further({begin, end}).substr(0, impl_->stops.answer_bytes());
}

const LoadedModel& Generation::model() const { return impl_->model; }
const RunRequest& Generation::request() const { return impl_->request; }
const std::vector<std::int32_t>& Generation::ids() const { return impl_->ids; }
int Generation::prompt_len() const { return impl_->prompt_len; }
int Generation::n_positions() const { return impl_->n_positions; }
std::int32_t Generation::likeliest() const { return impl_->best; }
std::span<const float> Generation::logits() const { return impl_->next_logits(); }
ScorerInfo Generation::scorer_info() const {
  const TokenScorer* scorer = impl_->state.policy.scorer();
  if (scorer == nullptr) return {};
  return {.kind = std::string(scorer->kind()),
          .delay = scorer->delay(),
          .text = scorer->description(),
          .gate = scorer->name()};
}
const HeadRules& Generation::heads() const { return impl_->state.policy.plan().heads; }
const RunTimings& Generation::timings() const { return impl_->timings; }
std::int64_t Generation::cache_bytes() const { return impl_->state.cache.bytes(); }
const SlotCache& Generation::cache() const { return impl_->state.cache; }
SlotCache& Generation::cache() { return impl_->state.cache; }

}  // namespace kvscope::engine
