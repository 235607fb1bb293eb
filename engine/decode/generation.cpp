#include "engine/decode/generation.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <stdexcept>

#include "engine/core/files/tokenizer/chat.h"
#include "engine/decode/density_pass.h"
#include "engine/decode/eviction/mass_eviction.h"
#include "engine/decode/generation_impl.h"
#include "engine/decode/oracle_pass.h"
#include "engine/decode/prefill_hook.h"

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
    for (const at::Tensor* tensor : {&layer.input_norm, &layer.qkv_proj, &layer.qkv_bias, &layer.q_norm, &layer.k_norm,
                                     &layer.sink, &layer.o_proj, &layer.post_norm, &layer.gate_up, &layer.down})
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

namespace {

/// A chunk of a prompt on its way through the layers.
struct PromptChunk {
  PromptChunk(const LoadedModel& model, PromptHeads& heads, const at::Tensor& ids, std::int64_t first_position)
      : first(first_position),
        hook(heads, first, ids.size(0)),
        pass(model.config(), model.weights(), ids, first, hook) {
    pass.begin_layer();
  }
  /// The rest of one layer, and what goes before attention in the next.
  void next_layer() {
    is_over = !pass.end_layer();
    if (!is_over) pass.begin_layer();
  }
  std::int64_t first;
  PrefillHook hook;
  ForwardPass pass;
  bool is_over = false;
};

}  // namespace

/// A policy that cuts at times of its own does so between two chunks.
void Generation::Impl::begin_chunk(std::int64_t first, PromptHeads& heads, StepFacts& facts) {
  if (state.policy.plan().cut_interval == 0 || first == 0) return;
  for (const auto& method : state.methods) method->before_queries(static_cast<int>(first), records ? &facts : nullptr);
  heads.cache_changed();
}

StepFacts Generation::prefill(const Hooks& hooks, const PrefillOptions& options) {
  const c10::InferenceMode no_gradients;
  Impl& run = *impl_;
  const auto start = std::chrono::steady_clock::now();
  StepFacts facts;
  if (run.prefills_by_steps()) return run.prefill_by_steps(hooks, options);
  const at::Tensor tokens = ids_tensor(run.model.weights(), run.ids.data(), run.prompt_len);
  const std::int64_t chunk = run.chunk_size(options.chunk), n_chunks = (run.prompt_len + chunk - 1) / chunk;
  PromptHeads heads(run.state, hooks, run.records ? &facts : nullptr, run.prompt_len, n_chunks);
  if (options.logprobs) facts.logprobs = {std::numeric_limits<float>::quiet_NaN()};  // the first follows nothing
  const std::size_t most = heads.take_turns() && run.request.chunk == 0 ? 2 : 1;
  std::deque<PromptChunk> at_work;
  for (std::int64_t first = 0; first < run.prompt_len || !at_work.empty();) {
    if (at_work.size() < most && first < run.prompt_len) {
      const std::int64_t n = std::min(chunk, run.prompt_len - first);
      run.begin_chunk(first, heads, facts);
      at_work.emplace_back(run.model, heads, tokens.narrow(0, first, n), first);
      first += n;
    }
    // A layer of each in turn: the device works on one while the host decides for the other.
    for (PromptChunk& one : at_work) one.next_layer();
    if (!at_work.front().is_over) continue;
    const PromptChunk& done = at_work.front();
    const at::Tensor hidden = done.pass.hidden();
    const std::int64_t n = hidden.size(0);
    if (options.logprobs) run.append_logprobs(hidden, tokens, done.first, facts.logprobs, options.greedy);
    if (done.first + n == run.prompt_len) run.read_logits(hidden.narrow(0, n - 1, 1));
    if (run.request.chunk > 0 && !run.state.methods.empty()) {
      run.end_chunk(static_cast<int>(done.first + n), facts);
      heads.cache_changed();
    }
    at_work.pop_front();
  }
  heads.finish(run.prompt_len);
  run.end_prefill(facts);
  facts.n_tokens = run.prompt_len;
  facts.seconds = run.timings.prefill_s = seconds_since(start);
  return facts;
}

void Generation::Impl::end_prefill(StepFacts& facts) {
  if (request.chunk > 0) return;  // its chunks have ended
  for (const auto& method : state.methods) method->after_prompt(prompt_len, records ? &facts : nullptr);
}

bool Generation::Impl::prefills_by_steps() const {
  const ActivePolicy& policy = state.policy;
  if (request.changes.empty() && policy.evicts_behind_chunks()) return false;
  if (policy.prefills_by_steps() || request.chunk == 0) return policy.prefills_by_steps();
  const bool acts_in_between = !state.methods.empty() || !request.changes.empty();
  return acts_in_between && (request.chunk == 1 || policy.prefills_densely());
}

void Generation::Impl::check_chunk() const {
  if (request.chunk == 0) return;
  const auto refuse = [&](const char* found, const char* expected) {
    throw Error({.code = ExitCode::usage, .file = "chunk", .found = found, .expected = expected});
  };
  if (request.answer_ids && !request.answer_ids->empty())
    refuse("an answer together with a text in chunks", "only one of them");
  if (request.chunk == 1 || state.policy.prefills_densely()) return;
  // Steps would evict within a chunk, and a chunk at once can neither choose what it reads nor change its mind.
  if (state.policy.plan().selection.tokens > 0) refuse("chunks together with read= under a gate", "--chunk 1");
  if (!request.changes.empty()) refuse("chunks together with a policy change", "--chunk 1");
}

void Generation::Impl::end_chunk(int n_tokens, StepFacts& facts) {
  StepFacts* noted = records ? &facts : nullptr;
  for (; n_tokens < prompt_len && n_changed < request.changes.size(); ++n_changed) {
    if (request.changes[n_changed].q > n_tokens) break;
    state.change_policy(request.changes[n_changed].policy);
    evict_to_budget(state, n_tokens, noted);
  }
  for (const auto& method : state.methods) {
    method->after_chunk(n_tokens, noted);
    if (n_tokens < prompt_len) method->before_queries(n_tokens, noted);
  }
}

/// What leaves depends on the attention of every query, or the policy may act behind each: the prompt goes through as
/// the answer does.
StepFacts Generation::Impl::prefill_by_steps(const Hooks& hooks, const PrefillOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  StepFacts facts;
  own_step();
  decode = own_decode.get();
  sequence = 0;
  for (std::int32_t position = 0; position < prompt_len; ++position) {
    if (hooks.is_cancelled()) throw Error({.code = ExitCode::cancelled, .found = "cancelled"});
    if (hooks.progress) hooks.progress("prefill", position, prompt_len);
    const std::int32_t id = ids[static_cast<std::size_t>(position)];
    if (options.logprobs) {
      facts.logprobs.push_back(position == 0 ? std::numeric_limits<float>::quiet_NaN() : logprob(id));
      if (options.greedy != nullptr && position > 0) options.greedy->push_back(best);
    }
    const DecodeInput input = {0, id, position};
    own_decode->run({&input, 1});
    note_step();
    if (records) own_decode->gather(0, facts);
    const int n = position + 1;
    if (request.chunk > 0 && (n % request.chunk == 0 || n == prompt_len)) end_chunk(n, facts);
  }
  end_prefill(facts);
  facts.n_tokens = prompt_len;
  facts.seconds = timings.prefill_s = seconds_since(start);
  return facts;
}

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
