#include "engine/decode/generation.h"

#include <c10/core/InferenceMode.h>

#include <limits>
#include <stdexcept>

#include "engine/core/files/tokenizer/chat.h"
#include "engine/decode/eviction/mass_eviction.h"
#include "engine/decode/generation_impl.h"
#include "engine/decode/prefill_site.h"

namespace kvscope::engine {
namespace {

Error prompt_error(std::string found, std::string expected, std::string hint = "") {
  return Error({.file = "prompt", .found = std::move(found), .expected = std::move(expected), .hint = std::move(hint)});
}

std::vector<std::int32_t> prompt_ids(const LoadedModel& model, const RunRequest& request) {
  if (!request.prompt_ids.empty()) return request.prompt_ids;
  if (request.raw) return model.tokenizer().encode_with_special(request.prompt);
  const std::vector<ChatMessage> one{{"user", request.prompt}};
  return ChatTemplate::load(model.info().path)
      .encode(model.tokenizer(), request.messages.empty() ? one : request.messages, request.chat);
}

void check_prompt(const ModelConfig& config, const std::vector<std::int32_t>& ids, int max_tokens) {
  if (ids.empty()) throw prompt_error("no token", "at least one");
  const int n = static_cast<int>(ids.size());
  if (n > config.max_positions) {
    throw prompt_error(std::to_string(n) + " tokens",
                       "at most " + std::to_string(config.max_positions) + ", the model's context",
                       "shorten the prompt");
  }
  for (const std::int32_t id : ids) {
    if (id >= 0 && id < config.vocab_size) continue;
    throw prompt_error("token id " + std::to_string(id), "0 ... " + std::to_string(config.vocab_size - 1));
  }
  if (max_tokens < 0) {
    throw Error(
        {.code = ExitCode::usage, .file = "max_tokens", .found = std::to_string(max_tokens), .expected = "0 or more"});
  }
}

}  // namespace

std::int32_t Generation::Impl::begin_step(std::int32_t id, StepFacts& facts) {
  const std::int32_t position = static_cast<std::int32_t>(ids.size());
  if (position >= n_positions) throw std::logic_error("Generation: a step beyond n_positions");
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

Generation::Generation(const LoadedModel& model, const RunRequest& request) {
  const c10::InferenceMode no_gradients;
  std::vector<std::int32_t> ids = prompt_ids(model, request);
  check_prompt(model.config(), ids, request.max_tokens);
  const std::int64_t wanted = static_cast<std::int64_t>(ids.size()) + request.max_tokens;
  const int n_positions = static_cast<int>(std::min<std::int64_t>(wanted, model.config().max_positions));
  impl_ = std::make_unique<Impl>(model, request, std::move(ids), n_positions);
}

Generation::~Generation() = default;
Generation::Generation(Generation&&) noexcept = default;

StepFacts Generation::prefill(const Hooks& hooks, const PrefillOptions& options) {
  const c10::InferenceMode no_gradients;
  Impl& run = *impl_;
  const auto start = std::chrono::steady_clock::now();
  StepFacts facts;
  if (run.state.policy.prefills_by_steps()) return run.prefill_by_steps(hooks, options);
  const at::Tensor tokens = ids_tensor(run.model.weights(), run.ids.data(), run.prompt_len);
  const std::int64_t chunk = run.chunk_size(options.chunk), n_chunks = (run.prompt_len + chunk - 1) / chunk;
  PrefillSite site(run.state, hooks, run.records ? &facts : nullptr, n_chunks);
  if (options.logprobs) facts.logprobs = {std::numeric_limits<float>::quiet_NaN()};  // the first follows nothing
  for (std::int64_t first = 0; first < run.prompt_len; first += chunk) {
    const std::int64_t n = std::min(chunk, run.prompt_len - first);
    site.begin(first, n);
    const at::Tensor hidden = forward(run.model.config(), run.model.weights(), tokens.narrow(0, first, n), first, site);
    if (options.logprobs) run.append_logprobs(hidden, tokens, first, facts.logprobs, options.greedy);
    if (first + n == run.prompt_len) run.read_logits(hidden.narrow(0, n - 1, 1));
  }
  site.finish();
  run.end_prefill(facts);
  facts.n_tokens = run.prompt_len;
  facts.seconds = run.timings.prefill_s = seconds_since(start);
  return facts;
}

void Generation::Impl::end_prefill(StepFacts& facts) {
  for (const auto& method : state.methods) method->after_prompt(prompt_len, records ? &facts : nullptr);
}

/// What leaves depends on the attention of every query: the prompt goes through as the answer does.
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
    if (options.logprobs)
      facts.logprobs.push_back(position == 0 ? std::numeric_limits<float>::quiet_NaN() : logprob(id));
    const DecodeInput input = {0, id, position};
    own_decode->run({&input, 1});
    note_step();
    if (records) own_decode->gather(0, facts);
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
  return impl_->at_end || impl_->stops.found() || static_cast<int>(impl_->ids.size()) >= impl_->n_positions;
}

std::string_view Generation::piece(std::int32_t id) const { return impl_->piece(id); }

std::string Generation::answer() const {
  const auto begin = impl_->ids.begin() + impl_->prompt_len;
  const auto end = impl_->ids.end() - (impl_->at_end ? 1 : 0);
  if (!impl_->model.has_tokenizer()) return {};
  return impl_->model.tokenizer().decode({begin, end}).substr(0, impl_->stops.answer_bytes());
}

const LoadedModel& Generation::model() const { return impl_->model; }
const RunRequest& Generation::request() const { return impl_->request; }
const std::vector<std::int32_t>& Generation::ids() const { return impl_->ids; }
int Generation::prompt_len() const { return impl_->prompt_len; }
int Generation::n_positions() const { return impl_->n_positions; }
std::span<const float> Generation::logits() const { return impl_->next_logits(); }
ScorerInfo Generation::scorer_info() const {
  const TokenScorer* scorer = impl_->state.policy.scorer();
  if (scorer == nullptr) return {};
  return {.kind = std::string(scorer->kind()), .delay = scorer->delay(), .text = scorer->description()};
}
const std::vector<std::uint8_t>& Generation::local_heads() const { return impl_->state.policy.plan().local_heads; }
const std::vector<float>& Generation::log_gamma() const { return impl_->state.policy.plan().log_gamma; }
const RunTimings& Generation::timings() const { return impl_->timings; }
std::int64_t Generation::cache_bytes() const { return impl_->state.cache.bytes(); }
const SlotCache& Generation::cache() const { return impl_->state.cache; }
SlotCache& Generation::cache() { return impl_->state.cache; }

}  // namespace kvscope::engine
