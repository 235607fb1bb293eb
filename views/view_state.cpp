#include "views/view_state.h"

#include <algorithm>

namespace kvscope::views {

std::int32_t ViewContext::q() const {
  if (a == nullptr || a->run->n_tokens() == 0) return -1;
  const std::int32_t last = a->run->n_tokens() - 1;
  if (selection == nullptr || selection->follow || selection->q < 0) return last;
  return std::min(selection->q, last);
}

}  // namespace kvscope::views
