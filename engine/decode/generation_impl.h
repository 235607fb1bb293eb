#pragma once
// What a Generation is made of; shared with GenerationBatch. Includes LibTorch; private to decode/.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include "engine/core/files/tokenizer/stop_strings.h"
#include "engine/core/sampling/sampler.h"
#include "engine/core/support/error.h"
#include "engine/core/support/seconds_since.h"
#include "engine/decode/decode_step.h"
#include "engine/decode/generation.h"

namespace kvscope::engine {

class PromptHeads;

struct Generation::Impl {
  static constexpr std::int64_t kLogitRows = 256;  // rows of prompt logits at a time: [256, vocab] float32

  Impl(const LoadedModel& model_, const RunRequest& request_, std::vector<std::int32_t> ids_, int n_positions_,
       FirstPass first)
      : model(model_),
        request(request_),
        ids(std::move(ids_)),
        prompt_len(static_cast<int>(ids.size())),
        n_positions(n_positions_),
        state(model_, request_.policy, n_positions_, request_.chunk, std::move(first)),
        sampler(request_.sampling),
        stops(request_.stop) {
    request.policy = state.policy.spec();  // as it runs
  }

  /// Logits of the next token from the prompt's last hidden state, [1, hidden].
  void read_logits(const at::Tensor& hidden) {
    const at::Tensor host = logits_of(model.weights(), hidden).view({-1}).cpu();
    logits.assign(host.data_ptr<float>(), host.data_ptr<float>() + host.numel());
    has_logits = true;
    normaliser = log_sum_exp(logits);
    best = static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    check_finite();
  }

  /// Logits of the next token from the last decode step; they stay on the device until somebody asks. Throws what went
  /// wrong with this run in it.
  void note_step() {
    decode->check(sequence);
    has_logits = false;
    normaliser = decode->summary(sequence).log_sum_exp;
    best = decode->summary(sequence).best;
    check_finite();
  }

  const std::vector<float>& next_logits() {
    if (!has_logits) logits = decode->logits(sequence);
    has_logits = true;
    return logits;
  }

  float logprob(std::int32_t id) {
    const float logit = !has_logits && id == best ? decode->summary(sequence).best_logit : next_logits().at(id);
    return static_cast<float>(logit - normaliser);
  }

  void check_finite() const {
    if (!std::isfinite(normaliser)) throw_not_finite();
  }
  [[noreturn]] void throw_not_finite() const;

  /// Appends the log-probabilities of the tokens that follow those of a chunk, as far as the prompt goes, and if wanted
  /// the likeliest tokens in their places. hidden: [n, hidden] of the chunk that begins at position `first`.
  void append_logprobs(const at::Tensor& hidden, const at::Tensor& tokens, std::int64_t first, std::vector<float>& out,
                       std::vector<std::int32_t>* greedy) const {
    const std::int64_t end = std::min<std::int64_t>(hidden.size(0), prompt_len - 1 - first);
    for (std::int64_t begin = 0; begin < end; begin += kLogitRows) {
      const std::int64_t rows = std::min(kLogitRows, end - begin);
      const at::Tensor row_logits = logits_of(model.weights(), hidden.narrow(0, begin, rows));
      const at::Tensor next = tokens.narrow(0, first + begin + 1, rows).unsqueeze(1);
      const at::Tensor logprobs = (row_logits.gather(1, next).squeeze(1) - row_logits.logsumexp(1)).cpu();
      out.insert(out.end(), logprobs.data_ptr<float>(), logprobs.data_ptr<float>() + rows);
      if (greedy == nullptr) continue;
      const at::Tensor best = row_logits.argmax(1).to(at::kInt).cpu();
      greedy->insert(greedy->end(), best.data_ptr<std::int32_t>(), best.data_ptr<std::int32_t>() + rows);
    }
  }

  /// Tokens of a chunk. By itself: equal chunks, so that none is a short rest.
  std::int64_t chunk_size(int wanted) const {
    if (const int interval = state.policy.plan().cut_interval; interval > 0) return interval;  // a cut is between two
    if (state.policy.defers()) return state.policy.forced_chunk();  // here results do depend on it
    if (wanted > 0) return wanted;
    const bool keeps_all = state.policy.prefills_densely();
    const std::int64_t most = !model.weights().device.is_cuda() ? 512 : keeps_all ? 8192 : 2048;
    const std::int64_t n_chunks = (prompt_len + most - 1) / most;
    return (prompt_len + n_chunks - 1) / n_chunks;
  }

  void begin_chunk(std::int64_t first, PromptHeads& heads, StepFacts& facts);
  void end_prefill(StepFacts& facts);
  /// Whether the prompt passes token by token: the attention of every query counts, or something happens between two.
  bool prefills_by_steps() const;
  /// Throws Error (usage) for a chunk that cannot be had.
  void check_chunk() const;
  /// Of a text with RunRequest::chunk: n_tokens have passed. Changes that begin here hold, and what is to leave leaves.
  void end_chunk(int n_tokens, StepFacts& facts);
  StepFacts prefill_by_steps(const Hooks& hooks, const PrefillOptions& options);

  /// Tokens of the answer that are there.
  std::size_t n_answered() const { return ids.size() - static_cast<std::size_t>(prompt_len); }
  /// Whether the next token is given, and not drawn.
  bool is_given() const { return request.answer_ids && n_answered() < request.answer_ids->size(); }
  /// The greatest, or one drawn.
  std::int32_t draw() { return sampler.is_greedy() ? best : sampler.next(next_logits(), ids); }
  /// The token that step() takes.
  std::int32_t next_id() {
    if (!is_given()) return draw();
    if (request.draws()) draw();  // what is drawn after a given token is what it would have been in any case
    return (*request.answer_ids)[n_answered()];
  }

  /// The step of this run alone.
  DecodeStep& own_step() {
    if (!own_decode) {
      own_decode = std::make_unique<DecodeStep>(model, 1);
      own_decode->join(state);
    }
    return *own_decode;
  }

  // A step is taken in two halves, so that the model's pass between them may serve several runs.
  /// Appends the token and tells it; returns its position.
  std::int32_t begin_step(std::int32_t id, StepFacts& facts);
  /// Takes in what came of it. `step` has run sequence `index`; the step began at `start` and ends here, what it takes
  /// to gather the facts included.
  void end_step(DecodeStep& step, int index, std::chrono::steady_clock::time_point start, StepFacts& facts);
  std::string_view piece(std::int32_t id) const {
    return model.has_tokenizer() ? model.tokenizer().piece(id) : std::string_view();
  }

  const LoadedModel& model;
  RunRequest request;
  std::vector<std::int32_t> ids;
  int prompt_len;
  int n_positions;
  SequenceState state;
  std::unique_ptr<DecodeStep> own_decode;  // made with the first step that is not of a batch
  DecodeStep* decode = nullptr;            // did the last step
  int sequence = 0;                        // this run's number in it
  Sampler sampler;
  std::vector<float> logits;  // of the next token, if has_logits
  bool has_logits = false;
  double normaliser = 0;      // log sum exp of the logits
  std::int32_t best = -1;     // the token of the greatest logit
  std::size_t n_changed = 0;  // changes of the request that end_chunk() has made
  bool records = true;
  bool at_end = false;  // end of text was drawn and the request stops there
  StopStrings stops;    // has seen the answer, a final end-of-text token left out
  RunTimings timings;
};

}  // namespace kvscope::engine
