// A gate in any of its formats: a letter that says which, the small file that names it, a NUL, the weights.

#include "engine/core/files/gate/gate_file.h"
#include "engine/core/support/error.h"
#include "tests/fuzz/format.h"

namespace kvscope::fuzz {
namespace {

struct Layout {
  char letter;
  const char* folder;
  const char* small;    // gate.json; empty: there is none
  const char* weights;  // beside it
};
constexpr Layout kLayouts[] = {{'g', "gate", "gate.json", "gate.safetensors"},
                               {'m', "mapping", "gate_mapping.json", "a.safetensors"},
                               {'k', "kvpop", "kvpop_scorer.json", "kvpop_scorer.safetensors"},
                               {'d', "duo", "config.json", "full_attention_heads.tsv"},
                               {'s', "dms", "config.json", "dms_metadata.json"},
                               {'z', "kvzap", "config.json", "model.safetensors"},
                               {'w', "wg-kv", "", "gate.safetensors"},
                               {'p', "wg-kv-pt", "", "gate.pt"}};

void read_gate(std::string_view bytes) {
  if (bytes.empty()) return;
  for (const Layout& layout : kLayouts) {
    if (layout.letter != bytes[0]) continue;
    bytes.remove_prefix(1);
    const std::string folder = layout.folder;
    std::filesystem::create_directory(memory_folder() / folder);
    if (*layout.small) put(folder + "/" + layout.small, take_part(bytes, '\0'));
    put(folder + "/" + layout.weights, bytes);
    ModelConfig model;
    model.n_layers = 3, model.n_heads = 4, model.n_kv_heads = 2, model.head_dim = 4, model.hidden_size = 10;
    const std::filesystem::path path = memory_folder() / folder;
    gate_format(path);
    try {
      load_gate(path, model);
    } catch (const Error& error) {
      if (error.code() == ExitCode::internal) throw;
    }
    load_gate(path);
    return;
  }
}

const Registration registration("gate", read_gate);

}  // namespace
}  // namespace kvscope::fuzz
