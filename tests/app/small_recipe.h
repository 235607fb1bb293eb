#pragma once
// A training that takes seconds: gates of WG-KV for the sample model.

#include <nlohmann/json.hpp>

namespace kvscope::test {

inline nlohmann::json small_recipe(int steps) {
  return {{"name", "test"},
          {"seed", 3},
          {"data", {{"kind", "text"}, {"length", 64}, {"facts_share", 0}}},
          {"gate",
           {{"method", "wg-kv"},
            {"hidden", 4},
            {"window", 8},
            {"sinks", 2},
            {"batch", 1},
            {"log_every", 1},
            {"warm_up", 1},
            {"learning_rate", 1e-2},
            {"stages", {{{"weight", 0.5}, {"steps", steps}}}}}}};
}

}  // namespace kvscope::test
