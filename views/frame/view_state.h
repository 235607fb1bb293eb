#pragma once
// What all views share: the runs on show, the selection, and what a view may ask of the program.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "engine/core/record/run_record.h"
#include "engine/core/study/retention_metrics.h"
#include "views/figure/token_strip_figure.h"

namespace kvscope::views {

/// One selection for every view: what is hovered or clicked in one is marked in all.
struct Selection {
  int layer = 0;
  int kv_head = 0;
  int token = -1;                 // cursor, -1 for none
  std::optional<std::int32_t> q;  // scrub position: the cache as query q sees it; empty follows the run
  int hovered_token = -1;
  ColourMode colour = ColourMode::state;
  Metric metric = Metric::density;
};

/// A selection as one run has it: every index inside its bounds, q a query of it.
struct Cursor {
  int layer = 0, kv_head = 0, token = -1;
  std::int32_t q = 0;
};
/// The run must have a token.
Cursor cursor(const Selection& selection, const RunRecord& run);

/// A run and how it came to be: a preview is never drawn like a measurement.
struct ShownRun {
  std::shared_ptr<const RunRecord> run;  // never null
  bool preview = false;
  std::string label;           // "A", "B", "preview of A"
  std::uint64_t revision = 0;  // rises when the run grows, so that a view may cache
};
/// A run that has something to draw: tokens and heads.
bool drawable(const ShownRun* shown);

/// What a view draws from and whom it asks. Views change the selection and run commands by id; nothing else.
struct ViewContext {
  const ShownRun* a = nullptr;  // null: nothing on show
  const ShownRun* b = nullptr;  // null: no comparison
  Selection* selection = nullptr;
  std::function<void(const std::string& command_id)> command;  // "run.start", "figure.export" ...
  std::int32_t q() const;  // the scrub position, resolved against run A; -1 if there is no run
  /// The selection in run A, or in another run at A's scrub position: both are seen at the same query.
  Cursor cursor_in(const RunRecord& run) const;
};

}  // namespace kvscope::views
