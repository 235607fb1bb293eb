#include "app/cli/write_behind.h"

#include <utility>

namespace kvscope::app {

WriteBehind::~WriteBehind() {
  if (under_way_.valid()) under_way_.wait();
}

void WriteBehind::add(RunRecord run) {
  wait();
  // "deferred" too: where no thread can be had, wait() writes it.
  under_way_ =
      std::async(std::launch::async | std::launch::deferred, [this, run = std::move(run)] { writer_.add(run); });
}

void WriteBehind::wait() {
  if (under_way_.valid()) under_way_.get();
}

}  // namespace kvscope::app
