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

  /// Rows of a curve as the engine tells them: "name", "columns", "first" and "rows", which replace all from row `first` on; or
  /// "name" and "probe", the scores of a held-out text after a step, beside these rows. They are in FOLDER/NAME_loss.h5 at once,
  /// or, where writing takes more than a few per cent of the time, a little later: probes with the first row. A training that goes
  /// on keeps the file's probes up to its checkpoint. Throws Error: of the file, or of rows and scores that do not fit.
  void take(const nlohmann::json& curve);
  /// Throws Error (resource) if a file cannot be written.
  void write();

 private:
  void begin(const nlohmann::json& curve);
  void take_probe(const nlohmann::json& probe);
  std::filesystem::path file() const;

  std::filesystem::path folder_;
  nlohmann::json request_;
  std::string name_;  // of the phase that runs; those before it are in their files
  StudyTable table_;
  bool is_written_ = true;
  std::chrono::steady_clock::time_point write_at_{};
};

}  // namespace kvscope::app
