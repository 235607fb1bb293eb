#pragma once
// The curves of a training as studies in its folder, which grow while it runs.

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/core/study/table/study_table.h"

namespace kvscope::app {

class TrainingCurves {
 public:
  /// `request`: what the engine was asked for.
  TrainingCurves(std::filesystem::path folder, nlohmann::json request)
      : folder_(std::move(folder)), request_(std::move(request)) {}
  /// write(), but a disk that fails now is not reported.
  ~TrainingCurves();
  TrainingCurves(const TrainingCurves&) = delete;
  TrainingCurves& operator=(const TrainingCurves&) = delete;

  /// Rows of a curve as the engine tells them: "name", "columns", "first" and "rows", which replace all from row `first` on. They
  /// are in FOLDER/NAME_loss.h5 at once, or, where writing takes more than a few per cent of the time, a little later. Throws
  /// Error: of the file, or of rows that do not fit.
  void take(const nlohmann::json& curve);
  /// Throws Error (resource) if a file cannot be written.
  void write();

 private:
  std::filesystem::path folder_;
  nlohmann::json request_;
  std::string name_;  // of the phase that runs; those before it are in their files
  StudyTable table_;
  bool is_written_ = true;
  std::chrono::steady_clock::time_point write_at_{};
};

}  // namespace kvscope::app
