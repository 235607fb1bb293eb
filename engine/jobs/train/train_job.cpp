// Defines train_job: recipe and corpus in, model folder out.

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"
#include "engine/jobs/job.h"
#include "engine/jobs/train/phase.h"

namespace kvscope::engine {
namespace {

std::string required_path(const nlohmann::json& args, const char* key) {
  if (args.contains(key) && args.at(key).is_string() && !args.at(key).get<std::string>().empty()) {
    return args.at(key).get<std::string>();
  }
  throw Error({.code = ExitCode::usage, .where = std::string("--") + key, .found = "nothing", .expected = "a path"});
}

/// The recipe as JSON: a file's name or the object itself, with "overrides" merged over it (RFC 7396).
std::pair<nlohmann::json, std::string> recipe_json(const nlohmann::json& args) {
  const bool inline_recipe = args.contains("recipe") && args.at("recipe").is_object();
  std::string source = inline_recipe ? std::string("recipe") : required_path(args, "recipe");
  nlohmann::json json = inline_recipe ? args.at("recipe") : read_json(source);
  if (args.contains("overrides")) json.merge_patch(args.at("overrides"));
  if (args.contains("seed") && args.at("seed").is_number_integer()) json["seed"] = args.at("seed");
  return {std::move(json), std::move(source)};
}

int loader_threads(const nlohmann::json& args, at::Device device) {
  if (args.contains("threads") && args.at("threads").is_number_integer()) {
    return std::clamp(args.at("threads").get<int>(), 1, 64);
  }
  const int n_cores = static_cast<int>(std::thread::hardware_concurrency());
  return device.is_cuda() ? std::clamp(n_cores - 2, 1, 12) : 1;  // on the CPU the cores belong to the products
}

/// The held-out accuracy of the phases as a table for a model card.
std::string markdown(const nlohmann::json& result) {
  std::string text = "| held out, teacher-forced | value |\n|---|---|\n";
  const auto row = [&](const std::string& name, double value) {
    char line[128];
    std::snprintf(line, sizeof line, "| %s | %.4f |\n", name.c_str(), value);
    text += line;
  };
  if (result.contains("base")) {
    for (const auto& [task, count] : result["base"]["heldout_teacher_forced"].items()) {
      row("dense, " + task, count["right"].get<double>() / count["asked"].get<double>());
    }
  }
  if (result.contains("scorer")) {
    for (const auto& [top_k, recall] : result["scorer"]["heldout_oracle_recall"].items()) {
      row("oracle recall, top_k " + top_k, recall["mean"].get<double>());
    }
  }
  return text;
}

/// Opens libtorch_cuda.so, which stands beside the libtorch_cpu.so that this process runs. Returns the reason if it
/// cannot. Nothing may ask ATen for CUDA before: ATen remembers the first answer.
std::string open_cuda_library() {
  static const std::string problem = []() -> std::string {
    if (dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) == nullptr)
      return "no NVIDIA driver (libcuda.so.1 is not there)";
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

/// Where a training runs: "cpu", "cuda", "cuda:N", or "auto": the first CUDA device if there is one. Opens LibTorch's
/// CUDA half when a device is wanted; the trainer is a library of its own that needs ATen only, no kernels of ours.
/// Throws Error: usage for other text, resource for a device that is not there.
at::Device training_device(const std::string& text) {
  if (text == "cpu") return at::kCPU;
  int index = 0;
  const bool numbered = text.starts_with("cuda:") && text.size() > 5 && text.size() < 9 &&
                        text.find_first_not_of("0123456789", 5) == std::string::npos;
  if (numbered) {
    index = std::stoi(text.substr(5));
  } else if (text != "auto" && text != "cuda") {
    throw Error({.code = ExitCode::usage, .where = "--device", .found = text, .expected = "auto, cpu, cuda or cuda:N"});
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

}  // namespace

nlohmann::json train_job(const nlohmann::json& args, JobContext& context) {
  const auto [json, source] = recipe_json(args);
  const Recipe recipe = Recipe::parse(json, source);
  const std::filesystem::path output = required_path(args, "output"), data = required_path(args, "data");
  const std::string phase = args.value("phase", "all");
  if (phase != "all" && phase != "base" && phase != "scorer") {
    throw Error({.code = ExitCode::usage, .where = "--phase", .found = phase, .expected = "all, base or scorer"});
  }
  const at::Device device = training_device(args.value("device", "auto"));
  const Corpus corpus = Corpus::open(data, recipe.model.vocab_size, recipe.heldout_share);
  std::filesystem::create_directories(output);
  write_file_atomic(output / "recipe.json", json.dump(2) + "\n");

  const Training training{recipe, corpus, device, output, loader_threads(args, device), context};
  nlohmann::json result = {{"status", "done"}, {"output", output.string()}, {"device", device.str()}};
  const auto run = [&](const char* name, nlohmann::json (*run_phase)(const Training&)) {
    if (result["status"] != "done" || (phase != "all" && phase != name)) return;
    result[name] = run_phase(training);
    if (result[name]["status"] == "cancelled") result["status"] = "cancelled";
  };
  run("base", run_base_phase);
  run("scorer", run_scorer_phase);
  if (result["status"] == "cancelled") return {{"status", "cancelled"}};
  result["markdown"] = markdown(result);
  return result;
}

}  // namespace kvscope::engine
