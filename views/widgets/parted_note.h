#pragma once
// What is written above a map of A and B: what judges them, where their texts diverge, and the two ways to what is the
// same. It takes as much room at one query as at every other, so that scrubbing does not move the map.

#include <optional>
#include <string>
#include <string_view>

#include "views/frame/view.h"
#include "views/frame/view_services.h"

namespace kvscope::views {

/// The first token that A and B, which are compared on the map, do not share; none where they share all up to the query.
std::optional<int> parted_at(const ViewContext& context);
/// Cells of different texts are not subtracted.
bool refuses_difference(const ViewContext& context);

/// Where there is little room the notes are one line, cut, with all of them as its hint, and the ways come after it.
struct PairNotes {
  bool needs_oracle = false;         // the map's metric
  std::string_view common_oracle{};  // what was counted by; empty: nothing yet, or each by its own
  bool little_room = false;
  float least = 0;  // then: pixels that the map needs, which a line of notes does not take
};
/// Nothing where no B is compared. Items "map.refusal", "map.parted", "map.both_at", "map.own_oracles",
/// "map.common_oracle", each with its whole text, and "map.replay", "map.go_to_common".
void draw_pair_notes(const ViewServices& services, ViewContext& context, const PairNotes& about);
/// In the place of the map of a difference that is refused, where the notes are cut: item "map.refused".
void draw_refusal(const ViewServices& services);

}  // namespace kvscope::views
