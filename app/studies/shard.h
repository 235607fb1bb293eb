#pragma once
// A part of a study, for several machines.

#include <string>

namespace kvscope::app {

struct Shard {
  int index = 0, of = 1;
};

/// Of "0/4". Throws Error (usage).
Shard parse_shard(const std::string& text);

}  // namespace kvscope::app
