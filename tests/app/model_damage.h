#pragma once
// Hands for breaking model folders: files rewritten in part, and things that are no files.

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace kvscope::test {

using Damage = std::function<void(const std::filesystem::path& folder)>;

/// Little-endian, as safetensors has its header length.
std::string le64(std::uint64_t n);
void write_bytes(const std::filesystem::path& path, std::string_view bytes);
/// Deletes whatever has this name.
void clear(const std::filesystem::path& path);

/// The damage that puts these bytes, or this thing, in the place of `file`.
Damage put(std::string file, std::string bytes);
Damage put_directory(std::string file);
Damage put_fifo(std::string file);
Damage put_link(std::string file, std::string target);
Damage remove_file(std::string file);
/// `count` bytes less (negative) or zero bytes more at the end.
Damage resize(std::string file, std::int64_t count);
/// Rewrites all bytes of a file.
Damage edit_bytes(std::string file, std::function<std::string(std::string)> edit);
/// Rewrites a JSON file.
Damage edit_json(std::string file, std::function<void(nlohmann::json&)> edit);
/// The same at one JSON pointer.
Damage set_json(std::string file, std::string pointer, nlohmann::json value);
/// Rewrites the header text of model.safetensors, its length with it; the data stay.
Damage edit_header(std::function<std::string(std::string)> edit);
/// The same as JSON, of which the entry of `tensor` is handed over.
Damage edit_entry(std::string tensor, std::function<void(nlohmann::json&)> edit);
/// The same with `text` put before the last brace.
Damage add_to_header(std::string text);
/// Writes another header length.
Damage set_header_length(std::function<std::uint64_t(std::uint64_t file_size)> length);

/// One, then the other.
Damage after(Damage first, Damage second);

}  // namespace kvscope::test
