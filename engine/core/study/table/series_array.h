#pragma once
// The series of a run as one array, for files that know nothing of rows of different lengths.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/core/record/run_record.h"

namespace kvscope {

/// [n_layers, n_kv_heads, n], rows cut or padded to n.
template <typename T>
std::vector<T> series_array(const HeadSeries<T>& series, std::int64_t n, T padding) {
  std::vector<T> values(static_cast<std::size_t>(series.n_layers() * series.n_kv_heads() * n), padding);
  auto at = values.begin();
  for (int layer = 0; layer < series.n_layers(); ++layer) {
    for (int head = 0; head < series.n_kv_heads(); ++head, at += n) {
      const std::vector<T>& row = series.row(layer, head);
      std::copy(row.begin(), row.begin() + std::min<std::ptrdiff_t>(std::ssize(row), n), at);
    }
  }
  return values;
}

}  // namespace kvscope
