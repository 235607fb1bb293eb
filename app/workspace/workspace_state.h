#pragma once
// The one state of the user interface: what Undo steps through, what the next start takes up again, what tests compare.
//
// Results are no part of it. Runs are known here by their ids: which two are A and B, and which were taken off the list.

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>

#include "app/session/session.h"
#include "app/workspace/layout.h"

namespace kvscope::app {

struct WorkspaceState {
  RunSettings parameters;
  std::shared_ptr<const std::string> prompt;  // of many states in a row the same: megabytes are held once; never null
  views::Selection selection;                 // without what is hovered, or not to be seen
  int a = 0, b = 0;                           // run ids, 0: none
  std::set<int> removed;                      // run ids
  Layout layout;
  Appearance appearance;
};
bool operator==(const WorkspaceState& a, const WorkspaceState& b);

/// `previous`: a state whose prompt is shared if it is the same.
WorkspaceState capture_state(const Session& session, const Layout& layout, const Appearance& appearance,
                             const WorkspaceState* previous = nullptr);
/// Makes session, layout and appearance be so. Runs that are gone for good are left out; runs that `state` does not name
/// stay. What is the same already is not touched: no prompt is counted again, no preview computed.
void apply_state(const WorkspaceState& state, Session& session, Layout& layout, Appearance& appearance);

/// Layout and parameters, not the appearance, which is a setting: {"parameters", "selection", "shown", "removed", "layout"}.
nlohmann::json to_json(const WorkspaceState& state);
/// Throws Error for anything that to_json() would not have written; what is missing has its default.
WorkspaceState state_from_json(const nlohmann::json& json, const std::string& file);

}  // namespace kvscope::app
