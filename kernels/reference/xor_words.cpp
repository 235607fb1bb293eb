#include "kernels/xor_words.h"

namespace kvscope::kernels::reference {

void xor_words(const XorWordsArgs& args) {
  *args.out = 0;
  for (std::int64_t i = 0; i < args.n; ++i) *args.out ^= args.data[i];
}

}  // namespace kvscope::kernels::reference
