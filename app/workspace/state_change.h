#pragma once
// What lies between two states, in words.

#include <string>

#include "app/workspace/workspace_state.h"

namespace kvscope::app {

struct StateChange {
  std::string kind;      // "policy.budget", "layer"; of several at once all their names
  std::string label;     // "budget 25 % to 40 %": stands after "Undo"
  bool gradual = false;  // of what is moved rather than set: more of the same kind that follows at once belongs to it
};

StateChange describe_change(const WorkspaceState& before, const WorkspaceState& after);

/// Whether typing that led from `before` over `middle` to `after` goes on with the same word: a new one begins a step of its
/// own, and so does what is deleted after something was typed.
bool same_word(const std::string& before, const std::string& middle, const std::string& after);

}  // namespace kvscope::app
