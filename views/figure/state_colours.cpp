#include "views/figure/state_colours.h"

namespace kvscope::views {

Colour state_colour(TokenState state, bool dark) {
  switch (state) {
    case TokenState::sink:
      return {230, 159, 0, 255};  // orange
    case TokenState::window:
      return {86, 180, 233, 255};  // sky blue
    case TokenState::kept:
      return dark ? Colour{48, 134, 201, 255} : Colour{0, 114, 178, 255};  // blue
    case TokenState::evicted:
      return dark ? Colour{66, 68, 74, 255} : Colour{222, 222, 220, 255};
    case TokenState::unread:
      return dark ? Colour{74, 104, 128, 255} : Colour{158, 190, 210, 255};  // blue gone grey
    case TokenState::undecided:
      return {0, 0, 0, 0};  // hatched
    case TokenState::future:
      break;
  }
  return dark ? Colour{30, 31, 34, 255} : Colour{255, 255, 255, 255};
}

std::string_view state_name(TokenState state) {
  switch (state) {
    case TokenState::sink:
      return "sink";
    case TokenState::window:
      return "window";
    case TokenState::kept:
      return "kept";
    case TokenState::evicted:
      return "evicted";
    case TokenState::undecided:
      return "not decided yet";
    case TokenState::unread:
      return "not read";
    case TokenState::future:
      break;
  }
  return "future";
}

std::string_view state_definition(TokenState state) {
  switch (state) {
    case TokenState::sink:
      return "one of the first tokens, always kept";
    case TokenState::window:
      return "one of the newest tokens, always kept; not decided yet";
    case TokenState::kept:
      return "left the window and is still in the cache";
    case TokenState::evicted:
      return "removed from the cache; later queries cannot see it";
    case TokenState::undecided:
      return "this query has not run yet: nothing is decided";
    case TokenState::unread:
      return "in the cache, but not in a page that this query reads";
    case TokenState::future:
      break;
  }
  return "not yet read at this query";
}

Colour verdict_colour(Verdict verdict, bool dark) {
  switch (verdict) {
    case Verdict::kept_rightly:
      return dark ? Colour{48, 134, 201, 255} : Colour{0, 114, 178, 255};
    case Verdict::kept_wrongly:
      return {240, 228, 66, 255};  // yellow
    case Verdict::missed:
      return {213, 94, 0, 255};  // vermilion
    case Verdict::dropped_rightly:
      return dark ? Colour{66, 68, 74, 255} : Colour{222, 222, 220, 255};
    case Verdict::none:
      break;
  }
  return dark ? Colour{30, 31, 34, 255} : Colour{255, 255, 255, 255};
}

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kept_rightly:
      return "kept (oracle agrees)";
    case Verdict::kept_wrongly:
      return "kept (oracle evicts)";
    case Verdict::missed:
      return "missed (oracle keeps)";
    case Verdict::dropped_rightly:
      return "evicted (oracle agrees)";
    case Verdict::none:
      break;
  }
  return "no choice";
}

Colour series_colour(std::size_t i, bool dark) {
  if (i == 0) return dark ? Colour{86, 180, 233} : Colour{0, 114, 178};
  return dark ? Colour{240, 158, 60} : Colour{200, 84, 0};
}

}  // namespace kvscope::views
