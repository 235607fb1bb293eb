#pragma once
// The engines of a capture: one process for each device.

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/engine_client/engine_job.h"

namespace kvscope::app {

/// What --device names: a list, or every GPU that an engine's greeting counts for "cuda:all". Throws Error.
std::vector<std::string> devices_of(const std::string& device, const std::optional<int>& gpus);

class CaptureEngines {
 public:
  /// Starts an engine for each device of the options and loads the model in all. Throws Error if one of them cannot, or if their
  /// models, number formats or cards differ.
  CaptureEngines(EngineJobOptions options, std::string model, PolicySpec policy);

  std::size_t size() const { return engines_.size(); }
  /// Of one that start_again() has failed for, nothing may be asked. Several threads may ask several engines.
  EngineJob& operator[](std::size_t i) { return *engines_[i].job; }
  /// "cuda:1 NVIDIA H200"
  const std::string& device(std::size_t i) const { return engines_[i].model.device; }
  const ModelInfo& model() const { return engines_[0].model; }
  /// In the place of one that has stopped. Throws Error.
  void start_again(std::size_t i);
  /// Cancels what they work on, as Ctrl+C does.
  void stop() { is_stopped_ = true; }

 private:
  struct Engine {
    EngineJobOptions options;
    std::unique_ptr<EngineJob> job;
    ModelInfo model;
  };
  void load(Engine& engine);
  void check_same(const Engine& engine) const;

  std::string model_;
  PolicySpec policy_;
  std::vector<Engine> engines_;
  std::atomic<bool> is_stopped_ = false;
};

}  // namespace kvscope::app
