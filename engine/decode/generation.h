#pragma once
// One run of a model under a policy, token by token. run.h drives it to the end; nothing here knows of streams or
// files.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/core/record/run_facts.h"
#include "engine/core/record/run_request.h"
#include "engine/decode/hooks.h"
#include "engine/scorer/loaded_model.h"

namespace kvscope::engine {

class SlotCache;

/// How a prompt passes through the model.
struct PrefillOptions {
  /// Tokens at a time at most; 0 chooses by device and policy (512 on the CPU, 2048 on CUDA, 8192 there for a policy
  /// that keeps everything). Results do not depend on it but for the order of sums.
  int chunk = 0;
  /// Log-probabilities of the prompt: a product with the whole vocabulary for every token.
  bool logprobs = true;
  /// If given, and logprobs are made: appends the likeliest token of each position after the first, [prompt_len - 1].
  std::vector<std::int32_t>* greedy = nullptr;
};

/// RunRequest::chunk as it is used: 0 where the policy has times of its own, at which it acts in every prompt.
int chunk_of_run(const LoadedModel& model, const RunRequest& request);

/// Decodes one request. Use: prefill() once, then step() until finished().
///
///     position p of the answer:  id ~ softmax(logits / temperature); facts of p = what the policy decided at query p
///
/// Every token of the answer, the last included, passes through the model, so that decisions exist for every position.
/// The policy holds during the prefill too, unless its plan has a dense one: prefilling n tokens leaves the cache,
/// lifetimes and logits of n single steps. With RunRequest::chunk it holds under every plan.
class Generation {
 public:
  /// Tokenises and checks. Throws Error (bad input) for an empty prompt, one longer than the model's positions, an id
  /// outside the vocabulary or a policy whose scorer the model lacks; (usage) for a policy that cannot be (a negative
  /// top_k).
  /// A policy that goes by the future, or by a density, has its first passes here: hooks are of these.
  Generation(const LoadedModel& model, const RunRequest& request, const Hooks& hooks = {});
  ~Generation();
  Generation(Generation&&) noexcept;

  const LoadedModel& model() const;
  /// What was asked for; its policy is the one that runs, with the gates' numbers where nobody wrote others.
  const RunRequest& request() const;
  /// Prompt, then answer.
  const std::vector<std::int32_t>& ids() const;
  int prompt_len() const;
  /// Prompt + new tokens at most (max_tokens, cut to the model's positions).
  int n_positions() const;
  /// Bytes of one token; empty for a model without tokenizer.
  std::string_view piece(std::int32_t id) const;
  /// Text of the answer, a final end-of-text token left out; ends before a stop string.
  std::string answer() const;

  /// Passes the prompt through the model in chunks; memory is that of the cache and one chunk. Throws Error (cancelled)
  /// when the hook says so.
  StepFacts prefill(const Hooks& hooks = {}, const PrefillOptions& options = {});
  /// Draws the next token and passes it through the model.
  StepFacts step();
  /// The same with the token given (teacher forcing).
  StepFacts step_forced(std::int32_t id);
  /// The same, and the sampler has drawn: what step() draws behind it is what it would have drawn in any case.
  StepFacts step_as_drawn(std::int32_t id);
  /// Other parameters of the same policy from the next step on (ActivePolicy::change); a smaller budget evicts at once,
  /// and `facts` (may be null) gets these lifetimes. Throws Error (usage), and nothing has changed then.
  void change_policy(const PolicySpec& spec, StepFacts* facts);
  /// The token of greatest logit that would come next.
  std::int32_t likeliest() const;
  /// Whether prefill() and step() gather scores, lifetimes and contests (they do at first). Off, only ids and
  /// log-probabilities are told, so that the cost of recording can be measured.
  void set_recording(bool on);
  /// max_tokens made, end of text drawn (if the request stops there), a stop string written, or the model's positions
  /// used up.
  bool finished() const;

  /// Logits of the token that would come next, [vocab_size]. Valid after prefill().
  std::span<const float> logits() const;
  /// What gives this run's scores; without text if nothing does.
  ScorerInfo scorer_info() const;
  /// As RunRecord has them.
  /// As RunRecord has them.
  const HeadRules& heads() const;
  const RunTimings& timings() const;
  /// Bytes of keys and values in the pages of the cache.
  std::int64_t cache_bytes() const;
  const SlotCache& cache() const;
  SlotCache& cache();

 private:
  friend class GenerationBatch;
  struct Impl;
  explicit Generation(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvscope::engine
