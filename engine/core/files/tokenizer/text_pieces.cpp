#include "engine/core/files/tokenizer/text_pieces.h"

#include <algorithm>

namespace kvscope {

CutText cut_text(const Tokenizer& tokenizer, std::string_view text, int n, int length) {
  const std::vector<std::int32_t> tokens = tokenizer.encode_typed(text, false);
  const std::vector<std::int32_t> before = tokenizer.encode_with_special("");
  CutText cut{.n_tokens = tokens.size(), .pieces = {}};
  const auto whole = static_cast<std::size_t>(std::max(length, 0)), count = static_cast<std::size_t>(std::max(n, 0));
  const std::size_t n_own = whole - std::min(before.size(), whole);
  if (n_own == 0 || tokens.size() / n_own < count) return cut;
  const std::size_t step = (tokens.size() - n_own) / (std::max<std::size_t>(2, count) - 1);
  for (std::size_t i = 0; i < count; ++i) {
    const auto first = tokens.begin() + static_cast<std::ptrdiff_t>(step * i);
    cut.pieces.push_back(before);
    cut.pieces.back().insert(cut.pieces.back().end(), first, first + static_cast<std::ptrdiff_t>(n_own));
  }
  return cut;
}

}  // namespace kvscope
