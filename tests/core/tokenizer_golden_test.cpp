// The same ids as the `tokenizers` package, for three small tokenizers that make_tokenizer_golden.py trained.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "engine/core/support/json_file.h"
#include "engine/core/support/utf8.h"
#include "engine/core/tokenizer/tokenizer.h"
#include "tests/support/temp_folder.h"

using kvscope::Tokenizer;
using Ids = std::vector<std::int32_t>;

namespace {

constexpr std::uint64_t kFnvStart = 0xCBF29CE484222325;

std::uint64_t fnv(const Ids& ids, std::uint64_t h = kFnvStart) {
  for (const std::int32_t id : ids) {
    for (int i = 0; i < 4; ++i) h = (h ^ (static_cast<std::uint32_t>(id) >> (8 * i) & 0xFF)) * 0x100000001B3;
  }
  return h;
}

std::string hex(std::uint64_t h) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(h));
  return text;
}

struct Golden {
  nlohmann::json file;
  Tokenizer tokenizer;
};

Golden load(const std::string& family) {
  const std::string path = KVSCOPE_SOURCE_DIR "/tests/core/golden/tokenizer_" + family + ".json";
  nlohmann::json file = kvscope::read_json(path, {.max_bytes = 1 << 20});
  const kvscope::test::TempFolder folder;
  folder.write("tokenizer.json", file["tokenizer"].dump());
  return {std::move(file), Tokenizer::load(folder.path())};
}

std::string family() { return GENERATE(as<std::string>{}, "qwen2", "llama3", "gpt2"); }

}  // namespace

TEST_CASE("Difficult texts get the ids that the tokenizers package gives them") {
  const Golden golden = load(family());
  REQUIRE(golden.file["cases"].size() > 200);
  for (const auto& c : golden.file["cases"]) {
    const auto text = c["text"].get<std::string>();
    CAPTURE(c["text"].dump());
    CHECK(golden.tokenizer.encode(text) == c["ids"].get<Ids>());
    CHECK(golden.tokenizer.encode(text, false) == c["as_text"].get<Ids>());
    CHECK(golden.tokenizer.encode_with_special(text) == c["whole"].get<Ids>());
  }
}

TEST_CASE("Random Unicode gets the ids that the tokenizers package gives it") {
  const Golden golden = load(family());
  REQUIRE(golden.file["random"].size() == 500);
  for (const auto& item : golden.file["random"]) {
    CAPTURE(item[0].dump());
    CHECK(hex(fnv(golden.tokenizer.encode(item[0].get<std::string>()))) == item[1].get<std::string>());
  }
}

TEST_CASE("Every code point, alone, between letters and after an apostrophe, gets the package's ids") {
  const Golden golden = load(family());
  const auto& blocks = golden.file["blocks"];
  REQUIRE(blocks.size() == 0x110000 / 4096);
  for (std::size_t block = 0; block < blocks.size(); ++block) {
    std::uint64_t h = kFnvStart;
    for (char32_t c = block * 4096; c < (block + 1) * 4096; ++c) {
      if (c >= 0xD800 && c < 0xE000) continue;
      std::string alone;
      kvscope::append_utf8(alone, c);
      for (const std::string& text : {alone, "a" + alone + "b", "'" + alone}) h = fnv(golden.tokenizer.encode(text), h);
    }
    CAPTURE(block);
    CHECK(hex(h) == blocks[block].get<std::string>());
  }
}

TEST_CASE("Without a normaliser, decoding the ids of a text gives the text, even of bytes that are not UTF-8") {
  const Golden golden = load("llama3");
  for (const auto& c : golden.file["cases"]) {
    const auto text = c["text"].get<std::string>();
    CHECK(golden.tokenizer.decode(golden.tokenizer.encode(text)) == text);
    CHECK(golden.tokenizer.decode(golden.tokenizer.encode(text, false)) == text);
  }
  std::string every_byte = "a";
  for (int b = 0; b < 256; ++b) every_byte += static_cast<char>(b);
  for (const std::string& text : {every_byte, std::string("\xC0\x80 \xED\xA0\x80\xF5\x80\x80\x80"),
                                  std::string("caf\xC3"), std::string("\x80'\xFFs")}) {
    CHECK(golden.tokenizer.decode(golden.tokenizer.encode(text)) == text);
  }
}

TEST_CASE("A million equal characters are encoded in linear time and come back") {
  // A regular expression engine overflows its stack here, a quadratic merge takes hours.
  const std::string unit = GENERATE(as<std::string>{}, "a", "A", " ", "\n", "9", "'", "\u4e00", "\u0301", "<|im_");
  const Golden golden = load("llama3");
  std::string text;
  while (text.size() < 1'000'000) text += unit;
  const Ids ids = golden.tokenizer.encode(text);
  CHECK(golden.tokenizer.decode(ids) == text);
}

TEST_CASE("Tokens know whether they are special, and ids without a token have no bytes") {
  const Golden golden = load("qwen2");
  const Tokenizer& t = golden.tokenizer;
  const auto end = t.added_token("<|im_end|>"), think = t.added_token("<think>");
  REQUIRE(end);
  REQUIRE(think);
  CHECK(t.is_special(*end));
  CHECK_FALSE(t.is_special(*think));
  CHECK(t.piece(*end) == "<|im_end|>");
  CHECK_FALSE(t.added_token("the"));
  CHECK(t.vocab_size() == static_cast<int>(golden.file["tokenizer"]["model"]["vocab"].size() +
                                           golden.file["tokenizer"]["added_tokens"].size()));
  for (const std::int32_t id : {-1, t.vocab_size(), INT32_MAX, INT32_MIN}) {
    CHECK(t.piece(id).empty());
    CHECK_FALSE(t.is_special(id));
  }
  CHECK(t.decode({-5, *end, 1 << 30}) == "<|im_end|>");
}
