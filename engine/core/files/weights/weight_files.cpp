#include <algorithm>
#include <cstring>

#include "engine/core/files/weights/mxfp4.h"
#include "engine/core/files/weights/safetensors.h"
#include "engine/core/files/weights/text_part.h"
#include "engine/core/support/hash.h"
#include "engine/core/support/json_file.h"
#include "engine/core/support/refuse.h"

namespace kvscope {
namespace {

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

using WeightMap = std::map<std::string, std::string>;  // tensor -> shard

/// A shard is a file inside the folder: a name that leads elsewhere could read, and by its error message show, any file
/// of the machine.
void check_shard_name(const std::string& shard, const std::string& tensor, const std::string& index) {
  const std::filesystem::path path(shard);
  bool escapes = shard.empty() || path.is_absolute() || shard.find('\0') != shard.npos;
  for (const auto& part : path) escapes = escapes || part == "..";
  const std::string where = "weight_map." + escape_for_terminal(tensor);
  if (escapes) refuse(index, where, in_quotes(shard) + " points outside the model's folder", "a file inside it");
  // No file system has one, and the error of opening it would show the whole name.
  if (shard.size() > 255)
    refuse(index, where, in_quotes(shard) + ", a name of " + std::to_string(shard.size()) + " bytes", "at most 255");
}

WeightMap read_index(const std::filesystem::path& path) {
  const nlohmann::json index = read_json(path, {.max_bytes = 16u << 20});
  const std::string file = path.string();
  const JsonObject top(index, file);
  if (!top.has("weight_map"))
    throw Error({.file = file, .where = "weight_map", .found = "missing", .expected = "an object"});
  const nlohmann::json& map = index["weight_map"];
  const JsonObject entries(map, file, "weight_map");
  WeightMap out;
  for (const auto& [tensor, value] : map.items()) {
    std::string shard = entries.text(tensor);
    check_shard_name(shard, tensor, file);
    out.emplace(tensor, std::move(shard));
  }
  if (out.empty()) throw Error({.file = file, .where = "weight_map", .found = "empty", .expected = "tensors"});
  return out;
}

[[noreturn]] void fail_no_weights(const std::filesystem::path& folder) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    const bool exists = std::filesystem::exists(folder, error);
    refuse(folder.string(), "", exists ? "not a folder" : "no such folder",
           "a folder with config.json and safetensors weights");
  }
  std::string hint;
  for (const auto& item : std::filesystem::directory_iterator(folder, error)) {
    const std::string extension = item.path().extension();
    if (extension == ".bin" || extension == ".pt" || extension == ".pth" || extension == ".gguf") {
      hint = "there is " + item.path().filename().string() + "; convert it to safetensors";
    }
  }
  refuse(folder.string(), "", "no weights", std::string(kSingle) + " or " + kIndex, std::move(hint));
}

std::string show_shape(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size() && i < 8; ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + (shape.size() > 8 ? ", ...]" : "]");
}

/// Byte by byte, up to the first that differs.
bool same_tensor(const SafetensorsFile& file_a, const TensorEntry& a, const SafetensorsFile& file_b,
                 const TensorEntry& b) {
  if (a.type_name != b.type_name || a.shape != b.shape) return false;
  constexpr std::uint64_t kPart = 1 << 20;
  std::vector<std::byte> part_a(kPart), part_b(kPart);
  for (std::uint64_t at = 0, size = a.end - a.begin; at < size; at += kPart) {
    const auto n = static_cast<std::size_t>(std::min(kPart, size - at));
    file_a.read_part(a, at, std::span(part_a).first(n));
    file_b.read_part(b, at, std::span(part_b).first(n));
    if (std::memcmp(part_a.data(), part_b.data(), n) != 0) return false;
  }
  return true;
}

}  // namespace

