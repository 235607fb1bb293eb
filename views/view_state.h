#pragma once
// What all views share: the runs on show, the selection, and what a view may ask of the program.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "engine/core/record/run_record.h"
#include "engine/core/study/retention_metrics.h"

namespace kvscope::views {

enum class ColourMode : std::uint8_t { state, score, kept_heads, oracle };

/// One selection for every view: what is hovered or clicked in one is marked in all.
struct Selection {
  int layer = 0;
  int kv_head = 0;
  int token = -1;       // cursor, -1 for none
  std::int32_t q = -1;  // scrub position: the cache as query q sees it; -1 is the live edge
  bool follow = true;   // q follows the live edge
  int hovered_token = -1;
  ColourMode colour = ColourMode::state;
  Metric metric = Metric::density;
};

/// A run and how it came to be: a preview is never drawn like a measurement.
struct ShownRun {
  std::shared_ptr<const RunRecord> run;  // never null
  bool preview = false;
  std::string label;           // "A", "B", "preview of A"
  std::uint64_t revision = 0;  // rises when the run grows, so that a view may cache
};

/// What a view draws from and whom it asks. Views change the selection and run commands by id; nothing else.
struct ViewContext {
  const ShownRun* a = nullptr;  // null: nothing on show
  const ShownRun* b = nullptr;  // null: no comparison
  Selection* selection = nullptr;
  std::function<void(const std::string& command_id)> command;  // "run.start", "figure.export" ...
  std::int32_t q() const;  // the scrub position, resolved against run A; -1 if there is no run
};

/// One view = one class = one file. draw() fills the current ImGui window's content region and does no slow work.
class View {
 public:
  virtual ~View() = default;
  virtual const char* id() const = 0;     // "layer_head_map"
  virtual const char* title() const = 0;  // "Layer x head map"
  virtual void draw(ViewContext& context) = 0;
};

}  // namespace kvscope::views
