#pragma once
// One token each of one or several sequences through the model and their policies, without LibTorch's operators: the
// project's own kernels on buffers that stay where they are, on CUDA as one captured graph. Includes LibTorch; private
// to decode/.

#include <span>

#include "engine/decode/lane.h"
#include "kernels/project.h"

namespace kvscope::engine {

/// One sequence's part in a step: token `id` at `position`, the number of tokens before it.
struct DecodeInput {
  int sequence;  // index in what DecodeStep was made for
  std::int32_t id, position;
};

/// The decode half of one sequence, or of several that share every read of the weights. Nothing waits for the device
/// inside a step; what was decided is read when it is over. A sequence gets the same bits alone and among others: the
/// products do not depend on how many tokens share them (kernels/project.h), and the rest is done for each by itself.
class DecodeStep {
 public:
  /// Sequences of one model; they must outlive this.
  explicit DecodeStep(const std::vector<SequenceState*>& sequences);

  /// Passes one token of each given sequence (at most one each) through the model and takes it into its cache. Returns
  /// when the device is done.
  void run(std::span<const DecodeInput> inputs);

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
  Lane& lane_of(int row) { return lanes_[static_cast<std::size_t>(inputs_[static_cast<std::size_t>(row)].sequence)]; }

  void run_graph();
  void enqueue(kernels::Place place);
  void enqueue_logits(kernels::Place place);
  /// All rows of args.x through one matrix, as many at a time as the kernel takes; a row of args.out has
  /// `out_elements`.
  void enqueue_project(kernels::ProjectArgs args, std::int64_t out_elements, kernels::Place place);

  const LoadedModel& model_;
  std::vector<Lane> lanes_;
  std::vector<DecodeInput> inputs_;  // of the last run(); row r of every buffer belongs to inputs_[r]
  StepBuffers buffers_;
  kernels::StepGraph graph_;
  std::vector<std::uintptr_t> captured_for_;  // Lane::append_identity of every row
};

}  // namespace kvscope::engine
