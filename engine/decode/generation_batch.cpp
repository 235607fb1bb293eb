#include "engine/decode/generation_batch.h"

#include <c10/core/InferenceMode.h>

#include "engine/decode/generation_impl.h"

namespace kvscope::engine {

GenerationBatch::GenerationBatch(const LoadedModel& model, const std::vector<RunRequest>& requests) {
  if (requests.empty() || requests.size() > kMaxBatch) {
    throw Error({.code = ExitCode::usage,
                 .file = "batch",
                 .found = std::to_string(requests.size()) + " runs",
                 .expected = "1 ... " + std::to_string(kMaxBatch)});
  }
  for (const RunRequest& request : requests) runs_.emplace_back(model, request);
}

GenerationBatch::~GenerationBatch() = default;

std::vector<StepFacts> GenerationBatch::prefill(const Hooks& hooks, const PrefillOptions& options) {
  std::vector<StepFacts> facts;
  for (Generation& run : runs_) facts.push_back(run.prefill(hooks, options));
  return facts;
}

std::vector<GenerationBatch::Step> GenerationBatch::step() {
  const c10::InferenceMode no_gradients;
  const auto start = std::chrono::steady_clock::now();
  if (!decode_) {
    std::vector<SequenceState*> sequences;
    for (Generation& run : runs_) sequences.push_back(&run.impl_->state);
    decode_ = std::make_unique<DecodeStep>(std::move(sequences));
  }
  std::vector<Step> steps;
  std::vector<DecodeInput> inputs;
  for (int index = 0; index < size(); ++index) {
    if (run(index).finished()) continue;
    Generation::Impl& impl = *runs_[static_cast<std::size_t>(index)].impl_;
    steps.push_back({index, {}});
    const std::int32_t id = impl.next_id();
    inputs.push_back({index, id, impl.begin_step(id, steps.back().facts)});
  }
  if (inputs.empty()) return steps;
  decode_->run(inputs);
  for (Step& step : steps) {
    Generation::Impl& impl = *runs_[static_cast<std::size_t>(step.index)].impl_;
    impl.end_step(*decode_, step.index, start, step.facts);
    if (run(step.index).finished()) impl.next_logits();  // while they are there: the next step is without this run
  }
  return steps;
}

void GenerationBatch::set_recording(bool on) {
  for (Generation& run : runs_) run.set_recording(on);
}

bool GenerationBatch::finished() const {
  for (const Generation& run : runs_) {
    if (!run.finished()) return false;
  }
  return true;
}

}  // namespace kvscope::engine
