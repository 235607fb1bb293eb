#include "app/workspace/look_scope.h"

#include <utility>

namespace kvscope::app {

void swap_look(views::Selection& selection, Layout& layout) {
  const auto found = layout.looks.find(layout.look_of);
  if (found == layout.looks.end()) return;
  InstanceLook& look = found->second;
  const views::ViewLook was = look_of(selection);
  set_look(selection, std::exchange(look.look, was));
  if (!look.own_head) return;
  std::swap(selection.layer, look.layer);
  std::swap(selection.kv_head, look.kv_head);
}

LookScope::LookScope(views::Selection& selection, Layout& layout, const std::string& view)
    : selection_(selection), layout_(layout) {
  if (!layout.look_of.empty() || !layout.looks.contains(view)) return;
  here_ = true;
  layout.look_of = view;
  swap_look(selection, layout);
}

LookScope::~LookScope() {
  if (!here_) return;
  swap_look(selection_, layout_);
  layout_.look_of.clear();
}

}  // namespace kvscope::app
