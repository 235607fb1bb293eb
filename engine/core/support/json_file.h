#pragma once
// JSON from files that strangers made: capped, strict, checked.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/support/json_stream.h"

namespace kvscope {

/// Parses; duplicate keys, too deep nesting, too many bytes, anything malformed are an Error with line and column.
/// `file` names the source in messages.
nlohmann::json parse_json(std::string_view text, const std::string& file, const ReadLimits& limits = {});
/// Reads a regular file (not a device, FIFO or directory) and parses it. Recognises Git LFS pointers and HTML pages.
nlohmann::json read_json(const std::filesystem::path& path, const ReadLimits& limits = {});
/// The bytes of a regular file of at most max_bytes.
std::string read_file(const std::filesystem::path& path, std::size_t max_bytes);
/// Bytes that must be text: UTF-8 without a NUL; a byte order mark is taken off. Throws Error that names file and line.
std::string as_text(std::string bytes, const std::string& file);
/// as_text() of read_file().
std::string read_text_file(const std::filesystem::path& path, std::size_t max_bytes);
/// Writes to a temporary name in the same folder, syncs, renames: the old file or the new one, never half. Without
/// `replace` an existing file is an Error.
void write_file_atomic(const std::filesystem::path& path, std::string_view bytes, bool replace = true);

struct FileToWrite {
  std::filesystem::path path;
  std::string bytes;
};
/// Files that belong together: none is there before all are on disk, and none if one cannot be. Refuses as
/// writable_target() does, before anything is written; a file that has these bytes already is left as it is.
void write_files_atomic(std::span<const FileToWrite> files, bool replace,
                        std::span<const std::filesystem::path> inputs = {},
                        const std::string& hint = "choose another name or overwrite it");

/// Checked getters over one object of one file: type and range or an Error naming key, found and expected.
class JsonObject {
 public:
  /// `object` must outlive this and be an object (Error otherwise); `prefix` is its place, e.g. "rope_parameters".
  JsonObject(const nlohmann::json& object, std::string file, std::string prefix = "");
  bool has(std::string_view key) const;  // present and not null
  std::int64_t integer(std::string_view key, std::int64_t min, std::int64_t max) const;
  std::int64_t integer_or(std::string_view key, std::int64_t fallback, std::int64_t min, std::int64_t max) const;
  double number(std::string_view key, double min, double max) const;  // finite
  double number_or(std::string_view key, double fallback, double min, double max) const;
  bool boolean_or(std::string_view key, bool fallback) const;
  std::string text(std::string_view key) const;
  std::string text_or(std::string_view key, std::string fallback) const;
  std::vector<std::string> texts(std::string_view key) const;  // a list, or one text; none if absent
  const nlohmann::json& raw() const { return object_; }
  const std::string& file() const { return file_; }

 private:
  const nlohmann::json& object_;
  const nlohmann::json* value(std::string_view key) const;  // null if absent or null
  std::string place(std::string_view key) const;
  [[noreturn]] void fail(std::string_view key, std::string found, std::string expected) const;
  std::string file_, prefix_;
};

}  // namespace kvscope
