#pragma once
// The palindrome of SP-KV's App. G as sequences to train on, with nothing else around it; the task `palindrome` asks the same.

#include "engine/core/files/tokenizer/tokenizer.h"
#include "engine/jobs/tasks/sequence.h"

namespace kvscope::engine {

struct PalindromeOptions {
  int length = 256;  // positions from the list to the answer's last token: the instruction takes what is left
  int numbers = 0;   // 0: as many as there is room for, at most the 32 of App. G
  bool operator==(const PalindromeOptions&) const = default;
};

/// "\nNumbers: 57 12 ... 70.\n", an instruction in words of more than 50 tokens, "\nReversed:" and the answer " 70 ... 12 57.\n".
/// Numbers are uniform and independent. A sequence has one token more, a line end that no answer reads: in every sequence
/// as in every question of the same length all parts stand at the same positions. No text of a corpus is read.
///
/// Throws Error if the instruction would have 50 tokens or fewer, or if there is no room for a number.
class PalindromeSequences final : public SequenceSource {
 public:
  PalindromeSequences(const Tokenizer& tokenizer, PalindromeOptions options, std::uint64_t seed);
  TaskSequence make(std::uint64_t index) const override;
  int length() const override { return options_.length; }

 private:
  TaskLexicon words_;
  TokenIds instruction_, line_end_;
  PalindromeOptions options_;
  std::uint64_t seed_;
};

}  // namespace kvscope::engine
