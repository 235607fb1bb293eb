#include "engine/decode/generation_batch.h"

#include <c10/core/InferenceMode.h>

#include "engine/decode/generation_impl.h"

namespace kvscope::engine {
namespace {

/// What `work` throws is the error of this run, and of no other.
template <typename Work>
void attempt(GenerationBatch::Step& step, const Work& work) {
  try {
    work();
  } catch (...) {
    step.error = std::current_exception();
  }
}

}  // namespace

GenerationBatch::GenerationBatch(const LoadedModel& model, int max_runs) {
  if (max_runs < 1 || max_runs > kMaxBatch) {
    throw Error({.code = ExitCode::usage,
                 .file = "batch",
                 .found = std::to_string(max_runs) + " runs",
                 .expected = "1 ... " + std::to_string(kMaxBatch)});
  }
  const c10::InferenceMode no_gradients;
  decode_ = std::make_unique<DecodeStep>(model, max_runs);
}

GenerationBatch::~GenerationBatch() = default;

void GenerationBatch::join(Generation& run) {
  const c10::InferenceMode no_gradients;
  Generation::Impl& impl = *run.impl_;
  if (impl.own_decode) {  // its prompt passed token by token
    impl.next_logits();
    impl.own_decode.reset();
  }
  members_.push_back({&run, decode_->join(impl.state)});
}

void GenerationBatch::leave(const Generation& run) {
  const auto member = std::ranges::find(members_, &run, &Member::run);
  if (member == members_.end()) return;
  decode_->leave(member->sequence);
  members_.erase(member);
}

double GenerationBatch::attention_seconds(int repeats) {
  const c10::InferenceMode no_gradients;
  return decode_->attention_seconds(repeats);
}

std::vector<GenerationBatch::Step> GenerationBatch::step() {
  const c10::InferenceMode no_gradients;
  const auto start = std::chrono::steady_clock::now();
  std::vector<Step> steps;
  std::vector<DecodeInput> inputs;
  for (const Member& member : members_) {
    if (member.run->finished()) continue;
    attempt(steps.emplace_back(member.run), [&] {
      Generation::Impl& impl = *member.run->impl_;
      const std::int32_t id = impl.next_id();
      inputs.push_back({member.sequence, id, impl.begin_step(id, steps.back().facts)});
    });
  }
  decode_->run(inputs);
  std::size_t taken = 0;
  for (Step& step : steps) {
    if (step.error) continue;
    const int sequence = inputs[taken++].sequence;
    attempt(step, [&] {
      Generation::Impl& impl = *step.run->impl_;
      impl.end_step(*decode_, sequence, start, step.facts);
      if (step.run->finished()) impl.next_logits();  // while they are there: the next step is without this run
    });
  }
  for (const Step& step : steps)
    if (step.error) leave(*step.run);
  return steps;
}

}  // namespace kvscope::engine
