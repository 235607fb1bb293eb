#include "engine/model/model.h"

#include <c10/core/InferenceMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "engine/core/files/gate/gate_file.h"
#include "engine/core/support/error.h"
#include "engine/model/checkpoint.h"
#include "engine/model/device.h"
#include "engine/model/weights.h"
#include "engine/scorer/kvpop_scorer.h"
#include "engine/scorer/make_scorer.h"

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

Place choose_place(const LoadOptions& options) {
  set_numerics();
  const c10::Device device = choose_device(options.device);
  at::ScalarType dtype = device.is_cuda() ? at::kBFloat16 : at::kFloat;
  if (options.dtype == "float32") {
    dtype = at::kFloat;
  } else if (options.dtype == "bfloat16") {
    dtype = at::kBFloat16;
  } else if (options.dtype != "auto") {
    throw Error(
        {.code = ExitCode::usage, .where = "dtype", .found = options.dtype, .expected = "auto, float32 or bfloat16"});
  }
  const std::string text = device.is_cuda() ? device.str() + " " + cuda_device(device.index()).name : "cpu";
  return {device, dtype, text};
}

/// Gates that belong to the model's folder: its own, and one a folder in gates/.
std::vector<std::filesystem::path> gates_beside(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  if (gate_format(folder)) found.push_back(folder);
  std::error_code none;
  std::set<std::filesystem::path> inside;  // in the order of their names
  for (const auto& entry : std::filesystem::directory_iterator(folder / "gates", none)) inside.insert(entry.path());
  for (const std::filesystem::path& path : inside) {
    if (gate_format(path)) found.push_back(path);
  }
  return found;
}

ModelInfo describe(const ModelConfig& config, const Weights& weights, const Place& place) {
  ModelInfo info;
  info.architecture = config.architecture;
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

struct LoadedModel::Impl {
  void take_gate(const GateFile& gate);

  ModelConfig config;
  ModelInfo info;
  Weights weights;
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<std::unique_ptr<TokenScorer>> scorers;
  std::vector<float> head_alpha;
  mutable std::map<std::uint64_t, std::unique_ptr<TokenScorer>> random_scorers;  // by seed
};

void LoadedModel::Impl::take_gate(const GateFile& gate) {
  if (gate.config.kind == GateKind::duo) {
    head_alpha = gate.tensors.at("alpha").values;
    return;
  }
  scorers.push_back(make_scorer(gate, config, weights));
  info.scorer += (info.scorer.empty() ? "" : "; ") + scorers.back()->description();
  // DMS marks tokens in a channel of the query, whatever policy runs: attention was trained without it.
  if (gate.config.kind == GateKind::dms) weights.gate_channel = config.head_dim - 1;
}

LoadedModel LoadedModel::load(const std::filesystem::path& folder, const LoadOptions& options,
                              const LoadProgress& progress) {
  if (!std::filesystem::is_directory(folder)) {
    throw Error({.file = folder.string(),
                 .found = std::filesystem::exists(folder) ? "not a folder" : "no such folder",
                 .expected = "a model folder with config.json, *.safetensors and tokenizer.json"});
  }
  auto impl = std::make_unique<Impl>();
  impl->config = ModelConfig::load(folder);
  impl->tokenizer = std::make_unique<Tokenizer>(Tokenizer::load(folder));
  const WeightFiles files = WeightFiles::open(folder);
  const Place place = choose_place(options);
  CheckpointReader reader(files, progress);
  impl->weights = build_weights(impl->config, reader, place.device, place.dtype);
  impl->info = describe(impl->config, impl->weights, place);
  impl->info.path = folder.string();
  impl->info.name = std::filesystem::absolute(folder).lexically_normal().filename().string();
  if (impl->info.name.empty())
    impl->info.name = std::filesystem::absolute(folder).lexically_normal().parent_path().filename();
  impl->info.weights_hash = files.hash();
  for (const std::string& gate : options.gates) impl->take_gate(load_gate(gate, impl->config));
  for (const std::filesystem::path& gate : gates_beside(folder)) impl->take_gate(load_gate(gate, impl->config));
  return LoadedModel(std::move(impl));
}

LoadedModel LoadedModel::random(const ModelConfig& config, std::uint64_t seed, const LoadOptions& options,
                                int scorer_window) {
  const Place place = choose_place(options);
  auto impl = std::make_unique<Impl>();
  impl->config = config;
  impl->weights = build_weights(config, formula_source(seed), place.device, place.dtype);
  impl->info = describe(config, impl->weights, place);
  impl->info.name = "random-" + std::to_string(seed);
  if (scorer_window > 0) {
    impl->scorers.push_back(std::make_unique<KvpopScorer>(KvpopScorerConfig{.delay = scorer_window}, config,
                                                          formula_source(seed), place.device));
    impl->info.scorer = impl->scorers.back()->description();
  }
  for (const std::string& gate : options.gates) impl->take_gate(load_gate(gate, impl->config));
  return LoadedModel(std::move(impl));
}

LoadedModel::LoadedModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LoadedModel::~LoadedModel() = default;
LoadedModel::LoadedModel(LoadedModel&&) noexcept = default;
LoadedModel& LoadedModel::operator=(LoadedModel&&) noexcept = default;

const ModelConfig& LoadedModel::config() const { return impl_->config; }
const ModelInfo& LoadedModel::info() const { return impl_->info; }
const Weights& LoadedModel::weights() const { return impl_->weights; }
const std::vector<float>& LoadedModel::head_alpha() const { return impl_->head_alpha; }

const TokenScorer* LoadedModel::scorer(std::span<const std::string_view> kinds) const {
  for (const auto& scorer : impl_->scorers) {
    if (kinds.empty() || std::find(kinds.begin(), kinds.end(), scorer->kind()) != kinds.end()) return scorer.get();
  }
  return nullptr;
}

int LoadedModel::scorer_delay() const {
  static constexpr std::string_view kKvpop[] = {"kvpop_mlstm", "kvpop_mlp", "kvpop_linear"};
  const TokenScorer* found = scorer(kKvpop);
  return found != nullptr ? found->delay() : 0;
}

const TokenScorer& LoadedModel::random_scorer(std::uint64_t seed) const {
  std::unique_ptr<TokenScorer>& scorer = impl_->random_scorers[seed];
  if (!scorer) scorer = make_random_scorer(seed, impl_->config, impl_->weights);
  return *scorer;
}
bool LoadedModel::has_tokenizer() const { return impl_->tokenizer != nullptr; }

const Tokenizer& LoadedModel::tokenizer() const {
  if (!impl_->tokenizer) throw Error({.file = impl_->info.name, .found = "no tokenizer", .expected = "tokenizer.json"});
  return *impl_->tokenizer;
}

}  // namespace kvscope::engine
