#pragma once
// What a token is to a head, as a colour. Okabe-Ito hues, apart in lightness too, and never colour alone: evicted
// tokens are struck through, tokens without a value are hatched.

#include <cstddef>
#include <string_view>

#include "engine/core/lifetime/lifetime_map.h"
#include "views/figure/figure.h"

namespace kvscope::views {

Colour state_colour(TokenState state, bool dark);
std::string_view state_name(TokenState state);        // "kept"
std::string_view state_definition(TokenState state);  // "left the window and was kept"

/// The policy's choice held against the oracle's at one query.
enum class Verdict : std::uint8_t {
  none,            // no choice: sink, window, future, or no oracle
  kept_rightly,    // both keep it
  kept_wrongly,    // kept, the oracle would not
  missed,          // evicted, the oracle would keep it
  dropped_rightly  // both drop it
};
Colour verdict_colour(Verdict verdict, bool dark);
std::string_view verdict_name(Verdict verdict);

/// Of runs beside each other: A blue, B vermilion.
Colour series_colour(std::size_t i, bool dark);

}  // namespace kvscope::views
