#include "app/session/model_list.h"

#include <memory>
#include <string>
#include <utility>

namespace kvscope::app {

void ModelList::look() {
  if (std::exchange(looking_, true)) return;
  background_.post(
      [this]() -> Worker::Finish {
        auto found = std::make_shared<std::vector<KnownModel>>(known_models());
        return [this, found] {
          all_ = std::move(*found);
          looking_ = false;
          revision_.rise();
        };
      },
      [this](const std::string&) { looking_ = false; });
}

}  // namespace kvscope::app
