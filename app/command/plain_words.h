#pragma once
#include <string>

#include "engine/core/support/error.h"

namespace kvscope::app {

/// What a command refused, for a person who pressed a key or a button: a sentence, without the words that a script needs.
std::string plain_words(const Error& error);

}  // namespace kvscope::app
