#include "engine/core/support/json_file.h"

#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <list>

#include "engine/core/support/error.h"
#include "engine/core/support/file.h"
#include "engine/core/support/json_tree.h"
#include "engine/core/support/text.h"
#include "engine/core/support/utf8.h"

namespace kvscope {
namespace {

using nlohmann::json;

/// A value as it looks in the file, cut short; containers by their kind only (dumping recurses).
std::string show(const json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  return escape_for_terminal(value.dump(-1, ' ', false, json::error_handler_t::replace), 60);
}

template <class T>
std::string span_of(const T& min, const T& max, const std::string& what) {
  if constexpr (std::is_floating_point_v<T>) {
    return what + " from " + number_text(min, 15) + " to " + number_text(max, 15);
  } else {
    return what + " from " + std::to_string(min) + " to " + std::to_string(max);
  }
}

}  // namespace

json parse_json(std::string_view text, const std::string& file, const ReadLimits& limits) {
  JsonTree tree;
  stream_json(text, file, limits, tree);
  return tree.take();
}

std::string read_file(const std::filesystem::path& path, std::size_t max_bytes) {
  std::uint64_t size = 0;
  const FileHandle file = open_regular_file(path, size);
  const auto too_large = [&](std::uint64_t n) {
    throw Error({.file = path.string(),
                 .found = std::to_string(n) + " bytes",
                 .expected = "at most " + std::to_string(max_bytes)});
  };
  if (size > max_bytes) too_large(size);
  // The size is a hint: the file may grow, and /proc's files say 0.
  std::string bytes;
  bytes.resize(static_cast<std::size_t>(size) + 1);
  std::size_t used = 0;
  for (;;) {
    if (used == bytes.size()) bytes.resize(bytes.size() * 2);
    const ssize_t n = ::read(file.get(), bytes.data() + used, bytes.size() - used);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_errno(errno, path, "cannot be read");
    if (n == 0) break;
    used += static_cast<std::size_t>(n);
    if (used > max_bytes) too_large(used);
  }
  bytes.resize(used);
  return bytes;
}

std::string as_text(std::string bytes, const std::string& file) {
  if (bytes.starts_with("\xEF\xBB\xBF")) bytes.erase(0, 3);
  const auto fail = [&](std::size_t line, std::string found) {
    throw Error({.file = file + ":" + std::to_string(line),
                 .found = std::move(found),
                 .expected = "text in UTF-8",
                 .hint = "iconv -f UTF-16 -t UTF-8 converts UTF-16"});
  };
  if (bytes.starts_with("\xFF\xFE") || bytes.starts_with("\xFE\xFF")) fail(1, "UTF-16");
  std::size_t line = 1;
  for (std::size_t at = 0; at < bytes.size();) {
    const Utf8Char c = decode_utf8(bytes, at);
    if (!c.valid) fail(line, "byte " + std::to_string(at) + " is not UTF-8");
    if (c.code_point == 0) fail(line, "a NUL byte");
    line += c.code_point == '\n';
    at += c.length;
  }
  return bytes;
}

std::string read_text_file(const std::filesystem::path& path, std::size_t max_bytes) {
  return as_text(read_file(path, max_bytes), path.string());
}

json read_json(const std::filesystem::path& path, const ReadLimits& limits) {
  const std::string bytes = read_file(path, limits.max_bytes);
  if (const auto foreign = recognise_foreign(bytes)) {
    throw Error({.file = path.string(), .found = foreign->found + ", not JSON", .hint = foreign->hint});
  }
  return parse_json(bytes, path.string(), limits);
}

void write_file_atomic(const std::filesystem::path& path, std::string_view bytes, bool replace) {
  AtomicFile file(path, replace);
  file.write(bytes);
  file.commit();
}

static bool has_bytes(const FileToWrite& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file.path, error)) return false;
  return std::filesystem::file_size(file.path, error) == file.bytes.size() &&
         read_file(file.path, file.bytes.size()) == file.bytes;
}

