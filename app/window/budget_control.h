#pragma once
// The budget of the policy: its control, and what it comes to for the next run and for A.

namespace kvscope::app {

struct Panel;

/// Nothing for a policy without a budget.
void draw_budget(Panel& panel);

}  // namespace kvscope::app
