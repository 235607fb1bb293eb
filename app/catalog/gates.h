#pragma once
// Gates by name: those that go with a model, what each is, and which of them a run needs.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "engine/core/files/gate/gate_file.h"
#include "engine/core/policy/policy_text.h"
#include "engine/core/record/asked.h"

namespace kvscope::app {

struct KnownGate {
  /// Beside the weights: the engine reads it in any case; samples/gates/MODELNAME; weightless, used when asked for.
  enum class Origin { model, shipped, builtin };

  std::string
      name;  // of its folder, or of its file without the ending: "wgkv-0.01"; of a model's own folder, the format
  std::filesystem::path path;
  Origin origin = Origin::model;
};

/// The gates of the model of this name and folder, in the order in which a policy looks for its own: in the folder, in
/// gates/ inside it, then those that came with the program. By names and headers alone: nothing is read.
std::vector<KnownGate> known_gates(const std::string& model_name, const std::filesystem::path& model_folder);
/// The same with the name that `models` gives the folder, or else its own.
std::vector<KnownGate> known_gates(const std::filesystem::path& model_folder);

/// The gates that need no file and go with every model: path is the name.
std::vector<KnownGate> builtin_gates();

inline constexpr const char* kAdapterKind = "lora";  // of an adapter without a gate

/// A gate that was read for a model.
struct GateFacts {
  KnownGate gate;
  std::string kind;         // "wg_kv", or kAdapterKind; empty if it cannot be read at all
  std::string decision;     // "> 0.1, window 256", "window 64, pooled budget"
  std::string description;  // as its file has it
  std::string hash;         // hex, of a gate's numbers, of an adapter's files; empty if it cannot be read
  std::uint64_t bytes = 0;  // of all its files
  std::string misfit;       // why it does not go with the model, in a line; empty: it does
  std::string
      adapter;  // "rank 16": it changes the model's weights, so that it is used when asked for; empty: it does not
  std::vector<float> alpha;  // [n_layers * n_kv_heads] of a head directory
  bool fits() const { return misfit.empty(); }
  bool is_adapter_alone() const { return kind == kAdapterKind; }
};
GateFacts read_gate(const KnownGate& gate, const std::filesystem::path& model_folder);

/// Of the bytes of its file, or of all files in its folder in the order of their names.
std::string gate_files_hash(const std::filesystem::path& path);

/// Of a gate or adapter that is loaded from `path`; `given` is what a command calls it. Reads it; what cannot be read has no hash.
GateRef gate_ref(const std::filesystem::path& path, const std::string& given);

/// Whether the policy decides by a gate of this kind ("wg_kv"), by its declaration.
bool reads_gate(const PolicySpec& policy, const std::string& kind);

/// What --gate TEXT means: a path that is there, the name of a known gate, or pipe:COMMAND as it is. Throws Error that lists the names.
std::string gate_path(const std::string& text, const std::filesystem::path& model_folder);

/// What an engine on this machine is to read: `given` (paths or names), and for each policy that would find no gate the
/// first known one that it reads. Throws Error that says what there is if a policy's gate is nowhere.
std::vector<std::string> gates_to_load(const std::filesystem::path& model_folder, const std::vector<std::string>& given,
                                       std::span<const PolicySpec> policies);

}  // namespace kvscope::app
