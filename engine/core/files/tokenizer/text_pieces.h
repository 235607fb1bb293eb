#pragma once
// A long text in pieces of one length, as evaluations and studies read it. Who opens a point of a study cuts the same ones again.

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/core/files/tokenizer/tokenizer.h"

namespace kvscope {

struct CutText {
  std::size_t n_tokens = 0;                       // of the whole text
  std::vector<std::vector<std::int32_t>> pieces;  // none: the text is too short for them
};

/// `n` pieces of `length` tokens at equal distances, each with the text's first token where the model has one.
CutText cut_text(const Tokenizer& tokenizer, std::string_view text, int n, int length);

}  // namespace kvscope
