#pragma once
// That something is not kept for the next start: said once, and taken back when it is kept after all.

#include <string>

#include "app/session/messages.h"

namespace kvscope::app {

/// "Run 3 is not kept for the next start: no space left". Nothing while that is on show.
void warn_not_kept(Messages& messages, const std::string& what, const std::string& why);
/// Ends the warnings that begin so.
void take_back(Messages& messages, const std::string& beginning);
/// Ends that warning.
void take_back_not_kept(Messages& messages, const std::string& what);

}  // namespace kvscope::app
