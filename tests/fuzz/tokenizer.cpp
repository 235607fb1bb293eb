// tokenizer.json, and what the tokenizer that it makes does with a text of everything.

#include "engine/core/files/tokenizer/tokenizer.h"

#include "tests/fuzz/format.h"

namespace kvscope::fuzz {
namespace {

constexpr std::string_view kText =
    "Hello <|im_start|>wor\xC3\xA9ld\xCC\x81 12345\t\r\n  it's \xE2\x82\xAC \xF0\x9F\x98\x80 \xFF\x00 </s> <unk> aaaa";

void read_tokenizer(std::string_view bytes) {
  put("tokenizer.json", bytes);
  const Tokenizer tokenizer = Tokenizer::load(memory_folder());
  for (const bool special : {false, true}) {
    const auto ids = tokenizer.encode(kText, special);
    tokenizer.decode(ids);
    tokenizer.decode_further(ids);
    for (const auto id : ids) {
      if (id < 0 || id >= tokenizer.vocab_size()) std::abort();
    }
  }
  tokenizer.encode_typed(kText);
  tokenizer.encode_with_special(kText);
}

const Registration registration("tokenizer", read_tokenizer);

}  // namespace
}  // namespace kvscope::fuzz
