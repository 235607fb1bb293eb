#pragma once
// What a long computation may ask and tell.

#include <functional>

namespace kvscope::engine {

/// What a long computation may ask and tell while it runs. Both may be empty.
struct Hooks {
  std::function<bool()> cancelled;                                            // asked once per layer and per token
  std::function<void(const char* phase, double value, double max)> progress;  // "prefill": tokens of the prompt
  bool is_cancelled() const { return cancelled && cancelled(); }
};

}  // namespace kvscope::engine
