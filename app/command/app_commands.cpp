#include "app/command/app_commands.h"

namespace kvscope::app {

// In this order they stand in menu and palette.
void add_all_commands(CommandRegistry& registry, Session& session, UiState& ui, const views::ViewList& views) {
  add_run_commands(registry, session, ui);
  add_parameter_commands(registry, session, ui);
  add_chat_commands(registry, session, ui);
  add_selection_commands(registry, session, ui);
  add_span_commands(registry, session, ui);
  add_difference_commands(registry, session);
  add_find_commands(registry, session, ui);
  add_pin_commands(registry, session, ui);
  add_file_commands(registry, session, ui, views);
  add_board_commands(registry, session, ui);
  add_study_commands(registry, session, ui, views);
  add_study_job_commands(registry, session, ui);
  add_export_commands(registry, session, ui, views);
  add_film_commands(registry, session, ui, views);
  add_view_commands(registry, session, ui, views);
  add_own_layout_commands(registry, ui);
}

}  // namespace kvscope::app
