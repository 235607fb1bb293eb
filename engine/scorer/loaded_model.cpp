#include "engine/scorer/loaded_model.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <iterator>
#include <mutex>
#include <set>
#include <utility>

#include "engine/core/files/gate/gate_kinds.h"
#include "engine/core/files/gate/gate_name.h"
#include "engine/core/record/pipe_gate.h"
#include "engine/core/support/error.h"
#include "engine/model/adapted_reader.h"
#include "engine/scorer/kvpop_scorer.h"
#include "engine/scorer/make_scorer.h"

namespace kvscope::engine {

namespace {

/// Gates that belong to a model's folder: its own, and one a folder in gates/, in the order of their names. One that changes
/// the weights is read when it is asked for, not because it is there.
std::vector<std::filesystem::path> gates_beside(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  if (gate_format(folder)) found.push_back(folder);
  std::error_code none;
  std::set<std::filesystem::path> inside;  // in the order of their names
  for (const auto& entry : std::filesystem::directory_iterator(folder / "gates", none)) inside.insert(entry.path());
  std::copy_if(inside.begin(), inside.end(), std::back_inserter(found),
               [](const auto& path) { return gate_format(path).has_value() && !has_adapter(path); });
  return found;
}

}  // namespace

void LoadedModel::add(LoadedGate gate) {
  gates_.push_back(std::move(gate));
  std::string& text = model_.info.scorer;  // of all scorers, "; " between them
  text += (text.empty() ? "" : "; ") + gates_.back().scorer->description();
}

void LoadedModel::add(const std::filesystem::path& path, const std::string& name) {
  const GateFile gate = load_gate(path, config());
  gate_hashes_.push_back(path.filename().string() + " " + gate.hash);
  const GateReads reads = info_of(gate.config.kind).reads;
  if (reads == GateReads::nothing) {
    heads_ = {gate.config, gate.tensors.at("alpha").values};
    return;
  }
  const auto decay = gate.tensors.find("log_gamma");
  std::shared_ptr<TokenScorer> scorer = make_scorer(gate, config(), weights());
  scorer->set_name(name);
  add({.scorer = std::move(scorer),
       .config = gate.config,
       .log_gamma = decay != gate.tensors.end() ? decay->second.values : std::vector<float>()});
  if (reads == GateReads::query_channel) model_.weights->gate_channel = config().head_dim - 1;
}

void LoadedModel::add_given(const std::string& gate) {
  if (!is_pipe(gate)) return add(gate, gate_name(gate));
  std::shared_ptr<TokenScorer> scorer = make_pipe_scorer(pipe_command(gate), config(), weights());
  scorer->set_name(gate_name(gate));
  gate_hashes_.push_back(gate_name(gate) + " " + scorer->description());
  add({.scorer = std::move(scorer), .config = {}, .log_gamma = {}});
}

LoadedModel LoadedModel::load(const std::filesystem::path& folder, const LoadOptions& options,
                              const LoadProgress& progress) {
  LoadedModel model(Model::load(folder, options.device, options.dtype, progress, adapter_of(options.gates)));
  for (const std::string& path : options.gates) {
    if (has_adapter(path) && !gate_format(path)) continue;  // a change of the weights alone
    model.add_given(path);
  }
  for (const std::filesystem::path& path : gates_beside(folder)) {
    const bool is_there = std::any_of(options.gates.begin(), options.gates.end(), [&](const std::string& given) {
      std::error_code none;
      return std::filesystem::equivalent(given, path, none);
    });
    if (!is_there) model.add(path, path == folder ? "" : gate_name(path));  // the model's own needs no name
  }
  return model;
}

LoadedModel LoadedModel::random(const ModelConfig& config, std::uint64_t seed, const LoadOptions& options,
                                int scorer_window) {
  LoadedModel model(Model::random(config, seed, options.device, options.dtype));
  if (scorer_window > 0) {
    model.add({.scorer = std::make_shared<KvpopScorer>(KvpopScorerConfig{.delay = scorer_window}, config,
                                                       formula_source(seed), model.weights().device)});
  }
  for (const std::string& path : options.gates) model.add_given(path);
  return model;
}

const LoadedGate* LoadedModel::gate(std::span<const std::string_view> kinds) const {
  for (const LoadedGate& gate : gates_) {
    if (kinds.empty() || std::find(kinds.begin(), kinds.end(), gate.scorer->kind()) != kinds.end()) return &gate;
  }
  return nullptr;
}

GatesOfModel LoadedModel::gate_numbers() const {
  GatesOfModel gates;
  for (const LoadedGate& gate : gates_) {
    gates.scorers.push_back({.kind = std::string(gate.scorer->kind()), .numbers = {}, .delay = gate.scorer->delay()});
    if (!gate.config) continue;
    gates.scorers.back().numbers = kvscope::gate_numbers(*gate.config);
    gates.scorers.back().numbers->has_decay = !gate.log_gamma.empty();
  }
  if (!heads_.alpha.empty()) {
    gates.heads = kvscope::gate_numbers(heads_.config);
    gates.heads->share = share_passing(heads_.alpha, *gates.heads);
  }
  return gates;
}

const TokenScorer* LoadedModel::scorer(std::span<const std::string_view> kinds) const {
  const LoadedGate* found = gate(kinds);
  return found != nullptr ? found->scorer.get() : nullptr;
}

const TokenScorer& LoadedModel::random_scorer(std::uint64_t seed) const {
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  std::shared_ptr<TokenScorer>& scorer = random_[seed];
  if (!scorer) {
    scorer = make_random_scorer(seed, config(), weights());
    const c10::Device device = weights().device;
    if (device.is_cuda())
      c10::impl::VirtualGuardImpl(device.type()).getStream(device).synchronize();  // for all streams
  }
  return *scorer;
}

bool LoadedModel::is_for_one_thread() const {
  return std::ranges::any_of(gates_, [](const LoadedGate& gate) { return gate.scorer->scores_between_steps(); });
}

int LoadedModel::scorer_delay() const {
  static constexpr std::string_view kKvpop[] = {"kvpop_mlstm", "kvpop_mlp", "kvpop_linear"};
  const TokenScorer* found = scorer(kKvpop);
  return found != nullptr ? found->delay() : 0;
}

const Tokenizer& LoadedModel::tokenizer() const {
  if (!has_tokenizer()) throw Error({.file = info().name, .found = "no tokenizer", .expected = "tokenizer.json"});
  return *model_.tokenizer;
}

}  // namespace kvscope::engine
