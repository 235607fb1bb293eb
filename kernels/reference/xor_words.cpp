#include "kernels/xor_words.h"

#include "kernels/validate.h"

namespace kvscope::kernels::reference {

void xor_words(const XorWordsArgs& args) {
  validate(args);
  *args.out = 0;
  for (std::int64_t i = 0; i < args.n; ++i) *args.out ^= args.data[i];
}

}  // namespace kvscope::kernels::reference
