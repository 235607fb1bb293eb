#pragma once
// The arguments of a command in the words of the window's controls, as the palette asks for them.

#include <string>

#include "app/command/argument.h"

namespace kvscope::app {

/// "layer: number, KV head: number" of the arguments layer and kv_head.
std::string argument_words(const std::vector<Argument>& arguments);
/// What was typed with these words has the names that commands know: "KV head 3, query 5" becomes "kv_head 3, q 5". Names may
/// be typed as well.
std::string with_names(const std::vector<Argument>& arguments, const std::string& typed);

}  // namespace kvscope::app
