#include "engine/generate/generation.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "engine/core/sampling/sampler.h"
#include "engine/core/support/error.h"
#include "engine/core/tokenizer/stop_strings.h"
#include "engine/generate/decode_step.h"
#include "engine/generate/prefill_site.h"

namespace kvscope::engine {
namespace {

constexpr std::int64_t kLogitRows = 256;  // rows of prompt logits at a time: [256, vocab] float32

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Error prompt_error(std::string found, std::string expected, std::string hint = "") {
  return Error({.file = "prompt", .found = std::move(found), .expected = std::move(expected), .hint = std::move(hint)});
}

std::vector<std::int32_t> prompt_ids(const LoadedModel& model, const protocol::RunRequest& request) {
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

struct Generation::Impl {
  Impl(const LoadedModel& model_, const protocol::RunRequest& request_, std::vector<std::int32_t> ids_,
       int n_positions_)
      : model(model_),
        request(request_),
        ids(std::move(ids_)),
        prompt_len(static_cast<int>(ids.size())),
        n_positions(n_positions_),
        state(model_, make_policy(request_.policy, n_positions_, model_.scorer()), n_positions_),
        decode(state),
        sampler(request_.sampling),
        stops(request_.stop) {}

  /// Logits of the next token from the prompt's last hidden state, [1, hidden].
  void read_logits(const at::Tensor& hidden) {
    const at::Tensor host = logits_of(model.weights(), hidden).view({-1}).cpu();
    logits.assign(host.data_ptr<float>(), host.data_ptr<float>() + host.numel());
    has_logits = true;
    normaliser = log_sum_exp(logits);
    best = static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    check_finite();
  }

  /// Logits of the next token from the last decode step; they stay on the device until somebody asks.
  void note_step() {
    has_logits = false;
    normaliser = decode.summary().log_sum_exp;
    best = decode.summary().best;
    check_finite();
  }

  const std::vector<float>& next_logits() {
    if (!has_logits) logits = decode.logits();
    has_logits = true;
    return logits;
  }

  float logprob(std::int32_t id) {
    const float logit = !has_logits && id == best ? decode.summary().best_logit : next_logits().at(id);
    return static_cast<float>(logit - normaliser);
  }

  void check_finite() const {
    if (std::isfinite(normaliser)) return;
    throw Error({.code = ExitCode::internal,
                 .file = model.info().name,
                 .where = "logits after position " + std::to_string(ids.size() - 1),
                 .found = "a value that is not finite",
                 .hint = "damaged weights, or values too large for " + model.info().dtype});
  }

  /// Appends the log-probabilities of the tokens that follow those of a chunk, as far as the prompt goes. hidden: [n,
  /// hidden] of the chunk that begins at position `first`.
  void append_logprobs(const at::Tensor& hidden, const at::Tensor& tokens, std::int64_t first,
                       std::vector<float>& out) const {
    const std::int64_t end = std::min<std::int64_t>(hidden.size(0), prompt_len - 1 - first);
    for (std::int64_t begin = 0; begin < end; begin += kLogitRows) {
      const std::int64_t rows = std::min(kLogitRows, end - begin);
      const at::Tensor row_logits = logits_of(model.weights(), hidden.narrow(0, begin, rows));
      const at::Tensor next = tokens.narrow(0, first + begin + 1, rows).unsqueeze(1);
      const at::Tensor logprobs = (row_logits.gather(1, next).squeeze(1) - row_logits.logsumexp(1)).cpu();
      out.insert(out.end(), logprobs.data_ptr<float>(), logprobs.data_ptr<float>() + rows);
    }
  }

  /// Tokens of a chunk. By itself: equal chunks, so that none is a short rest.
  std::int64_t chunk_size(int wanted) const {
    if (wanted > 0) return wanted;
    const bool keeps_all = state.policy->rule() == kernels::RetainRule::keep_all;
    const std::int64_t most = !model.weights().device.is_cuda() ? 512 : keeps_all ? 8192 : 2048;
    const std::int64_t n_chunks = (prompt_len + most - 1) / most;
    return (prompt_len + n_chunks - 1) / n_chunks;
  }

  const LoadedModel& model;
  protocol::RunRequest request;
  std::vector<std::int32_t> ids;
  int prompt_len;
  int n_positions;
  SequenceState state;
  DecodeStep decode;
  Sampler sampler;
  std::vector<float> logits;  // of the next token, if has_logits
  bool has_logits = false;
  double normaliser = 0;  // log sum exp of them
  std::int32_t best = -1;  // the greatest of them
  bool records = true;
  bool at_end = false;  // end of text was drawn and the request stops there
  StopStrings stops;    // has seen the answer, a final end-of-text token left out
  RunTimings timings;
};

Generation::Generation(const LoadedModel& model, const protocol::RunRequest& request) {
  const c10::InferenceMode no_gradients;
  std::vector<std::int32_t> ids = prompt_ids(model, request);
  check_prompt(model.config(), ids, request.max_tokens);
  const std::int64_t wanted = static_cast<std::int64_t>(ids.size()) + request.max_tokens;
  const int n_positions = static_cast<int>(std::min<std::int64_t>(wanted, model.config().max_positions));
  impl_ = std::make_unique<Impl>(model, request, std::move(ids), n_positions);
}

Generation::~Generation() = default;
Generation::Generation(Generation&&) noexcept = default;

protocol::StepFacts Generation::prefill(const Hooks& hooks, const PrefillOptions& options) {
  const c10::InferenceMode no_gradients;
  Impl& run = *impl_;
  const auto start = std::chrono::steady_clock::now();
  protocol::StepFacts facts;
  const at::Tensor tokens = ids_tensor(run.model.weights(), run.ids.data(), run.prompt_len);
  const std::int64_t chunk = run.chunk_size(options.chunk), n_chunks = (run.prompt_len + chunk - 1) / chunk;
  PrefillSite site(run.state, hooks, run.records ? &facts : nullptr, n_chunks);
  if (options.logprobs) facts.logprobs = {std::numeric_limits<float>::quiet_NaN()};  // the first follows nothing
  for (std::int64_t first = 0; first < run.prompt_len; first += chunk) {
    const std::int64_t n = std::min(chunk, run.prompt_len - first);
    site.begin(first, n);
    const at::Tensor hidden =
        forward(run.model.config(), run.model.weights(), tokens.narrow(0, first, n), first, site);
    if (options.logprobs) run.append_logprobs(hidden, tokens, first, facts.logprobs);
    if (first + n == run.prompt_len) run.read_logits(hidden.narrow(0, n - 1, 1));
  }
  site.finish();
  facts.n_tokens = run.prompt_len;
  facts.seconds = run.timings.prefill_s = seconds_since(start);
  return facts;
}

protocol::StepFacts Generation::step() {
  Impl& run = *impl_;
  return step_forced(run.sampler.is_greedy() ? run.best : run.sampler.next(run.next_logits(), run.ids));
}

protocol::StepFacts Generation::step_forced(std::int32_t id) {
  const c10::InferenceMode no_gradients;
  Impl& run = *impl_;
  const std::int32_t position = static_cast<std::int32_t>(run.ids.size());
  if (position >= run.n_positions) throw std::logic_error("Generation: a step beyond n_positions");
  const auto start = std::chrono::steady_clock::now();
  protocol::StepFacts facts;
  facts.ids = {id};
  facts.pieces.push_back(piece(id));
  facts.logprobs_from = position;
  facts.logprobs = {run.logprob(id)};
  run.ids.push_back(id);

  run.decode.run(id, position);
  run.note_step();
  if (run.records) run.decode.gather(facts);

  const std::vector<std::int32_t>& ends = run.model.config().eos_ids;
  run.at_end = run.request.stop_at_eos && std::find(ends.begin(), ends.end(), id) != ends.end();
  if (!run.at_end) run.stops.push(piece(id));
  facts.n_tokens = position + 1;
  facts.seconds = seconds_since(start);
  run.timings.decode_s += facts.seconds;
  ++run.timings.decode_steps;
  return facts;
}

void Generation::set_recording(bool on) {
  impl_->records = on;
  impl_->timings.instrumented = on;
}

bool Generation::finished() const {
  return impl_->at_end || impl_->stops.found() || static_cast<int>(impl_->ids.size()) >= impl_->n_positions;
}

std::string_view Generation::piece(std::int32_t id) const {
  return impl_->model.has_tokenizer() ? impl_->model.tokenizer().piece(id) : std::string_view();
}

std::string Generation::answer() const {
  const auto begin = impl_->ids.begin() + impl_->prompt_len;
  const auto end = impl_->ids.end() - (impl_->at_end ? 1 : 0);
  if (!impl_->model.has_tokenizer()) return {};
  return impl_->model.tokenizer().decode({begin, end}).substr(0, impl_->stops.answer_bytes());
}

const LoadedModel& Generation::model() const { return impl_->model; }
const protocol::RunRequest& Generation::request() const { return impl_->request; }
const std::vector<std::int32_t>& Generation::ids() const { return impl_->ids; }
int Generation::prompt_len() const { return impl_->prompt_len; }
int Generation::n_positions() const { return impl_->n_positions; }
std::span<const float> Generation::logits() const { return impl_->next_logits(); }
const RunTimings& Generation::timings() const { return impl_->timings; }
std::int64_t Generation::cache_bytes() const { return impl_->state.cache.bytes(); }
const SlotCache& Generation::cache() const { return impl_->state.cache; }
SlotCache& Generation::cache() { return impl_->state.cache; }

}  // namespace kvscope::engine
