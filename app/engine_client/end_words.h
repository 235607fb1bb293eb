#pragma once
#include <string>

namespace kvscope::app {

/// Why an engine ended, from its `ended` event's reason, to follow "the engine": "stopped: exit code 7", or "did not answer for
/// 60 s" and how to wait longer.
std::string end_words(const std::string& reason);

}  // namespace kvscope::app
