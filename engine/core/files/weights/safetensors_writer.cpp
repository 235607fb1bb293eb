#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/core/files/weights/safetensors.h"
#include "engine/core/support/error.h"
#include "engine/core/support/file.h"

namespace kvscope {
namespace {

const char* name_of(TensorType type) {
  switch (type) {
    case TensorType::f32:
      return "F32";
    case TensorType::f16:
      return "F16";
    case TensorType::bf16:
      return "BF16";
    case TensorType::other:
      break;
  }
  return nullptr;
}

/// Arguments come from our own code: a mistake here is ours.
void check(const TensorToWrite& tensor, const std::filesystem::path& path) {
  std::uint64_t bytes = tensor.type == TensorType::f32 ? 4 : 2;
  bool bad = name_of(tensor.type) == nullptr || tensor.name.empty() || tensor.name == "__metadata__";
  for (const std::int64_t d : tensor.shape) {
    bad = bad || d < 0 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(d), &bytes);
  }
  if (bad || bytes != tensor.bytes.size()) {
    throw Error({.code = ExitCode::internal,
                 .file = path.string(),
                 .where = tensor.name,
                 .found = "a tensor of " + std::to_string(tensor.bytes.size()) + " bytes to write",
                 .expected = std::to_string(bytes) + " for its shape"});
  }
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, const std::vector<TensorToWrite>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  AtomicFile file(path);
  write_safetensors(file, tensors, metadata);
  file.commit();
}

void write_safetensors(AtomicFile& file, const std::vector<TensorToWrite>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  const std::filesystem::path& path = file.target();
  std::map<std::string, const TensorToWrite*> sorted;
  for (const TensorToWrite& tensor : tensors) {
    check(tensor, path);
    if (!sorted.emplace(tensor.name, &tensor).second) {
      throw Error({.code = ExitCode::internal,
                   .file = path.string(),
                   .where = tensor.name,
                   .found = "a tensor to write twice"});
    }
  }
  nlohmann::json header = nlohmann::json::object();  // sorts its keys
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t at = 0;
  for (const auto& [name, tensor] : sorted) {
    const std::uint64_t end = at + tensor->bytes.size();
    header[name] = {{"dtype", name_of(tensor->type)}, {"shape", tensor->shape}, {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // readers that map the file want the data aligned

  std::string length(8, '\0');
  for (int i = 0; i < 8; ++i) length[i] = static_cast<char>(text.size() >> (8 * i));
  file.write(length);
  file.write(text);
  for (const auto& [name, tensor] : sorted) {
    file.write({reinterpret_cast<const char*>(tensor->bytes.data()), tensor->bytes.size()});
  }
}

}  // namespace kvscope
