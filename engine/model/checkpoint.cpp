#include "engine/model/checkpoint.h"

#include "engine/core/support/error.h"

namespace kvscope::engine {
namespace {

std::string text_of(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

at::ScalarType scalar_type(const SafetensorsFile& file, const std::string& name, const TensorEntry& entry) {
  switch (entry.type) {
    case TensorType::f32:
      return at::kFloat;
    case TensorType::f16:
      return at::kHalf;
    case TensorType::bf16:
      return at::kBFloat16;
    case TensorType::other:
      break;
  }
  throw Error({.file = file.path().string(), .where = name, .found = entry.type_name, .expected = "F32, F16 or BF16"});
}

at::Tensor read_entry(const SafetensorsFile& file, const std::string& name, const TensorEntry& entry) {
  at::Tensor out = at::empty(entry.shape, scalar_type(file, name, entry));
  file.read(entry, {static_cast<std::byte*>(out.data_ptr()), out.nbytes()});
  return out;
}

}  // namespace

at::Tensor read_tensor(const SafetensorsFile& file, const std::string& name, const std::vector<std::int64_t>& shape) {
  const auto found = file.tensors().find(name);
  if (found == file.tensors().end()) {
    throw Error({.file = file.path().string(), .where = name, .found = "no such tensor", .expected = text_of(shape)});
  }
  if (found->second.shape != shape) {
    throw Error({.file = file.path().string(),
                 .where = name,
                 .found = "shape " + text_of(found->second.shape),
                 .expected = text_of(shape)});
  }
  return read_entry(file, name, found->second);
}

TensorSource checkpoint_source(const WeightFiles& files, const LoadProgress& progress, std::int64_t total_bytes) {
  return [&files, progress, total_bytes, done = std::int64_t{0}](const std::string& name,
                                                                 const std::vector<std::int64_t>& shape) mutable {
    const auto [file, entry] = files.find(name, shape);
    at::Tensor out = read_entry(*file, name, *entry);
    done += static_cast<std::int64_t>(out.nbytes());
    if (progress) progress(done, total_bytes);
    return out;
  };
}

}  // namespace kvscope::engine
