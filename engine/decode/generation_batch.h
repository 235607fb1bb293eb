#pragma once
// Several runs of one model at once: each pass over the weights serves all of them.

#include <memory>
#include <vector>

#include "engine/decode/generation.h"

namespace kvscope::engine {

/// Up to kMaxBatch Generations whose steps are taken together. Every one of them ends with the bits that it would have
/// alone: ids, log-probabilities, scores, lifetimes and contests. They may differ in everything but the model.
class GenerationBatch {
 public:
  static constexpr int kMaxBatch = 32;

  /// Throws as Generation does; Error (usage) for none or more than kMaxBatch requests.
  GenerationBatch(const LoadedModel& model, const std::vector<RunRequest>& requests);
  ~GenerationBatch();

  int size() const { return static_cast<int>(runs_.size()); }
  /// For everything but prefill and steps.
  const Generation& run(int index) const { return runs_[static_cast<std::size_t>(index)]; }

  /// Passes the prompts through the model, one after the other. Facts of each run.
  std::vector<StepFacts> prefill(const Hooks& hooks = {}, const PrefillOptions& options = {});
  /// One token of each run that has not finished. `seconds` is what the step of all took up to this run's facts. After
  /// an Error the batch is good for nothing more.
  struct Step {
    int index;
    StepFacts facts;
  };
  std::vector<Step> step();
  bool finished() const;
  /// Of every run.
  void set_recording(bool on);

 private:
  std::vector<Generation> runs_;
  std::unique_ptr<class DecodeStep> decode_;
};

}  // namespace kvscope::engine
