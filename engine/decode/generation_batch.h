#pragma once
// Several runs of one model at once: each pass over the weights serves all of them.

#include <exception>
#include <memory>
#include <vector>

#include "engine/decode/generation.h"

namespace kvscope::engine {

/// Up to kMaxBatch Generations whose steps are taken together. They join and leave between two steps, and may differ in
/// everything but the model. Every one of them has the bits that it would have alone: ids, log-probabilities, scores,
/// lifetimes and contests.
class GenerationBatch {
 public:
  static constexpr int kMaxBatch = 32;

  /// Throws Error (usage) unless it is to have room for 1 ... kMaxBatch runs.
  GenerationBatch(const LoadedModel& model, int max_runs);
  ~GenerationBatch();

  int size() const { return static_cast<int>(members_.size()); }
  /// A run whose prompt has passed, from the next step on. It stays where it is until it leaves, and takes no steps
  /// outside.
  void join(Generation& run);
  /// After its last step: it can be asked for all it has, but takes no further one. Does nothing for a run that is not
  /// there.
  void leave(const Generation& run);

  struct Step {
    Generation* run;
    StepFacts facts = {};
    std::exception_ptr error = {};  // what went wrong with this run alone: it has left, and is good for nothing more
  };
  /// One token of each run that has not finished, in the order in which they joined. `seconds` is what the step of all
  /// took up to this run's facts. Throws what went wrong with all of them; they are good for nothing more then.
  std::vector<Step> step();
  /// Seconds that the attention of the last step() takes alone, mean of `repeats`.
  double attention_seconds(int repeats);

 private:
  struct Member {
    Generation* run;
    int sequence;  // in decode_
  };
  std::vector<Member> members_;
  std::unique_ptr<class DecodeStep> decode_;
};

}  // namespace kvscope::engine
