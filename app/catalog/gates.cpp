#include "app/catalog/gates.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <system_error>

#include "app/catalog/adapters.h"
#include "app/catalog/models.h"
#include "app/support/paths.h"
#include "engine/core/files/gate/gate_kinds.h"
#include "engine/core/files/gate/gate_name.h"
#include "engine/core/files/weights/lora_file.h"
#include "engine/core/policy/policy.h"
#include "engine/core/record/pipe_gate.h"
#include "engine/core/support/error.h"
#include "engine/core/support/hash.h"
#include "engine/core/support/text.h"

namespace kvscope::app {
namespace {

namespace fs = std::filesystem;

/// In the words of the policy that was made for such gates: one counts the window in its own way, another has no threshold.
std::string decision_of(const GateConfig& config, const std::string& kind) {
  bool has_threshold = !weightless_gate(kind);  // nobody has published one
  double window = config.window;
  for (const PolicyInfo& info : policy_list()) {
    if (std::ranges::count(info.gates, kind) == 0) continue;
    has_threshold = std::ranges::count(info.parameters, "threshold", &ParameterInfo::name) > 0;
    const Policy& policy = policy_of(PolicySpec::parse(std::string(info.name) + (info.has_budget ? ":keep=50%" : "")));
    for (const auto& [name, value] : policy.of_scorer(gate_numbers(config))) {
      if (name == "window") window = value;
    }
    break;
  }
  const std::string of_window =
      "window " + number_text(window, 6) + (config.pool_interval > 0 ? ", pooled budget" : "");
  if (!has_threshold) return of_window;
  return (config.strict ? "> " : ">= ") + number_text(config.threshold, 6) + ", " + of_window;
}

/// Everything in a folder of gates that is one, in order of name.
void add_gates_in(const fs::path& folder, KnownGate::Origin origin, std::vector<KnownGate>& gates) {
  std::error_code error;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder, fs::directory_options::skip_permission_denied, error))
    if (gate_format(entry.path()) || LoraFile::is_there(entry.path())) found.push_back(entry.path());
  std::ranges::sort(found);
  for (const fs::path& path : found) gates.push_back({gate_name(path), path, origin});
}

/// "smollm2-135m" of its folder, however the path is written.
std::string model_name(const fs::path& folder) {
  std::error_code error;
  const fs::path wanted = fs::weakly_canonical(folder, error);
  for (const KnownModel& model : known_models()) {
    if (!model.path.empty() && fs::weakly_canonical(model.path, error) == wanted) return model.name;
  }
  return wanted.filename().string();
}

std::uint64_t bytes_of(const fs::path& path, const std::string& format) {
  std::error_code error;
  if (weightless_gate(path)) return 0;
  if (!fs::is_directory(path, error)) return fs::file_size(path, error);
  std::uint64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    // In a model's folder the weights are not the gate's, nor are curves and cards anywhere.
    const bool is_own = !fs::exists(path / "config.json", error) || has_own_config(format) ||
                        entry.path().filename().string().find("scorer") != std::string::npos ||
                        entry.path().filename().string().starts_with("gate") ||
                        entry.path().filename().string().starts_with("adapter_");
    const std::string kind = entry.path().extension().string();
    const bool is_read = kind != ".csv" && kind != ".md";
    if (is_own && is_read && entry.is_regular_file(error)) bytes += entry.file_size(error);
  }
  return bytes;
}

std::string listed(const std::vector<KnownGate>& gates, const fs::path& folder) {
  std::string text;
  for (const KnownGate& gate : gates) {
    const GateFacts facts = read_gate(gate, folder);
    text.append(text.empty() ? "" : ", ").append(gate.name);
    text.append(" (").append(facts.kind.empty() ? "cannot be read" : facts.kind).append(")");
    if (text.size() > 300) return text.append(" ...");
  }
  return text.empty() ? "none" : text;
}

std::string builtin_names() {
  std::string names;
  for (const KnownGate& gate : builtin_gates()) names += (names.empty() ? "" : ", ") + gate.name;
  return names;
}

std::string in_words(std::span<const std::string_view> kinds) {
  if (kinds.empty()) return "any kind";
  std::string text = "kind ";
  for (std::size_t i = 0; i < kinds.size(); ++i) text.append(i == 0 ? "" : " or ").append(std::string(kinds[i]));
  return text;
}

}  // namespace

std::vector<KnownGate> known_gates(const std::string& name, const fs::path& folder) {
  std::vector<KnownGate> gates;
  if (const auto format = gate_format(folder)) gates.push_back({*format, folder, KnownGate::Origin::model});
  add_gates_in(folder / "gates", KnownGate::Origin::model, gates);
  if (const fs::path samples = shipped_folder("samples"); !samples.empty() && !name.empty())
    add_gates_in(samples / "gates" / name, KnownGate::Origin::shipped, gates);
  return gates;
}

std::vector<KnownGate> known_gates(const fs::path& folder) { return known_gates(model_name(folder), folder); }

std::vector<KnownGate> builtin_gates() {
  std::vector<KnownGate> gates;
  for (const GateKindInfo& info : gate_kinds())
    if (weightless_gate(info.name)) gates.push_back({info.name, info.name, KnownGate::Origin::builtin});
  return gates;
}

