#include "engine/model/model.h"

#include <c10/core/InferenceMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <charconv>
#include <optional>

#include "engine/core/files/weights/kernel_limits.h"
#include "engine/core/files/weights/lora_file.h"
#include "engine/core/support/error.h"
#include "engine/core/support/hash.h"
#include "engine/model/adapted_reader.h"
#include "engine/model/checkpoint.h"
#include "engine/model/device.h"
#include "engine/model/formula_weights.h"

namespace kvscope::engine {
namespace {

struct Place {
  c10::Device device;
  at::ScalarType dtype;
  std::string device_text;  // "cpu", "cuda:0 NVIDIA H200"
};

/// Index of "cuda" (0) or "cuda:N"; -1 for anything else.
int cuda_index(const std::string& device) {
  if (device == "cuda") return 0;
  int index = -1;
  if (device.starts_with("cuda:")) std::from_chars(device.data() + 5, device.data() + device.size(), index);
  return index;
}

c10::Device choose_device(const std::string& device) {
  if (device == "cpu") return c10::Device(c10::kCPU);
  const bool is_auto = device == "auto";
  const int index = is_auto ? 0 : cuda_index(device);
  if (index < 0) {
    throw Error({.code = ExitCode::usage, .where = "device", .found = device, .expected = "auto, cpu, cuda or cuda:N"});
  }
  if (is_auto && cuda_status().n_devices == 0) return c10::Device(c10::kCPU);
  open_cuda(index);
  // One model, one device, one thread that computes: kernels launch on the thread's current device.
  const c10::Device chosen(c10::kCUDA, static_cast<c10::DeviceIndex>(index));
  c10::impl::VirtualGuardImpl(c10::kCUDA).setDevice(chosen);
  return chosen;
}

Place choose_place(const std::string& wanted_device, const std::string& wanted_dtype) {
  set_numerics();
  const c10::Device device = choose_device(wanted_device);
  at::ScalarType dtype = device.is_cuda() ? at::kBFloat16 : at::kFloat;
  if (wanted_dtype == "float32") {
    dtype = at::kFloat;
  } else if (wanted_dtype == "bfloat16") {
    dtype = at::kBFloat16;
  } else if (wanted_dtype != "auto") {
    throw Error(
        {.code = ExitCode::usage, .where = "dtype", .found = wanted_dtype, .expected = "auto, float32 or bfloat16"});
  }
  const std::string text = device.is_cuda() ? device.str() + " " + cuda_device(device.index()).name : "cpu";
  return {device, dtype, text};
}

ModelInfo describe(const ModelConfig& config, const Weights& weights, const Place& place) {
  ModelInfo info;
  info.architecture = config.family->architecture;
  info.dtype = place.dtype == at::kFloat ? "float32" : "bfloat16";
  info.device = place.device_text;
  info.n_layers = config.n_layers;
  info.n_heads = config.n_heads;
  info.n_kv_heads = config.n_kv_heads;
  info.head_dim = config.head_dim;
  info.vocab_size = config.vocab_size;
  info.max_positions = config.max_positions;
  info.n_parameters = weights.n_parameters;
  return info;
}

}  // namespace

Model Model::load(const std::filesystem::path& folder, const std::string& device, const std::string& dtype,
                  const LoadProgress& progress, const std::filesystem::path& adapter_folder) {
  if (!std::filesystem::is_directory(folder)) {
    throw Error({.file = folder.string(),
                 .found = std::filesystem::exists(folder) ? "not a folder" : "no such folder",
                 .expected = "a model folder with config.json, *.safetensors and tokenizer.json"});
  }
  ModelFolder opened = ModelFolder::open(folder);
  const WeightFiles& files = opened.weights;
  Model model;
  model.config = std::move(opened.config);
  model.tokenizer = std::make_shared<Tokenizer>(std::move(opened.tokenizer));
  model.warnings = std::move(opened.warnings);
  const Place place = choose_place(device, dtype);
  if (place.device.is_cuda()) check_cuda_kernels(model.config, (folder / "config.json").string());
  CheckpointReader own(files, progress);
  std::optional<LoraFile> adapter;
  if (!adapter_folder.empty()) {
    adapter.emplace(LoraFile::open(adapter_folder));
    adapter->check_values();
    adapter->left_out(model.config);
  }
  std::optional<AdaptedReader> adapted;
  if (adapter) adapted.emplace(own, *adapter);
  WeightReader& reader = adapted ? static_cast<WeightReader&>(*adapted) : own;
  model.weights = std::make_shared<Weights>(build_weights(model.config, reader, place.device, place.dtype));
  model.info = describe(model.config, *model.weights, place);
  model.info.path = folder.string();
  const std::filesystem::path whole = std::filesystem::absolute(folder).lexically_normal();
  model.info.name = (whole.has_filename() ? whole : whole.parent_path()).filename().string();
  model.info.weights_hash = files.hash();
  if (adapter) {
    adapted->check_all_used();
    model.info.name += " + " + adapter->name();
    model.info.weights_hash = hex_text(fnv1a64(files.hash() + adapter->hash()));
  }
  return model;
}

Model Model::random(const ModelConfig& config, std::uint64_t seed, const std::string& device,
                    const std::string& dtype) {
  const Place place = choose_place(device, dtype);
  FormulaReader formula(seed);
  Model model{.config = config};
  model.weights = std::make_shared<Weights>(build_weights(config, formula, place.device, place.dtype));
  model.info = describe(config, *model.weights, place);
  model.info.name = "random-" + std::to_string(seed);
  return model;
}

}  // namespace kvscope::engine
