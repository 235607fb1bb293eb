#include "engine/jobs/train/train_device.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>

#include <filesystem>
#include <sstream>

#include "engine/core/support/error.h"

namespace kvscope::engine {
namespace {

/// Opens libtorch_cuda.so, which stands beside the libtorch_cpu.so that this process runs. Returns the reason if it
/// cannot. Nothing may ask ATen for CUDA before: ATen remembers the first answer.
std::string open_cuda_library() {
  static const std::string problem = []() -> std::string {
    if (dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) == nullptr) return "no NVIDIA driver (libcuda.so.1 is missing)";
    Dl_info info;
    std::filesystem::path library = "libtorch_cuda.so";
    if (dladdr(reinterpret_cast<const void*>(&at::globalContext), &info) != 0 && info.dli_fname != nullptr) {
      library = std::filesystem::path(info.dli_fname).parent_path() / library;
    }
    if (dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) return dlerror();
    return at::hasCUDA() ? "" : "LibTorch finds no CUDA device";
  }();
  return problem;
}

}  // namespace

at::Device training_device(const std::string& text) {
  if (text == "cpu") return at::kCPU;
  int index = 0;
  const bool numbered = text.starts_with("cuda:") && text.size() > 5 && text.size() < 9 &&
                        text.find_first_not_of("0123456789", 5) == std::string::npos;
  if (numbered) {
    index = std::stoi(text.substr(5));
  } else if (text != "auto" && text != "cuda") {
    throw Error({.code = ExitCode::usage,
                 .where = "--device",
                 .found = text,
                 .expected = "auto, cpu, cuda, cuda:N, cuda:N,cuda:M or cuda:all"});
  }
  const std::string problem = open_cuda_library();
  if (!problem.empty() && text == "auto") return at::kCPU;
  if (!problem.empty()) {
    throw Error({.code = ExitCode::resource,
                 .file = text,
                 .found = problem,
                 .expected = "a CUDA device",
                 .hint = "train on the CPU with --device cpu"});
  }
  const int n_devices = at::detail::getCUDAHooks().deviceCount();
  if (index >= n_devices) {
    throw Error({.code = ExitCode::resource,
                 .file = text,
                 .found = std::to_string(n_devices) + " CUDA device(s)",
                 .expected = "a CUDA device of that number",
                 .hint = "devices are counted from 0"});
  }
  return {at::kCUDA, static_cast<at::DeviceIndex>(index)};
}

std::vector<at::Device> training_devices(const std::string& text) {
  std::vector<at::Device> devices;
  if (text == "cuda:all") {
    devices.push_back(training_device("cuda"));
    for (int i = 1; i < at::detail::getCUDAHooks().deviceCount(); ++i)
      devices.emplace_back(at::kCUDA, static_cast<at::DeviceIndex>(i));
    return devices;
  }
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) devices.push_back(training_device(part));
  if (devices.empty()) devices.push_back(training_device(text));
  for (const at::Device& device : devices) {
    if (device.type() == devices.front().type()) continue;
    throw Error({.code = ExitCode::usage, .where = "--device", .found = text, .expected = "devices of one kind"});
  }
  return devices;
}

}  // namespace kvscope::engine
