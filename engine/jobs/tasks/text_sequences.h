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
/// places: "\nThe secret code of the amber falcon is 48213.\n" stands in one of the first 16 gaps, "\nThe secret code of
/// the amber falcon is 48213.\n" again in later ones, where its number is the answer. Text that goes on behind a question
/// is as likely as any other: the model reads and predicts all of it.
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
