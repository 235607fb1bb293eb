#pragma once
#include "views/selection/view_state.h"

namespace kvscope::views {

/// For a run whose tokens are the same up to `n_common` only: a token beyond them is selected no longer. Where not even the
/// prompt is the same, ranges and the position go too.
void leave_text(Selection& selection, int n_common, bool same_prompt);

}  // namespace kvscope::views
