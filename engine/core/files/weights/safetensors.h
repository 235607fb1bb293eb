#pragma once
// Strict reader of safetensors, and a writer.

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace kvscope {

class AtomicFile;

/// `other`: a type of the format that this program does not compute with; its bytes can still be read.
enum class TensorType : std::uint8_t { f32, f16, bf16, other };

struct TensorEntry {
  TensorType type;
  std::string type_name;  // "BF16"
  std::vector<std::int64_t> shape;
  std::uint64_t begin, end;  // bytes from the start of the file
  std::int64_t n_elements() const;
};

/// One file, its header checked by the reference reader's rules (no hole, no overlap, no trailing byte, sizes agree).
/// Stricter than the reference: a name or a key twice, an empty name, integers past 2^53, more than 32 dimensions,
/// nesting and numbers of tensors that no model has are refused. Throws Error naming file, tensor and reason.
class SafetensorsFile {
 public:
  static SafetensorsFile open(const std::filesystem::path& path);
  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&&) noexcept;
  const std::filesystem::path& path() const;
  const std::map<std::string, TensorEntry>& tensors() const;
  const std::string& header() const;  // its bytes, for hashing
  const std::map<std::string, std::string>& metadata() const;
  std::uint64_t file_size() const;
  /// Reads the tensor's bytes with pread (a mapping would die of SIGBUS when the file is cut). out.size() must be
  /// end - begin. Safe from several threads.
  void read(const TensorEntry& entry, std::span<std::byte> out) const;
  /// The same for out.size() bytes from byte `offset` of the tensor on.
  void read_part(const TensorEntry& entry, std::uint64_t offset, std::span<std::byte> out) const;

 private:
  SafetensorsFile() = default;
  std::filesystem::path path_;
  int fd_ = -1;
  std::map<std::string, TensorEntry> tensors_;
  std::map<std::string, std::string> metadata_;
  std::string header_;
  std::uint64_t size_ = 0;
};

/// A tensor and the file that has it.
struct TensorPlace {
  const SafetensorsFile* file;
  const TensorEntry* entry;
};

/// A model's weights: model.safetensors, or the shards that model.safetensors.index.json names (inside the folder;
/// links may lead anywhere, as they do in a download cache).
class WeightFiles {
 public:
  static WeightFiles open(const std::filesystem::path& folder);
  /// The file and entry of a tensor; throws Error naming the tensor if absent, not of `shape`, or not F32, F16 or BF16.
  std::pair<const SafetensorsFile*, const TensorEntry*> find(const std::string& name,
                                                             const std::vector<std::int64_t>& shape) const;
  /// Blocks and scales of packed numbers of `shape` (mxfp4.h); `blocks` is the name of the first. Throws Error likewise.
  std::pair<TensorPlace, TensorPlace> find_packed(const std::string& blocks,
                                                  const std::vector<std::int64_t>& shape) const;
  bool has(const std::string& name) const;
  /// Whether two tensors that are there have one type, one shape and the same bytes; reads them.
  bool same(const std::string& a, const std::string& b) const;
  std::string hash() const;  // hex FNV-1a 64 over headers and sizes

 private:
  void add_aliases();
  /// As the files have it.
  const std::string& stored_name(const std::string& name) const;
  /// Throws Error if there is no such tensor, it has another shape, or `takes` does not take it; `types` are those that it takes.
  TensorPlace locate(const std::string& name, const std::vector<std::int64_t>& shape, bool (*takes)(const TensorEntry&),
                     const char* types) const;

  std::filesystem::path folder_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::size_t> where_;
  std::map<std::string, std::string> aliases_;  // a tensor's name in a text part alone -> in these files (text_part.h)
};

struct TensorToWrite {
  std::string name;
  TensorType type;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};
/// Writes atomically, names sorted: the same tensors give the same bytes.
void write_safetensors(const std::filesystem::path& path, const std::vector<TensorToWrite>& tensors,
                       const std::map<std::string, std::string>& metadata = {});
/// The same into a file that is committed later, with others.
void write_safetensors(AtomicFile& file, const std::vector<TensorToWrite>& tensors,
                       const std::map<std::string, std::string>& metadata);

}  // namespace kvscope
