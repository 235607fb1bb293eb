#pragma once
// A random order.

#include <utility>
#include <vector>

#include "engine/core/support/random.h"

namespace kvscope {

/// Every order is as likely as any other (Fisher, Yates).
template <typename T>
void shuffle(Random& random, std::vector<T>& items) {
  for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[random.below(i)]);
}

}  // namespace kvscope
