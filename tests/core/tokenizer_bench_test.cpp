// How fast a text is encoded and decoded, on one thread. Hidden: core_tests "[tokenizer][.bench]".
//
// The vocabularies of the golden files are small. For the figures of a real one:
//   KVSCOPE_BENCH_MODEL=folder with tokenizer.json  KVSCOPE_BENCH_TEXT=file  core_tests "[tokenizer][.bench]"
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "engine/core/files/tokenizer/tokenizer.h"
#include "engine/core/support/json_file.h"
#include "tests/support/golden.h"
#include "tests/support/temp_folder.h"

using kvscope::Tokenizer;

namespace {

constexpr std::size_t kTextBytes = 8u << 20;

/// The best of five, in seconds: the machine may do other things.
template <typename Work>
double best_seconds(const Work& work) {
  double best = 1e9;
  for (int round = 0; round < 5; ++round) {
    const auto start = std::chrono::steady_clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

/// Words of the vocabulary, the r-th as often as 1 / r, as words of a language are; lines of about 80 bytes.
std::string zipf_text(const Tokenizer& tokenizer) {
  std::vector<std::string_view> words;
  for (std::int32_t id = 256; id < tokenizer.vocab_size(); ++id) {
    const std::string_view piece = tokenizer.piece(id);
    if (!tokenizer.is_special(id) && piece.size() > 2 && piece.starts_with(' ')) words.push_back(piece);
  }
  std::vector<double> weights(words.size());
  for (std::size_t r = 0; r < words.size(); ++r) weights[r] = 1.0 / static_cast<double>(r + 1);
  std::mt19937_64 rng(20261121);
  std::discrete_distribution<std::size_t> pick(weights.begin(), weights.end());
  std::string text;
  for (std::size_t line = 0; text.size() < kTextBytes;) {
    text += words[pick(rng)];
    if (text.size() - line > 80) text += ".\n", line = text.size();
  }
  return text;
}

void measure(const char* name, const Tokenizer& tokenizer, const std::string& text) {
  std::vector<std::int32_t> ids;
  const double encode = best_seconds([&] { ids = tokenizer.encode(text); });
  std::string back;
  const double decode = best_seconds([&] { back = tokenizer.decode(ids); });
  const double mb = static_cast<double>(text.size()) / 1e6;
  std::printf(
      "%-8s %7d tokens in the vocabulary, %6.2f MB of text: encode %6.1f MB/s (%.2f bytes a token), decode %6.1f "
      "MB/s\n",
      name, tokenizer.vocab_size(), mb, mb / encode, static_cast<double>(text.size()) / ids.size(), mb / decode);
  CHECK(back.size() > 0);
  // The aim on ordinary text; a third of it here, for machines that are slow or busy.
  CHECK(mb / encode > 20.0 / 3);
}

}  // namespace

TEST_CASE("Encoding keeps its speed", "[tokenizer][.bench]") {
  if (const char* folder = std::getenv("KVSCOPE_BENCH_MODEL")) {
    const Tokenizer tokenizer = Tokenizer::load(folder);
    const char* file = std::getenv("KVSCOPE_BENCH_TEXT");
    return measure("given", tokenizer, file ? kvscope::read_file(file, 1u << 30) : zipf_text(tokenizer));
  }
  for (const char* family : {"qwen2", "llama3", "gpt2", "smollm2", "llama2", "mistral", "gemma"}) {
    const std::string path = "tests/core/golden/tokenizer_" + std::string(family) + ".json";
    const kvscope::test::TempFolder folder;
    folder.write("tokenizer.json", kvscope::test::read_golden(path)["tokenizer"].dump());
    const Tokenizer tokenizer = Tokenizer::load(folder.path());
    measure(family, tokenizer, zipf_text(tokenizer));
  }
}
