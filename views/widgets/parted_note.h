#pragma once
// What the map says where the texts of A and B part, and the two ways to what is the same.

#include <optional>

#include "views/frame/view.h"
#include "views/frame/view_services.h"

namespace kvscope::views {

/// The first token that A and B, which are compared on the map, do not share; none where they share all up to the query.
std::optional<int> parted_at(const ViewContext& context);
/// Cells of different texts are not subtracted.
bool refuses_difference(const ViewContext& context);
/// Nothing where they have not parted.
void draw_parted_note(const ViewServices& services, ViewContext& context);

}  // namespace kvscope::views
