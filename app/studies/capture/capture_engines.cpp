#include "app/studies/capture/capture_engines.h"

#include <array>
#include <future>
#include <utility>

#include "app/support/split.h"
#include "engine/core/support/error.h"
#include "engine/core/trace/trace_file.h"

namespace kvscope::app {
namespace {

/// "cuda:1 NVIDIA H200" -> "NVIDIA H200"
std::string card_of(const std::string& device) {
  return device.starts_with("cuda:") ? device.substr(device.find(' ') + 1) : device;
}

}  // namespace

std::vector<std::string> devices_of(const std::string& device, const std::optional<int>& gpus) {
  if (device != "cuda:all") {
    const std::vector<std::string> devices = split(device, ',');
    return devices.empty() ? std::vector{device} : devices;
  }
  if (!gpus) {
    throw Error({.code = ExitCode::usage,
                 .file = "--device",
                 .where = device,
                 .found = "this engine does not report how many GPUs it has",
                 .hint = "name them: --device cuda:0,cuda:1"});
  }
  if (*gpus == 0) {
    throw Error({.code = ExitCode::resource,
                 .file = "--device",
                 .where = device,
                 .found = "the engine finds no GPU",
                 .hint = "kvscope doctor shows why; --device cpu decodes on the CPU"});
  }
  std::vector<std::string> devices;
  for (int i = 0; i < *gpus; ++i) devices.push_back("cuda:" + std::to_string(i));
  return devices;
}

CaptureEngines::CaptureEngines(EngineJobOptions options, std::string model, PolicySpec policy)
    : model_(std::move(model)), policy_(std::move(policy)) {
  options.stop = [this, stop = std::move(options.stop)] { return is_stopped_ || (stop && stop()); };
  EngineJob first(options);
  const std::vector<std::string> devices = devices_of(options.device, first.offer().gpus);
  options.started = std::move(first).hand_over();
  for (const std::string& device : devices) {
    options.device = device;
    engines_.push_back({.options = options, .job = nullptr, .model = {}});
    engines_.back().job = std::make_unique<EngineJob>(options, EngineJob::Greeting::at_load);
    options.started = nullptr;  // the first has it
    options.shows_progress = false;
  }
  std::vector<std::future<void>> loads;
  for (std::size_t i = 1; i < size(); ++i)
    loads.push_back(std::async(std::launch::async, [this, i] { load(engines_[i]); }));
  try {
    load(engines_[0]);
    for (std::future<void>& one : loads) one.get();
  } catch (...) {
    stop();
    throw;
  }
  engines_[0].options.shows_progress = false;  // from now on the capture's is shown
  engines_[0].job->progress().clear();
  for (const Engine& engine : engines_) check_same(engine);
}

void CaptureEngines::load(Engine& engine) {
  engine.model = engine.job->load(model_, std::array{policy_});
  engine.job->show_engine_progress(false);
}

void CaptureEngines::start_again(std::size_t i) {
  engines_[i].job = nullptr;  // a device may not hold both
  engines_[i].job = std::make_unique<EngineJob>(engines_[i].options);
  load(engines_[i]);
  check_same(engines_[i]);
}

void CaptureEngines::check_same(const Engine& engine) const {
  ModelInfo model = engine.model;
  if (card_of(model.device) == card_of(this->model().device)) model.device = this->model().device;
  if (const auto difference = model_difference(model, this->model()))
    throw Error({.file = engine.options.device,
                 .where = "model " + difference->what,
                 .found = in_quotes(difference->a),
                 .expected = in_quotes(difference->b) + " as on " + engines_[0].options.device});
}

}  // namespace kvscope::app
