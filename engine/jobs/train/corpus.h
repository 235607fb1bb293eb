#pragma once
// The training text on disk: tokens and the tokenizer that made them.

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "engine/jobs/tasks/task_item.h"

namespace kvscope::engine {

/// What samples/recipes/prepare_corpus.py writes into one folder.
class Corpus {
 public:
  /// Reads text.u16 (uint16 little-endian) and tokenizer.json. Throws Error naming the file: absent, odd number of
  /// bytes, a token outside the vocabulary. heldout_share of the tokens, at the end, are kept from training.
  static Corpus open(const std::filesystem::path& folder, int vocab_size, double heldout_share);

  std::span<const std::int32_t> training() const { return std::span(tokens_).first(n_training_); }
  std::span<const std::int32_t> heldout() const { return std::span(tokens_).subspan(n_training_); }
  const TaskLexicon& words() const { return words_; }
  const std::filesystem::path& tokenizer_file() const { return tokenizer_file_; }

 private:
  std::vector<std::int32_t> tokens_;
  std::size_t n_training_ = 0;
  TaskLexicon words_;
  std::filesystem::path tokenizer_file_;
};

}  // namespace kvscope::engine
