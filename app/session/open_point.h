#pragma once
// The selected point of a study, opened as a run: its trace if one was kept, else its text is read again under its policy,
// its gates and its number of tokens.

#include <optional>
#include <string>
#include <utility>

#include "app/session/study_point.h"

namespace kvscope::app {

class Session;
struct RunEntry;

class OpenPoint {
 public:
  explicit OpenPoint(Session& session) : session_(session) {}

  /// The run becomes A. Begins once it is known what there is. Throws Error (usage) with why_not().
  void open();
  std::string why_not() const;  // a sentence; empty: it is possible, or not known yet
  /// The model that the point was measured on. Throws Error if this machine does not have it.
  void open_model();

  /// What was asked for goes on, as far as it can now.
  void poll();
  /// A run has ended: if it is a point's, a notice compares it with the study.
  void compare(const RunEntry& run);

 private:
  void prepare();
  void begin();

  Session& session_;
  bool due_ = false;                                  // its run is to be opened once it is known what there is
  std::optional<PointToRun> to_run_;                  // once the engine has its gates
  std::optional<std::pair<int, MeasuredPoint>> run_;  // id of the run that a point was opened as
};

}  // namespace kvscope::app
