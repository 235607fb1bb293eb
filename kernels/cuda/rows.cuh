#pragma once
// Several rows of a decode step in one launch: the arguments of all of them are parameters of the kernel, and a block finds
// its row by its index. A captured launch so has everything that it needs, and nothing is copied to the device.

#include <algorithm>
#include <span>
#include <vector>

namespace kvscope::kernels {

/// Rows of one launch at most: 32 times the largest arguments stay below the 32,764 bytes that a kernel may be given.
constexpr int kRowsOfLaunch = 32;

/// To be taken as `const __grid_constant__ RowArgs<Args, kRows>`: without that the compiler copies all of it to local memory.
template <typename Args, int kRows>
struct RowArgs {
  Args row[kRows];
  static_assert(sizeof(Args) * kRows <= 32000);

  /// Of the block's own row, `index` among the rows of the launch.
  __device__ const Args& of(unsigned index) const { return row[kRows == 1 ? 0 : index]; }
};

/// Calls launch(args, n) with RowArgs of n rows, as few times as may be: once for all rows of equal kind(row), in their order,
/// up to kRowsOfLaunch of them. A single row has a kernel for itself, with small parameters.
template <typename Args, typename Kind, typename Launch>
void launch_rows(std::span<const Args> rows, const Kind& kind, const Launch& launch) {
  std::vector<bool> is_done(rows.size());
  for (std::size_t first = 0; first < rows.size(); ++first) {
    if (is_done[first]) continue;
    RowArgs<Args, kRowsOfLaunch> many = {};
    unsigned n = 0;
    for (std::size_t i = first; i < rows.size() && n < kRowsOfLaunch; ++i) {
      if (is_done[i] || kind(rows[i]) != kind(rows[first])) continue;
      is_done[i] = true;
      many.row[n++] = rows[i];
    }
    if (n == 1) {
      launch(RowArgs<Args, 1>{{rows[first]}}, n);
    } else {
      launch(many, n);
    }
  }
}

}  // namespace kvscope::kernels
