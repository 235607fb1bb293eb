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

/// A copy of an array or a span.
template <typename Items>
auto shuffled(Random& random, const Items& from) {
  std::vector<typename Items::value_type> items(from.begin(), from.end());
  shuffle(random, items);
  return items;
}

}  // namespace kvscope
