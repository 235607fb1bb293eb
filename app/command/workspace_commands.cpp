// edit.*, session.*: steps back and forth, and what the next start finds.

#include "app/command/app_commands.h"
#include "app/workspace/workspace.h"

namespace kvscope::app {

void add_workspace_commands(CommandRegistry& registry, Workspace& workspace) {
  Undo& undo = workspace.undo();
  registry.add(
      {"edit.undo", "Undo", "Edit", "Ctrl+Z", takes(), [&undo] { return undo.can_undo(); }, [&undo] { undo.undo(); }});
  registry.add({"edit.redo", "Redo", "Edit", "Ctrl+Shift+Z Ctrl+Y", takes(), [&undo] { return undo.can_redo(); },
                [&undo] { undo.redo(); }});
  registry.add({"session.new", "New workspace", "File", "", takes(), nullptr, [&workspace] { workspace.clear(); }});
  registry.add(
      {"session.save", "Save the workspace now", "File", "", takes(), nullptr, [&workspace] { workspace.save(); }});
  registry.look_around([&undo] { undo.observe(); });
  undo.on_change([&registry, &undo] {
    const auto title = [](const char* verb, const std::string& label) {
      return label.empty() ? std::string(verb) : std::string(verb) + " " + label;
    };
    registry.set_title("edit.undo", title("Undo", undo.history().undo_label()));
    registry.set_title("edit.redo", title("Redo", undo.history().redo_label()));
  });
}

}  // namespace kvscope::app
