#pragma once
// The arguments of a command in the words of the window's controls, as the palette asks for them.

#include <string>

namespace kvscope::app {

/// "layer, KV head, token: numbers" of "layer, kv_head, token: numbers".
std::string argument_words(const std::string& description);
/// What was typed with these words has the names that commands know: "KV head 3, query 5" becomes "kv_head 3, q 5". Names may
/// be typed as well.
std::string with_names(const std::string& description, const std::string& typed);

}  // namespace kvscope::app
