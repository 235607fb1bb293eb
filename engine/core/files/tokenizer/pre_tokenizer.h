#pragma once
// Cuts text into the words that merges cannot cross.

#include <cstddef>
#include <string_view>

namespace kvscope {

/// The split patterns of the families, matched by hand: a regular expression engine recurses or backtracks over a
/// stranger's text (std::regex dies of a few ten thousand letters), and knows another version of Unicode.
enum class SplitPattern {
  gpt2,    // ByteLevel with use_regex
  qwen2,   // numbers one by one; Qwen2, Qwen2.5, Qwen3
  llama3,  // numbers up to three together
  tekken,  // words end where a capital begins, numbers one by one; Mistral Nemo and its successors
  o200k,   // the same with contractions at their words, numbers up to three together; gpt-oss, Phi-4-mini
};

/// Digits before the pattern: numbers are pieces of their own, one by one or in runs.
enum class DigitPieces { none, single, runs };

/// The regular expression as tokenizer.json has it; empty for gpt2, which is named by `use_regex`.
std::string_view pattern_text(SplitPattern pattern);

/// Length in bytes of the first word of `text`, which must not be empty; `text` ends where the piece ends. O(length).
/// A byte that begins no valid character counts as a character of no class.
std::size_t word_length(SplitPattern pattern, std::string_view text);
/// Length in bytes of the first piece of `text`, which must not be empty: the patterns do not look past it. O(length).
std::size_t piece_length(DigitPieces digits, std::string_view text);

}  // namespace kvscope
