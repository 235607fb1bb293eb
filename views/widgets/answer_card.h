#pragma once
// What of the answer difference's picture is under the mouse, and its card.

#include <string_view>

#include "views/figure/parting_panel.h"
#include "views/frame/view_services.h"

namespace kvscope::views {

/// The token of the joint text that has this panel; -1: it is none.
int joint_token(const PartingNumbers& numbers, std::string_view panel);
/// The lost token whose row it is; null: it is none.
const LostToken* lost_token(const PartingNumbers& numbers, std::string_view panel);

/// The numbers of a token or a row, or what the other panels show. Items "difference.card", and of a token "difference.card.0" for
/// A and "difference.card.1" for B.
void draw_answer_card(const ViewServices& services, const PartingNumbers& numbers, std::string_view panel);

}  // namespace kvscope::views