WeightFiles WeightFiles::open(const std::filesystem::path& folder) {
  WeightFiles weights;
  weights.folder_ = folder;
  const auto there = [&](const char* name) {
    // A dangling link is there too: its own message is better than "no weights".
    std::error_code error;
    return std::filesystem::symlink_status(folder / name, error).type() > std::filesystem::file_type::not_found;
  };
  if (there(kSingle)) {
    weights.files_.push_back(SafetensorsFile::open(folder / kSingle));
    for (const auto& [name, entry] : weights.files_[0].tensors()) weights.where_.emplace(name, 0);
    weights.add_aliases();
    return weights;
  }
  if (!there(kIndex)) fail_no_weights(folder);
  const WeightMap map = read_index(folder / kIndex);
  std::map<std::string, std::size_t> shards;
  for (const auto& [tensor, shard] : map) {
    if (!shards.emplace(shard, weights.files_.size()).second) continue;
    weights.files_.push_back(SafetensorsFile::open(folder / shard));
  }
  // What is there counts, as for transformers, not where the index says that it is: an index that names a tensor too
  // many or leaves one out harms nobody, and a tensor that the model needs and no shard has is missed by name.
  for (std::size_t i = 0; i < weights.files_.size(); ++i) {
    for (const auto& [name, entry] : weights.files_[i].tensors()) {
      const auto [place, is_new] = weights.where_.emplace(name, i);
      if (is_new) continue;
      const SafetensorsFile &first = weights.files_[place->second], &second = weights.files_[i];
      if (same_tensor(first, first.tensors().at(name), second, entry)) continue;
      refuse(second.path().string(), name, "another tensor of that name is in " + first.path().filename().string(),
             "every tensor once");
    }
  }
  weights.add_aliases();
  return weights;
}

void WeightFiles::add_aliases() {
  for (const auto& [stored, file] : where_) {
    const std::optional<std::string> alone = name_in_text_part(stored);
    if (alone && !where_.contains(*alone)) aliases_.emplace(*alone, stored);
  }
}

const std::string& WeightFiles::stored_name(const std::string& name) const {
  const auto alias = aliases_.find(name);
  return alias == aliases_.end() ? name : alias->second;
}

bool WeightFiles::has(const std::string& name) const { return where_.contains(stored_name(name)); }

bool WeightFiles::same(const std::string& a, const std::string& b) const {
  const std::string &stored_a = stored_name(a), &stored_b = stored_name(b);
  const SafetensorsFile &file_a = files_[where_.at(stored_a)], &file_b = files_[where_.at(stored_b)];
  return same_tensor(file_a, file_a.tensors().at(stored_a), file_b, file_b.tensors().at(stored_b));
}

TensorPlace WeightFiles::locate(const std::string& name, const std::vector<std::int64_t>& shape,
                                bool (*takes)(const TensorEntry&), const char* types) const {
  const std::string& stored = stored_name(name);
  const auto it = where_.find(stored);
  if (it == where_.end()) {
    refuse(files_.size() == 1 ? files_[0].path().string() : (folder_ / kIndex).string(), name, "tensor missing",
           "shape " + show_shape(shape));
  }
  const SafetensorsFile& file = files_[it->second];
  const TensorEntry& entry = file.tensors().at(stored);
  const auto fail = [&](std::string found, std::string expected, std::string hint = "") {
    refuse(file.path().string(), stored, std::move(found), std::move(expected), std::move(hint));
  };
  if (entry.shape != shape) {
    fail("shape " + show_shape(entry.shape), show_shape(shape), "weights and config.json belong to different models");
  }
  if (!takes(entry)) fail("dtype " + entry.type_name + " is not supported", types);
  return {&file, &entry};
}

std::pair<const SafetensorsFile*, const TensorEntry*> WeightFiles::find(const std::string& name,
                                                                        const std::vector<std::int64_t>& shape) const {
  const auto is_float = [](const TensorEntry& entry) { return entry.type != TensorType::other; };
  const TensorPlace place = locate(name, shape, is_float, "F32, F16 or BF16");
  return {place.file, place.entry};
}

std::pair<TensorPlace, TensorPlace> WeightFiles::find_packed(const std::string& blocks,
                                                             const std::vector<std::int64_t>& shape) const {
  const std::string scales = blocks.substr(0, blocks.rfind(kPackedSuffix)) + kScalesSuffix;
  if (shape.back() % kPackedNumbers != 0)
    refuse(folder_.string(), blocks, "rows of " + std::to_string(shape.back()) + " numbers",
           "a multiple of " + std::to_string(kPackedNumbers));
  std::vector<std::int64_t> of_scales = shape;
  of_scales.back() /= kPackedNumbers;
  std::vector<std::int64_t> of_blocks = of_scales;
  of_blocks.push_back(kPackedBytes);
  const auto is_bytes = [](const TensorEntry& entry) { return entry.type_name == "U8"; };
  return {locate(blocks, of_blocks, is_bytes, "U8"), locate(scales, of_scales, is_bytes, "U8")};
}

std::string WeightFiles::hash() const {
  Fnv1a hash;
  for (const SafetensorsFile& file : files_) {
    hash.add(file.header());
    for (int i = 0; i < 8; ++i) hash.add_word(static_cast<unsigned char>(file.file_size() >> (8 * i)));
  }
  return hash.hex();
}

}  // namespace kvscope
