#pragma once
// Reasoning problems as sequences to train on, alone or among those of another source.

#include <memory>

#include "engine/core/files/tokenizer/tokenizer.h"
#include "engine/jobs/tasks/sequence.h"

namespace kvscope::engine {

/// Problems of reasoning.h, one after the other, until `length` + 1 tokens are there; the last is cut. Sizes go from the
/// least to what there is room for. Statements are statements, and solutions answers, whole ones with their span.
class ReasoningSequences final : public SequenceSource {
 public:
  ReasoningSequences(const Tokenizer& tokenizer, int length, std::uint64_t seed);
  TaskSequence make(std::uint64_t index) const override;
  int length() const override { return length_; }

 private:
  const Tokenizer& tokenizer_;
  int length_;
  std::uint64_t seed_;
};

/// Sequence i is the first source's with probability `share`, else the other's. Throws std::invalid_argument unless both
/// have one length.
std::unique_ptr<SequenceSource> mixed(std::unique_ptr<SequenceSource> first, std::unique_ptr<SequenceSource> other,
                                      double share, std::uint64_t seed);

}  // namespace kvscope::engine
