#pragma once
// The next run's policy, set so that it keeps as many tokens as A held at its end.

#include <string>

#include "engine/core/policy/match_cache_size.h"

namespace kvscope::app {

class Session;

/// Why it cannot be, a sentence; empty where it can, as far as that is known without counting.
std::string why_no_match(Session& session);
/// Whether the policy keeps as many already. False while it is not known how many A held.
bool matches_a(Session& session);
/// Sets it; returns what it has now, in words. Throws Error (usage) where it cannot be.
std::string match_a(Session& session);

}  // namespace kvscope::app
