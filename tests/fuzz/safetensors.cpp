// A file of weights: its header, and each tensor that a small machine would read.

#include "engine/core/files/weights/safetensors.h"

#include "tests/fuzz/format.h"

namespace kvscope::fuzz {
namespace {

void read_safetensors(std::string_view bytes) {
  const SafetensorsFile file = SafetensorsFile::open(put("model.safetensors", bytes));
  for (const auto& [name, entry] : file.tensors()) {
    std::vector<std::byte> values(entry.end - entry.begin);  // no more than the file has
    file.read(entry, values);
    if (entry.type == TensorType::f32 && values.size() != static_cast<std::size_t>(entry.n_elements()) * 4)
      std::abort();
  }
}

const Registration registration("safetensors", read_safetensors);

}  // namespace
}  // namespace kvscope::fuzz
