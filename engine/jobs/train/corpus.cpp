#include "engine/jobs/train/corpus.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"

namespace kvscope::engine {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "text.u16 is read as it lies in the file");

constexpr std::size_t kMaxBytes = std::size_t{8} << 30;

std::vector<std::int32_t> read_tokens(const fs::path& path, int vocab_size) {
  const std::string bytes = read_file(path, kMaxBytes);
  if (bytes.empty() || bytes.size() % 2 != 0) {
    throw Error({.file = path.string(),
                 .found = std::to_string(bytes.size()) + " bytes",
                 .expected = "uint16 tokens",
                 .hint = "make it with samples/recipes/prepare_corpus.py"});
  }
  std::vector<std::uint16_t> stored(bytes.size() / 2);
  std::memcpy(stored.data(), bytes.data(), bytes.size());
  std::vector<std::int32_t> tokens(stored.begin(), stored.end());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < vocab_size) continue;
    throw Error({.file = path.string(),
                 .where = "token " + std::to_string(i),
                 .found = std::to_string(tokens[i]),
                 .expected = "below the vocabulary of " + std::to_string(vocab_size)});
  }
  return tokens;
}

/// One text file, or the .txt files of a folder.
std::vector<fs::path> text_files(const fs::path& data) {
  if (fs::is_regular_file(data)) return {data};
  std::vector<fs::path> files;
  if (fs::is_directory(data)) {
    for (const auto& entry : fs::directory_iterator(data)) {
      if (entry.path().extension() == ".txt") files.push_back(entry.path());
    }
  }
  if (files.empty()) {
    throw Error({.file = data.string(),
                 .found = fs::exists(data) ? "neither text.u16 nor a .txt file" : "no such file or folder",
                 .expected = "a text file, a folder of them, or one made by samples/recipes/prepare_corpus.py"});
  }
  std::ranges::sort(files);
  return files;
}

/// Paragraph by paragraph: a tokenizer's time can grow faster than its text.
void append_text(const Tokenizer& tokenizer, const std::string& text, std::vector<std::int32_t>& tokens) {
  constexpr std::size_t kAtLeast = 4096;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = begin + kAtLeast < text.size() ? text.find("\n\n", begin + kAtLeast) : std::string::npos;
    const std::size_t n = (end == std::string::npos ? text.size() : end + 2) - begin;
    const auto ids = tokenizer.encode(std::string_view(text).substr(begin, n), false);
    tokens.insert(tokens.end(), ids.begin(), ids.end());
    begin += n;
  }
}

}  // namespace

void Corpus::adopt(std::vector<std::int32_t> tokens, const fs::path& tokenizer_folder, int vocab_size,
                   double heldout_share) {
  tokens_ = std::move(tokens);
  n_training_ = static_cast<std::size_t>(static_cast<double>(tokens_.size()) * (1 - heldout_share));
  tokenizer_file_ = tokenizer_folder / "tokenizer.json";
  tokenizer_ = std::make_unique<Tokenizer>(Tokenizer::load(tokenizer_folder));
  if (tokenizer_->vocab_size() > vocab_size) {
    throw Error({.file = tokenizer_file_.string(),
                 .found = std::to_string(tokenizer_->vocab_size()) + " tokens",
                 .expected = "at most the vocabulary of " + std::to_string(vocab_size)});
  }
  words_ = TaskLexicon::make([&](std::string_view text) { return tokenizer_->encode(text, false); });
}

Corpus Corpus::open(const fs::path& folder, int vocab_size, double heldout_share) {
  Corpus corpus;
  corpus.adopt(read_tokens(folder / "text.u16", vocab_size), folder, vocab_size, heldout_share);
  return corpus;
}

Corpus Corpus::without_text(const fs::path& folder, int vocab_size) {
  Corpus corpus;
  corpus.adopt({}, folder, vocab_size, /*heldout_share=*/0);
  return corpus;
}

Corpus Corpus::open_for(const fs::path& base, const fs::path& data, int vocab_size, double heldout_share) {
  Corpus corpus;
  if (fs::exists(data / "text.u16")) {
    const auto tokenizer = [](const fs::path& folder) {
      return read_file(folder / "tokenizer.json", kMaxTokenizerBytes);
    };
    if (tokenizer(data) != tokenizer(base)) {
      throw Error({.file = (data / "tokenizer.json").string(),
                   .found = "a tokenizer that differs from that of " + base.string(),
                   .expected = "the same tokenizer",
                   .hint = "prepare_corpus.py --tokenizer " + (base / "tokenizer.json").string()});
    }
    corpus.adopt(read_tokens(data / "text.u16", vocab_size), base, vocab_size, heldout_share);
    return corpus;
  }
  const Tokenizer tokenizer = Tokenizer::load(base);
  std::vector<std::int32_t> tokens;
  for (const fs::path& file : text_files(data)) append_text(tokenizer, read_file(file, kMaxBytes) + "\n\n", tokens);
  corpus.adopt(std::move(tokens), base, vocab_size, heldout_share);
  return corpus;
}

}  // namespace kvscope::engine
