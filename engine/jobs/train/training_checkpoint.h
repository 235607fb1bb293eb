#pragma once
// Where a phase of a training stands, on disk: what `kvscope train --resume` goes on from.

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/jobs/train/optimizer.h"

namespace kvscope::engine {

/// What is not a tensor. All that a step draws at random follows from the recipe's seed and the step's number, so that
/// no state of a generator is among it.
struct TrainingPoint {
  std::int64_t step = 0;                   // steps that are done
  double seconds = 0;                      // that they took
  std::vector<std::vector<double>> curve;  // a row of numbers for each logged step, up to this one
};

/// One file of safetensors: parameters and the optimiser's moments in float32, bit for bit, and a TrainingPoint. It is
/// replaced whole or not at all.
class TrainingCheckpoint {
 public:
  /// `identity` says what is trained from what; another training's checkpoint is refused.
  TrainingCheckpoint(std::filesystem::path path, std::string identity, AdamW& optimizer)
      : path_(std::move(path)), identity_(std::move(identity)), optimizer_(optimizer) {}

  /// Throws Error (bad input) if a parameter is not finite: the file stays what it was. Throws Error (resource) if it
  /// cannot be written.
  void save(const TrainingPoint& point) const;
  /// Sets parameters and optimiser; the beginning if there is no file. Throws Error (bad input) that names the file: damaged, of
  /// another training.
  TrainingPoint load() const;

 private:
  std::filesystem::path path_;
  std::string identity_;
  AdamW& optimizer_;
};

}  // namespace kvscope::engine
