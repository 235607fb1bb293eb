#pragma once
// The ZIP archives that torch.save writes: stored entries only, everything from the central directory, nothing trusted.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "engine/core/support/file.h"

namespace kvscope {

struct ZipEntry {
  std::uint64_t header = 0;           // local header, bytes from the start of the file
  std::uint64_t begin = 0, size = 0;  // data
  std::uint32_t crc = 0;
};

/// One archive, its directory checked. Refused, each with its reason: compressed, encrypted, overlapping or repeated
/// entries, names that lead out of the archive's one root folder, entries past the end, directory records that
/// disagree, a comment or bytes behind the archive, more than 4096 entries.
///
/// torch.save writes zip64 end records even for a kilobyte, local headers with CRC and sizes 0 (flags 0x0808: the
/// numbers follow the data) and pads data to 64 bytes by an extra field of id 0x4246; all of that is legal here.
class ZipFile {
 public:
  static ZipFile open(const std::filesystem::path& path);
  const std::filesystem::path& path() const { return path_; }
  /// By their names without the root folder, which is `root`.
  const std::map<std::string, ZipEntry>& entries() const { return entries_; }
  const std::string& root() const { return root_; }
  /// The bytes of an entry, its CRC-32 compared unless that is 0, as writers leave it that compute none.
  std::string read(const std::string& name) const;
  /// Whether every entry with data has a CRC-32.
  bool has_checksums() const;

 private:
  ZipFile() = default;
  std::filesystem::path path_;
  FileHandle file_;
  std::string root_;
  std::map<std::string, ZipEntry> entries_;
};

}  // namespace kvscope
