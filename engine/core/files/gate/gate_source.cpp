#include "engine/core/files/gate/gate_source.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <span>
#include <utility>

#include "engine/core/files/gate/pt_reader.h"
#include "engine/core/files/weights/float_values.h"
#include "engine/core/files/weights/safetensors.h"
#include "engine/core/support/file.h"
#include "engine/core/support/refuse.h"

namespace kvscope {
namespace {

constexpr std::int64_t kMaxLayers = 4096;

/// Both formats are little-endian, and so is every machine that this is built for.
static_assert(std::endian::native == std::endian::little);

bool is_safetensors(const std::filesystem::path& path) {
  if (path.extension() == ".safetensors") return true;
  if (path.extension() == ".pt" || path.extension() == ".pth" || path.extension() == ".bin") return false;
  throw Error({.file = path.string(), .found = "neither a .safetensors nor a .pt file"});
}

/// Swaps the last two axes of each of `count` matrices [rows, columns] of `values`.
void transpose_matrices(std::span<float> values, std::int64_t rows, std::int64_t columns) {
  std::vector<float> matrix(static_cast<std::size_t>(rows * columns));
  for (auto part = values; !part.empty(); part = part.subspan(matrix.size())) {
    std::copy_n(part.begin(), matrix.size(), matrix.begin());
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) part[c * rows + r] = matrix[r * columns + c];
    }
  }
}

}  // namespace

GateSource::GateSource(const std::vector<std::filesystem::path>& files) {
  file_ = files.front().string();
  for (const auto& path : files) {
    if (is_safetensors(path)) {
      add_safetensors(path);
    } else {
      add_pt(path);
    }
  }
}

void GateSource::add_safetensors(const std::filesystem::path& path) {
  const auto file = std::make_shared<SafetensorsFile>(SafetensorsFile::open(path));
  for (const auto& [name, entry] : file->tensors()) {
    const auto read = [file, &name = name, &entry = entry] {
      if (entry.type == TensorType::other) {
        refuse(file->path().string(), name, "dtype " + entry.type_name + " is not supported", "F32, F16 or BF16");
      }
      std::string bytes(entry.end - entry.begin, '\0');
      file->read(entry, std::as_writable_bytes(std::span(bytes)));
      return to_floats(entry.type_name, bytes);
    };
    add(name, {entry.shape, path.string(), read});
  }
}

void GateSource::add_pt(const std::filesystem::path& path) {
  const auto file = std::make_shared<PtFile>(PtFile::open(path));
  warnings_.insert(warnings_.end(), file->warnings().begin(), file->warnings().end());
  for (const auto& [name, tensor] : file->tensors()) {
    add(name, {tensor.shape, path.string(), [file, &tensor = tensor] { return file->read(tensor); }});
  }
}

void GateSource::add(const std::string& name, Item item) {
  const std::string file = item.file;
  const auto [at, is_new] = items_.emplace(name, std::move(item));
  if (is_new) return;
  throw Error({.file = file, .where = name, .found = "also in " + at->second.file, .expected = "every tensor once"});
}

const GateSource::Item& GateSource::find(const std::string& name, const std::string& letters) const {
  const auto at = items_.find(name);
  if (at != items_.end()) return at->second;
  throw Error({.file = file_, .where = name, .found = "tensor missing", .expected = "one of shape [" + letters + "]"});
}

GateTensor read_tensor(const GateSource& source, const std::string& name, const std::string& letters, GateSizes& sizes,
                       const TensorLayout& layout) {
  const GateSource::Item& item = source.find(name, letters);
  std::vector<std::int64_t> shape = item.shape;
  const auto rank = static_cast<std::size_t>(std::count(letters.begin(), letters.end(), ' ') + 1);
  while (layout.trailing_ones && shape.size() > rank && shape.back() == 1) shape.pop_back();
  const bool transpose = layout.transpose && shape.size() > 1;
  if (transpose) std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
  sizes.check(letters, shape, item.file, name);
  GateTensor out{shape, item.read()};
  if (transpose) transpose_matrices(out.values, shape[shape.size() - 1], shape[shape.size() - 2]);
  return out;
}

GateTensor stack_layers(const GateSource& source, const std::function<std::string(std::int64_t)>& name,
                        const std::string& letters, const GateTensorSpec& spec, GateSizes& sizes,
                        const TensorLayout& layout) {
  GateTensor out;
  const std::int64_t layers = sizes.dims().n_layers;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const GateTensor one = read_tensor(source, name(layer), letters, sizes, layout);
    if (layer == 0) out.values.reserve(one.values.size() * static_cast<std::size_t>(layers));
    out.values.insert(out.values.end(), one.values.begin(), one.values.end());
  }
  out.shape = sizes.shape(spec.shape);
  return out;
}

std::int64_t count_layers(const GateSource& source, const std::string& before, const std::string& after) {
  std::int64_t layers = 0;
  for (const auto& [name, item] : source.items()) {
    if (name.size() <= before.size() + after.size() || !name.starts_with(before) || !name.ends_with(after)) continue;
    std::int64_t layer = 0;
    const char *begin = name.data() + before.size(), *end = name.data() + name.size() - after.size();
    const auto [at, error] = std::from_chars(begin, end, layer);
    const bool plain = error == std::errc() && at == end && (*begin != '0' || end == begin + 1);
    if (plain && layer >= 0 && layer < kMaxLayers) layers = std::max(layers, layer + 1);
  }
  return layers;
}

GateTensor zeros(const GateTensorSpec& spec, const GateSizes& sizes) {
  GateTensor out{.shape = sizes.shape(spec.shape)};
  std::size_t n = 1;
  for (const std::int64_t size : out.shape) n *= static_cast<std::size_t>(size);
  out.values.assign(n, 0.0f);
  return out;
}

}  // namespace kvscope
