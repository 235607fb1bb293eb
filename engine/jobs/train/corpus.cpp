#include "engine/jobs/train/corpus.h"

#include <bit>
#include <cstring>

#include "engine/core/files/tokenizer/tokenizer.h"
#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"

namespace kvscope::engine {

static_assert(std::endian::native == std::endian::little, "text.u16 is read as it lies in the file");

Corpus Corpus::open(const std::filesystem::path& folder, int vocab_size, double heldout_share) {
  constexpr std::size_t kMaxBytes = std::size_t{8} << 30;
  const auto path = folder / "text.u16";
  const std::string bytes = read_file(path, kMaxBytes);
  if (bytes.empty() || bytes.size() % 2 != 0) {
    throw Error({.file = path.string(),
                 .found = std::to_string(bytes.size()) + " bytes",
                 .expected = "uint16 tokens",
                 .hint = "make it with samples/recipes/prepare_corpus.py"});
  }
  Corpus corpus;
  std::vector<std::uint16_t> stored(bytes.size() / 2);
  std::memcpy(stored.data(), bytes.data(), bytes.size());
  corpus.tokens_.assign(stored.begin(), stored.end());
  for (std::size_t i = 0; i < corpus.tokens_.size(); ++i) {
    if (corpus.tokens_[i] < vocab_size) continue;
    throw Error({.file = path.string(),
                 .where = "token " + std::to_string(i),
                 .found = std::to_string(corpus.tokens_[i]),
                 .expected = "below the recipe's vocabulary of " + std::to_string(vocab_size)});
  }
  corpus.n_training_ = static_cast<std::size_t>(static_cast<double>(corpus.tokens_.size()) * (1 - heldout_share));
  corpus.tokenizer_file_ = folder / "tokenizer.json";
  const Tokenizer tokenizer = Tokenizer::load(folder);
  if (tokenizer.vocab_size() > vocab_size) {
    throw Error({.file = corpus.tokenizer_file_.string(),
                 .found = std::to_string(tokenizer.vocab_size()) + " tokens",
                 .expected = "at most the recipe's vocabulary of " + std::to_string(vocab_size)});
  }
  corpus.words_ = TaskLexicon::make([&](std::string_view text) { return tokenizer.encode(text, false); });
  return corpus;
}

}  // namespace kvscope::engine
