#pragma once
// A run as one HTML page that needs nothing beside it: no network, no other file.

#include <string>

#include "engine/core/record/run_record.h"

namespace kvscope::app {

/// The page's bytes; the same for the same run. Throws Error (bad input) that names `source` for a run without tokens, or
/// with more than most_page_tokens().
std::string run_page(const RunRecord& run, const std::string& source);

}  // namespace kvscope::app
