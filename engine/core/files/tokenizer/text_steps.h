#pragma once
// What happens to a text before and after the merges: the normalizer, pre_tokenizer and decoder of tokenizer.json.

#include "engine/core/files/tokenizer/metaspace.h"
#include "engine/core/files/tokenizer/pre_tokenizer.h"

namespace kvscope {

/// Two forms. Of bytes (ByteLevel; GPT-2, Qwen, Llama 3, SmolLM2): tokens are written in the alphabet of
/// byte_alphabet.h, and a pattern cuts words. Of characters (SentencePiece's; Llama 2, TinyLlama, Mistral, Gemma): tokens are
/// text with U+2581 for a blank, and a character without a token is its bytes <0x00> ... <0xFF>.
struct TextSteps {
  bool nfc = false;

  bool of_characters = false;
  // of bytes
  DigitPieces digits = DigitPieces::none;
  SplitPattern split = SplitPattern::gpt2;
  bool add_prefix_space = false;
  // of characters: the normaliser's part comes before added tokens with `normalized` are looked for, Metaspace after
  BlankRule normalizer, metaspace;
  bool split_at_blanks = false;      // words are what Metaspace cuts; else all of the text is one
  bool strip_leading_blank = false;  // decoding takes one blank from the beginning
};

}  // namespace kvscope
