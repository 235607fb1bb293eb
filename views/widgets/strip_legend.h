#pragma once
// What the colours of the token strip mean.

#include <vector>

#include "views/figure/token_facts.h"
#include "views/widgets/chrome.h"

namespace kvscope::views {

/// Colours under text are toned down, so that a page of them stays readable.
Colour soft(const Theme& theme, Colour colour);
/// Of run A at query q; `scores` is what the score colours span.
std::vector<Swatch> strip_swatches(const Theme& theme, const RunRecord& run, ColourMode colour, std::int32_t q,
                                   ScoreRange scores);

}  // namespace kvscope::views
