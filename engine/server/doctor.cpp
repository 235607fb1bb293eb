#include "engine/server/doctor.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "engine/core/support/version.h"
#include "engine/model/device.h"
#include "engine/server/failure.h"

namespace kvscope::engine {
namespace {

nlohmann::json check(const std::string& name, bool ok, const std::string& text, const std::string& hint = "") {
  return {{"name", name}, {"ok", ok}, {"text", text}, {"hint", hint}};
}

std::string gibibytes(std::int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f GiB", static_cast<double>(bytes) / (1 << 30));
  return text;
}

/// Also opens LibTorch's CUDA half: a driver alone is no proof that a model would run.
nlohmann::json check_device(int index) {
  const std::string name = "cuda:" + std::to_string(index);
  try {
    open_cuda(index);
    const CudaDevice device = cuda_device(index);
    return check(name, true,
                 device.name + ", " + gibibytes(device.free_bytes) + " free of " + gibibytes(device.total_bytes));
  } catch (...) {
    const Error error = current_failure().error;
    return check(name, false, error.parts().found, error.parts().hint);
  }
}

}  // namespace

nlohmann::json doctor_checks() {
  nlohmann::json checks = nlohmann::json::array();
  checks.push_back(check("engine", true, std::string(version()) + " (" + std::string(git_revision()) + ")"));
  checks.push_back(check("libtorch", true, torch_version()));
  checks.push_back(check("cpu", true, std::to_string(at::get_num_threads()) + " threads, " + at::get_cpu_capability()));
  const CudaStatus cuda = cuda_status();
  // No device is ordinary: the engine computes on the CPU then.
  if (cuda.n_devices == 0) checks.push_back(check("cuda", false, cuda.problem, cuda.hint));
  for (int index = 0; index < cuda.n_devices; ++index) checks.push_back(check_device(index));
  return checks;
}

}  // namespace kvscope::engine
