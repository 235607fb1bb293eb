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

class AttentionClock;
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
  /// Facts may come as StepFacts::decisions, which the caller spread()s when it has time.
  bool leaves_decisions = false;
  /// If given, it measures the attention of a prompt that passes in chunks.
  AttentionClock* attention = nullptr;
};

/// The prompt as tokens. Throws Error for a text that cannot be read so.
std::vector<std::int32_t> prompt_ids(const LoadedModel& model, const RunRequest& request);

/// Prompt and new tokens at most: max_tokens, cut to the model's positions.
int positions_of_run(const LoadedModel& model, std::size_t prompt_len, int max_tokens);

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
  /// Passes the next token through the model: one of RunRequest::answer_ids as long as there are any, then one drawn.
  StepFacts step();
  /// The same with another token (teacher forcing).
  StepFacts step_forced(std::int32_t id);
  /// Other parameters of the same policy from the next step on (ActivePolicy::change); a smaller budget evicts at once,
  /// and `facts` (may be null) gets these lifetimes. Throws Error (usage), and nothing has changed then.
  void change_policy(const PolicySpec& spec, StepFacts* facts);
  /// The token of greatest logit that would come next.
  std::int32_t likeliest() const;
  /// Whether prefill() and step() gather scores, lifetimes and contests (they do at first). Off, only ids and
  /// log-probabilities are told, so that the cost of recording can be measured.
  void set_recording(bool on);
  /// No token is given, and none drawn: nothing is (RunRequest::draws()), max_tokens are made, end of text was drawn
  /// (if the request stops there), a stop string written, or the model's positions are used up.
  bool finished() const;

  /// Logits of the token that would come next, [vocab_size]. Valid after prefill().
  std::span<const float> logits() const;
  /// What gives this run's scores; without text if nothing does.
  ScorerInfo scorer_info() const;
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
