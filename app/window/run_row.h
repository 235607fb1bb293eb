#pragma once
// One run in the list: where it is on show, what it is, what came of it.

#include "app/session/runs.h"
#include "views/selection/listed_runs.h"

namespace kvscope::app {

struct Panel;

/// Items run.ID.a, run.ID.b, run.ID.name, run.ID.prompt, run.ID.detail, run.ID.menu.
void draw_run_row(Panel& panel, const RunEntry& entry, const views::ListedRun& listed);

}  // namespace kvscope::app
