#pragma once
// Text for the gates of a real model: pieces of documents, some of them with facts that are asked for later.

#include <cstdint>
#include <span>

#include "engine/core/files/tokenizer/tokenizer.h"
#include "engine/jobs/tasks/sequence.h"

namespace kvscope::engine {

struct TextOptions {
  int length = 2048;         // positions a model sees; a sequence has length + 1 tokens
  double facts_share = 0.5;  // of sequences that have facts in them
  int max_facts = 3;         // 1 ... so many in such a sequence, each asked for one to three times
  bool operator==(const TextOptions&) const = default;
};

/// A sequence without facts is a piece of the corpus from a random place. One with facts is such a piece, cut at 20 random
/// places: a statement (training_facts.h), "\nOn the map, the pearl loom is drawn in square f7.\n", is in one of the first 16
/// gaps, and "\nMap square of the pearl loom: f7\n" in one to three later ones, where "f7" is the answer. The model reads
/// and predicts all of the text around them too.
///
/// `text` and `tokenizer` must outlive the source. Throws Error if the text is shorter than two sequences, or a sequence too
/// short for its facts.
class TextSequences final : public SequenceSource {
 public:
  TextSequences(std::span<const std::int32_t> text, const Tokenizer& tokenizer, TextOptions options,
                std::uint64_t seed);
  TaskSequence make(std::uint64_t index) const override;
  int length() const override { return options_.length; }

 private:
  TaskSequence plain(Random& random) const;
  TaskSequence with_facts(Random& random) const;

  std::span<const std::int32_t> text_;
  const Tokenizer& tokenizer_;
  TextOptions options_;
  std::uint64_t seed_;
};

}  // namespace kvscope::engine