GateFacts read_gate(const KnownGate& known, const fs::path& folder) {
  GateFacts facts{.gate = known};
  if (is_pipe(known.path.native())) {  // what it does is known when the engine has started it
    facts.kind = "pipe";
    facts.decision = "scores of " + pipe_command(known.path.native());
    return facts;
  }
  if (LoraFile::is_there(known.path)) {
    try {
      const LoraFile adapter = LoraFile::open(known.path);
      facts.adapter = "rank " + std::to_string(adapter.rank());
      adapter_note(adapter, folder);  // throws for one of another model
    } catch (const Error& error) {
      facts.misfit = error.what();
      return facts;
    }
    if (!gate_format(known.path)) {
      facts.kind = kAdapterKind;
      facts.bytes = bytes_of(known.path, kAdapterKind);
      facts.hash = gate_files_hash(known.path);
      return facts;
    }
  }
  const auto read = [&](const std::function<GateFile()>& load) {
    try {
      const GateFile gate = load();
      facts.kind = name_of(gate.config.kind);
      facts.decision = decision_of(gate.config, facts.kind);
      if (known.origin != KnownGate::Origin::builtin) facts.description = gate.description;
      facts.bytes = bytes_of(known.path, gate.format);
      facts.hash = gate.hash;
      if (const auto alpha = gate.tensors.find("alpha"); alpha != gate.tensors.end())
        facts.alpha = alpha->second.values;
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  facts.misfit = read([&] { return load_gate(known.path, ModelConfig::load(folder)); });
  if (!facts.fits()) read([&] { return load_gate(known.path); });  // what it is, all the same
  return facts;
}

GateRef gate_ref(const fs::path& path, const std::string& given) {
  GateRef ref{.given = gate_in_files(given), .name = gate_name(path), .hash = ""};
  std::error_code error;
  if (!fs::exists(path, error) && !weightless_gate(path)) return ref;
  try {
    ref.hash = gate_format(path) ? load_gate(path).hash : gate_files_hash(path);
  } catch (const Error&) {  // the engine says what is wrong with it
  }
  return ref;
}

std::string gate_files_hash(const fs::path& path) {
  std::map<std::string, fs::path> files;
  std::error_code error;
  if (!fs::is_directory(path, error)) files[path.filename().string()] = path;
  for (const auto& entry : fs::directory_iterator(path, error))
    if (entry.is_regular_file(error)) files[entry.path().filename().string()] = entry.path();
  Fnv1a hash;
  for (const auto& [name, file] : files) {
    std::ifstream in(file, std::ios::binary);
    hash.add(name);
    hash.add(std::string(std::istreambuf_iterator<char>(in), {}));
  }
  return hash.hex();
}

bool reads_gate(const PolicySpec& spec, const std::string& kind) {
  const Policy& policy = policy_of(spec);
  if (kind == name_of(GateKind::duo)) return policy.reads_heads(spec);
  const auto& kinds = policy.info.gates;
  const bool reads_kind = kinds.empty() || std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
  return reads_kind && policy.plan(spec, {}).source == ScoreSource::gate;
}

namespace {

/// Of gates that came with the program under another name: an older one and that of today.
constexpr std::pair<std::string_view, std::string_view> kFormerNames[] = {{"kvpop", "kvpop-pooled"}};

}  // namespace

std::string gate_path(const std::string& text, const fs::path& folder) {
  if (is_pipe(text)) return text;
  std::error_code error;
  if (weightless_gate(text)) return text;
  if (fs::exists(text, error)) return LoraFile::folder_of(text).string();
  const std::vector<KnownGate> gates = known_gates(folder);
  const auto found = std::ranges::find(gates, text, &KnownGate::name);
  if (found != gates.end()) return found->path.string();
  for (const auto& [former, name] : kFormerNames) {
    if (text == former && std::ranges::count(gates, name, &KnownGate::name) > 0)
      throw Error({.file = "--gate",
                   .found = in_quotes(text) + ", a name that this gate no longer has",
                   .expected = std::string(name),
                   .hint = "kvscope gates MODEL lists the names"});
  }
  throw Error({.file = "--gate",
               .found = in_quotes(text) + ", no such file, folder or name",
               .expected = "a path, or one of this model's gates: " + listed(gates, folder) + "; or " + builtin_names(),
               .hint = "kvscope gates MODEL lists them"});
}

std::vector<std::string> gates_to_load(const fs::path& folder, const std::vector<std::string>& given,
                                       std::span<const PolicySpec> policies) {
  std::vector<std::string> paths;
  for (const std::string& text : given) paths.push_back(gate_path(text, folder));
  std::optional<std::vector<GateFacts>> all;  // given, then known; read when a policy asks
  for (const PolicySpec& spec : policies) {
    const PolicyInfo& info = policy_of(spec).info;
    if (!info.needs_scorer && !reads_gate(spec, name_of(GateKind::duo))) continue;
    if (!all) {
      all.emplace();
      for (const std::string& path : paths) all->push_back(read_gate({path, path, KnownGate::Origin::model}, folder));
      for (const KnownGate& gate : known_gates(folder)) all->push_back(read_gate(gate, folder));
    }
    // One that was given and does not fit is the engine's to refuse: it says where.
    const auto first = std::ranges::find_if(*all, [&](const GateFacts& gate) {
      const bool is_given = std::ranges::find(paths, gate.gate.path.string()) != paths.end();
      return reads_gate(spec, gate.kind) && (is_given || (gate.fits() && gate.adapter.empty()));
    });
    if (first != all->end()) {
      const std::string path = first->gate.path.string();
      const bool is_new =
          first->gate.origin == KnownGate::Origin::shipped && std::ranges::find(paths, path) == paths.end();
      if (is_new) paths.push_back(path);
    } else if (info.needs_scorer && given.empty()) {
      throw Error({.file = spec.to_string(),
                   .found = "no gate of " + in_words(info.gates) + " fits " + model_name(folder) +
                            "; available: " + listed(known_gates(folder), folder),
                   .expected = "a gate in the model's folder, or --gate PATH or NAME" +
                               (info.gates.empty() ? ", as " + builtin_names() + ", which need no training" : ""),
                   .hint = "see docs/how-to/train-a-gate.md for training each kind"});
    }
  }
  return paths;
}

}  // namespace kvscope::app