void write_files_atomic(std::span<const FileToWrite> files, bool replace, std::span<const std::filesystem::path> inputs,
                        const std::string& hint) {
  std::vector<const FileToWrite*> different;
  for (const FileToWrite& file : files) {
    if (has_bytes(file)) continue;
    writable_target(file.path, replace, inputs, hint);
    different.push_back(&file);
  }
  std::list<AtomicFile> open;
  std::vector<AtomicFile*> all;
  for (const FileToWrite* file : different) {
    all.push_back(&open.emplace_back(file->path, replace));
    all.back()->write(file->bytes);
  }
  commit_together(all);
}

JsonObject::JsonObject(const json& object, std::string file, std::string prefix)
    : object_(object), file_(std::move(file)), prefix_(std::move(prefix)) {
  if (!object.is_object()) {
    throw Error({.file = file_, .where = prefix_, .found = show(object), .expected = "an object"});
  }
}

const json* JsonObject::value(std::string_view key) const {
  const auto it = object_.find(key);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

std::string JsonObject::place(std::string_view key) const {
  return prefix_.empty() ? std::string(key) : prefix_ + "." + std::string(key);
}

void JsonObject::fail(std::string_view key, std::string found, std::string expected) const {
  throw Error({.file = file_, .where = place(key), .found = std::move(found), .expected = std::move(expected)});
}

bool JsonObject::has(std::string_view key) const { return value(key) != nullptr; }

std::int64_t JsonObject::integer(std::string_view key, std::int64_t min, std::int64_t max) const {
  const json* v = value(key);
  const std::string expected = span_of(min, max, "an integer");
  if (!v) fail(key, object_.contains(key) ? "null" : "missing", expected);
  // get<int64_t>() would turn 2^64 - 1 into -1 and 2.7 into 2, silently.
  if (!v->is_number_integer()) fail(key, show(*v), expected);
  if (v->is_number_unsigned() && v->get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX)) {
    fail(key, show(*v), expected);
  }
  const auto n = v->get<std::int64_t>();
  if (n < min || n > max) fail(key, show(*v), expected);
  return n;
}

std::int64_t JsonObject::integer_or(std::string_view key, std::int64_t fallback, std::int64_t min,
                                    std::int64_t max) const {
  return has(key) ? integer(key, min, max) : fallback;
}

double JsonObject::number(std::string_view key, double min, double max) const {
  const json* v = value(key);
  const std::string expected = span_of(min, max, "a number");
  if (!v) fail(key, object_.contains(key) ? "null" : "missing", expected);
  if (!v->is_number()) fail(key, show(*v), expected);
  const auto x = v->get<double>();
  if (!std::isfinite(x) || x < min || x > max) fail(key, show(*v), expected);
  return x;
}

double JsonObject::number_or(std::string_view key, double fallback, double min, double max) const {
  return has(key) ? number(key, min, max) : fallback;
}

bool JsonObject::boolean_or(std::string_view key, bool fallback) const {
  const json* v = value(key);
  if (!v) return fallback;
  if (!v->is_boolean()) fail(key, show(*v), "true or false");
  return v->get<bool>();
}

std::string JsonObject::text(std::string_view key) const {
  const json* v = value(key);
  if (!v) fail(key, object_.contains(key) ? "null" : "missing", "text");
  if (!v->is_string()) fail(key, show(*v), "text");
  return v->get<std::string>();
}

std::vector<std::string> JsonObject::texts(std::string_view key) const {
  const json* v = value(key);
  if (!v) return {};
  if (v->is_string()) return {v->get<std::string>()};
  std::vector<std::string> list;
  for (const json& entry : *v) {
    if (!v->is_array() || !entry.is_string()) fail(key, show(*v), "a list of texts");
    list.push_back(entry.get<std::string>());
  }
  return list;
}

std::string JsonObject::text_or(std::string_view key, std::string fallback) const {
  return has(key) ? text(key) : std::move(fallback);
}

}  // namespace kvscope
