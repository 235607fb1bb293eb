#pragma once
// The training text on disk: tokens and the tokenizer that made them.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "engine/core/files/tokenizer/tokenizer.h"
#include "engine/jobs/tasks/task_item.h"

namespace kvscope::engine {

inline constexpr std::size_t kMaxTokenizerBytes = 64u << 20;

/// What samples/recipes/prepare_corpus.py writes into one folder, or plain text.
class Corpus {
 public:
  /// Reads text.u16 (uint16 little-endian) and tokenizer.json. Throws Error naming the file: absent, odd number of
  /// bytes, a token outside the vocabulary. heldout_share of the tokens, at the end, are kept from training.
  static Corpus open(const std::filesystem::path& folder, int vocab_size, double heldout_share);
  /// For the gates of `base`, a model's folder, by its tokenizer: such a folder whose tokenizer.json is the base's, a text
  /// file, or a folder of .txt files, in the order of their names. Throws Error naming the file: absent, empty, of another
  /// tokenizer.
  static Corpus open_for(const std::filesystem::path& base, const std::filesystem::path& data, int vocab_size,
                         double heldout_share);

  /// Of data that read no text: the tokenizer.json in `folder`, a model's, or one made by prepare_corpus.py.
  static Corpus without_text(const std::filesystem::path& folder, int vocab_size);

  std::span<const std::int32_t> training() const { return std::span(tokens_).first(n_training_); }
  std::span<const std::int32_t> heldout() const { return std::span(tokens_).subspan(n_training_); }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const TaskLexicon& words() const { return words_; }
  const std::filesystem::path& tokenizer_file() const { return tokenizer_file_; }

 private:
  void adopt(std::vector<std::int32_t> tokens, const std::filesystem::path& tokenizer_folder, int vocab_size,
             double heldout_share);

  std::vector<std::int32_t> tokens_;
  std::size_t n_training_ = 0;
  TaskLexicon words_;
  std::filesystem::path tokenizer_file_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

}  // namespace kvscope::engine
