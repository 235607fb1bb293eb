#pragma once
// A text, the request to repeat it, and the text again: what KVzip scores a token by, and KVzap learns from (arXiv 2601.07891).

#include <cstdint>
#include <optional>
#include <span>

#include "engine/core/files/tokenizer/chat.h"
#include "engine/core/files/tokenizer/tokenizer.h"
#include "engine/jobs/tasks/sequence.h"

namespace kvscope::engine {

struct RepeatOptions {
  int length = 2048;  // positions a model sees, both copies and the request among them
  bool chat = true;   // in the model's chat template, where it has one
  bool operator==(const RepeatOptions&) const = default;
};

/// Where the two copies are, which in a source are at the same place of every sequence.
struct RepeatSpan {
  std::int64_t text = 0, repetition = 0, n = 0;  // first positions of both, and their length
  bool operator==(const RepeatSpan&) const = default;
};

/// A piece of the corpus from a random place, "\n\nRepeat the previous context exactly.", the piece again. In a chat the first two are
/// the user's message. The piece is as long as fits twice; up to two tokens of the corpus that fill the sequence follow.
/// Roles: `text` for the first copy, `answer` for the repetition, `statement` for all else. No spans.
///
/// `text` must outlive the source. `chat`: the model's template, or nullptr. Throws Error if the text is shorter than two
/// sequences, or a sequence too short for two copies of 8 tokens.
class RepeatSequences final : public SequenceSource {
 public:
  RepeatSequences(std::span<const std::int32_t> text, const Tokenizer& tokenizer, const ChatTemplate* chat,
                  RepeatOptions options, std::uint64_t seed);
  TaskSequence make(std::uint64_t index) const override;
  int length() const override { return options_.length; }
  RepeatSpan span() const;

 private:
  std::span<const std::int32_t> text_;
  TokenIds before_, request_;  // of every sequence: what is before the first copy, and between the two
  std::size_t n_ = 0;          // tokens of a copy
  RepeatOptions options_;
  std::uint64_t seed_;
};

}  // namespace kvscope::engine
