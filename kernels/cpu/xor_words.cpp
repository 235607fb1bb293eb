#include "kernels/xor_words.h"

#include <algorithm>
#include <vector>

#include "kernels/parallel_for.h"

namespace kvscope::kernels::cpu {

void xor_words(const XorWordsArgs& args) {
  // Whole stretches a thread: a tile at a time would measure how work is handed out.
  constexpr std::int64_t kStretch = 64L * kXorTileWords;
  const std::int64_t n_stretches = (args.n + kStretch - 1) / kStretch;
  std::vector<std::uint32_t> of_stretch(static_cast<std::size_t>(n_stretches), 0);
  parallel_for(n_stretches, kStretch, [&](std::int64_t stretch) {
    std::uint32_t lanes[16] = {};
    const std::int64_t end = std::min(args.n, (stretch + 1) * kStretch);
    for (std::int64_t i = stretch * kStretch; i < end; i += 16) {
      for (int lane = 0; lane < 16; ++lane) lanes[lane] ^= args.data[i + lane];
    }
    for (const std::uint32_t lane : lanes) of_stretch[static_cast<std::size_t>(stretch)] ^= lane;
  });
  *args.out = 0;
  for (const std::uint32_t part : of_stretch) *args.out ^= part;
}

}  // namespace kvscope::kernels::cpu
