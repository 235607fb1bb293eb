#pragma once
// A conversation as the client reads it.

#include <string_view>

#include "engine/core/record/run_record.h"

namespace kvscope::fuzz {

/// The run that its messages tell of, as far as they do.
RunRecord run_of_messages(std::string_view bytes);

}  // namespace kvscope::fuzz
