#pragma once
// A view that is open beside another of its kind has its own look: metric, scale, colours, head. All that views and commands
// read is the selection, so for as long as such a view is drawn or asked, the selection has its look.

#include <string>

#include "app/workspace/layout.h"
#include "views/selection/view_state.h"

namespace kvscope::app {

/// Exchanges the selection's look with that of layout.look_of, both ways.
void swap_look(views::Selection& selection, Layout& layout);

/// For its life the selection has the look of that view. Nothing for a first view of a kind, and inside of another scope.
/// Commands may run meanwhile, Undo too: capture_state() and apply_state() know of it.
class LookScope {
 public:
  LookScope(views::Selection& selection, Layout& layout, const std::string& view);
  ~LookScope();
  LookScope(const LookScope&) = delete;
  LookScope& operator=(const LookScope&) = delete;

 private:
  views::Selection& selection_;
  Layout& layout_;
  bool here_ = false;  // this one has exchanged them
};

}  // namespace kvscope::app
