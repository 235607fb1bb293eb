#pragma once
// One token each of one or several sequences through the model and their policies, without LibTorch's operators: the
// project's own kernels on buffers that stay where they are, on CUDA as one captured graph. Includes LibTorch; private
// to decode/.

#include <exception>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "engine/decode/lane.h"
#include "kernels/project.h"

namespace kvscope::engine {

/// One sequence's part in a step: token `id` at `position`, the number of tokens before it.
struct DecodeInput {
  int sequence;  // as join() gave it
  std::int32_t id, position;
};

/// The decode half of one sequence, or of several that share every read of the weights. Nothing waits for the device
/// inside a step; what was decided is read when it is over. A sequence gets the same bits alone and among others: the
/// products do not depend on how many tokens share them (kernels/project.h), and the rest is done for each by itself.
class DecodeStep {
 public:
  /// Has room for so many sequences of the model.
  DecodeStep(const LoadedModel& model, int max_sequences);

  /// From the next run() on; the sequence must be there until it leaves. Returns its number here.
  int join(SequenceState& sequence);
  void leave(int sequence);

  /// Passes one token of each given sequence (at most one each) through the model and takes it into its cache. Returns
  /// when the device is done. What goes wrong with one sequence alone is kept for check(), and the others go on.
  void run(std::span<const DecodeInput> inputs);
  /// Seconds of the attention of all layers for the sequences of the last run(), alone and `repeats` times over what their caches
  /// hold: on CUDA one captured graph of these launches. Leaves the caches as they are.
  double attention_seconds(int repeats);
  /// Throws what went wrong with this sequence in the last run().
  void check(int sequence) const;

  /// Of the last run() with this sequence: greatest logit and normaliser.
  const kernels::LogitSummary& summary(int sequence) const {
    return *buffers_.decided_on_host(row_of(sequence)).summary;
  }
  /// Logits of its next token after the last run(), [vocab], copied from the device if they are there.
  std::vector<float> logits(int sequence) const;
  /// What the last run() decided: lifetimes, contests and scores.
  void gather(int sequence, StepFacts& facts) const;

 private:
  class LayerLaunches;

  bool is_cuda() const { return model_.weights().device.is_cuda(); }
  int n_rows() const { return static_cast<int>(inputs_.size()); }
  int row_of(int sequence) const;
  Lane& lane(int sequence) const { return *lanes_[static_cast<std::size_t>(sequence)]; }
  Lane& lane_of(int row) const { return lane(inputs_[static_cast<std::size_t>(row)].sequence); }
  /// Keeps what it throws for check().
  template <typename Work>
  void attempt(int sequence, const Work& work);

  void run_graph();
  void enqueue(kernels::Place place);
  void enqueue_logits(kernels::Place place);
  /// All rows of args.x through one matrix, as many at a time as the kernel takes; a row of args.out has
  /// `out_elements`.
  void enqueue_project(kernels::ProjectArgs args, std::int64_t out_elements, kernels::Place place);

  const LoadedModel& model_;
  std::vector<std::unique_ptr<Lane>> lanes_;  // by number; null: free
  std::map<int, std::exception_ptr> failed_;  // in the last run()
  std::vector<DecodeInput> inputs_;           // of the last run(); row r of every buffer belongs to inputs_[r]
  StepBuffers buffers_;
  kernels::StepGraph graph_;
  std::vector<std::uintptr_t> captured_for_;  // Lane::append_identity of every row
};

}  // namespace kvscope::engine
