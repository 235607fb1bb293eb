#pragma once
// What a range of tokens that was marked comes to, for the selected head and for all.

#include <string>

#include "views/selection/view_state.h"
#include "views/widgets/rebuild.h"

namespace kvscope::views {

class BrushSummary {
 public:
  /// "tokens 40–99: 23 of 60 in the cache, mean 2.1 of 8 heads per layer"; made again where it changed.
  const std::string& line(const ViewContext& context);

 private:
  struct Key {
    RunKey run;
    int layer, kv_head;
    std::int32_t q;
    TokenSpan brush;
    bool operator==(const Key&) const = default;
  };
  Rebuild<Key> rebuild_;
  std::string line_;
};

}  // namespace kvscope::views
