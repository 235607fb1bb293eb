#pragma once
// What a right click on a token or on a head offers. All of it has a key or a button elsewhere too: the menu is the short way.

#include <imgui.h>

#include "views/frame/view_services.h"
#include "views/selection/view_state.h"

namespace kvscope::views {

/// Selects the token and opens its menu at the mouse. In the window of draw_token_menu().
void open_token_menu(Selection& selection, int token);
/// Draws it while it is open. Items "token.menu.pin", ".go_to", ".copy", ".copy_why", ".menu" itself says which token.
void draw_token_menu(const ViewServices& services, ViewContext& context);

/// The same of a head, which becomes the selected one: "head.menu.pin", ".mark", ".all", ".copy".
void open_head_menu(Selection& selection, KvHead head);
/// `value`: what the map says of the selected head, for the clipboard.
void draw_head_menu(const ViewServices& services, ViewContext& context, const std::string& value);

}  // namespace kvscope::views
