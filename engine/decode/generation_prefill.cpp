// How a prompt passes: chunk by chunk, or token by token as the answer does.
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <deque>
#include <limits>

#include "engine/decode/eviction/mass_eviction.h"
#include "engine/decode/generation_impl.h"
#include "engine/decode/prefill_hook.h"

namespace kvscope::engine {
namespace {

/// A chunk of a prompt on its way through the layers.
struct PromptChunk {
  PromptChunk(const LoadedModel& model, PromptHeads& heads, const at::Tensor& ids, std::int64_t first_position,
              AttentionClock* clock)
      : first(first_position),
        hook(heads, first, ids.size(0), clock),
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
  const std::int64_t chunk = run.chunk_size(options.chunk);
  PromptHeads heads(run.state, hooks, run.records ? &facts : nullptr, run.prompt_len);
  if (options.logprobs) facts.logprobs = {std::numeric_limits<float>::quiet_NaN()};  // the first follows nothing
  const std::size_t most = heads.take_turns() && run.request.chunk == 0 ? 2 : 1;
  std::deque<PromptChunk> at_work;
  for (std::int64_t first = 0; first < run.prompt_len || !at_work.empty();) {
    if (at_work.size() < most && first < run.prompt_len) {
      const std::int64_t n = std::min(chunk, run.prompt_len - first);
      run.begin_chunk(first, heads, facts);
      at_work.emplace_back(run.model, heads, tokens.narrow(0, first, n), first, options.attention);
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
  if (!options.leaves_decisions) spread(facts);
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

}  // namespace kvscope::engine
