#include "kernels/xor_words.h"

#include <limits>

#include "kernels/argument_check.h"

namespace kvscope::kernels {

void xor_words(const XorWordsArgs& args, Place place) {
  const ArgumentCheck check("xor_words");
  check.range("n", args.n, 0, std::int64_t{std::numeric_limits<std::int32_t>::max()} * kXorTileWords);
  check.multiple("n", args.n, kXorTileWords, "a multiple of 8192");
  check.pointers({{"data", args.data}, {"out", args.out}});
  KVSCOPE_RUN(xor_words, args, place);
}

}  // namespace kvscope::kernels
