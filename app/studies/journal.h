#pragma once
// Answers as they come: a file of one JSON object a line, the first of which says what they are of. Each line is on its way to
// the disk before the next is asked for, so that whatever stops a command leaves what was done. One process writes it, under a
// lock; what is read is believed only if it could have been written here.

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/core/support/error.h"
#include "engine/core/support/file.h"
#include "engine/core/support/json_fields.h"

namespace kvscope::app {

class Journal {
 public:
  /// `number`: of the line, from 1. `place`: "FILE, line 7".
  using TakeLine = std::function<void(const nlohmann::json& line, int number, const std::string& place)>;
  /// Passes on each line that has its end, and returns the bytes that they take: a last line that was cut short is not there.
  /// What `take` refuses of a line after the first gets the hint to remove that line.
  static std::size_t read(const std::filesystem::path& path, const TakeLine& take);

  /// Whether a file without a whole line is the beginning of `first`, as a kill leaves it; anything else is somebody's text.
  static bool is_torn(const std::filesystem::path& path, const nlohmann::ordered_json& first);

  explicit Journal(std::filesystem::path path) : path_(std::move(path)) {}
  /// Removes a file in which nothing was written.
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// Makes the file or opens it. Throws Error (resource) if another process writes it.
  void open(const std::string& hint);
  bool is_open() const { return file_.get() >= 0; }
  /// What is behind `n_bytes` is gone, and lines are written from there on.
  void go_on_at(std::size_t n_bytes);
  void write(const nlohmann::ordered_json& line);

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  FileHandle file_;
};

/// Of what json_of_fields() wrote: every field is there, of its type, and no other. Throws Error. Only a field whose range
/// has is_later may be absent.
template <typename T>
T whole_fields_of_json(const nlohmann::json& json, const std::string& file) {
  const T value = fields_of_json<T>(json, file);
  std::size_t n = 0;
  visit_fields(value, [&]<typename Member, typename Range>(const char* name, const Member&, Range) {
    const auto found = json.find(name);
    if (requires { Range::is_later; } && found == json.end()) return;
    if (found == json.end() || (found->is_null() && !std::is_floating_point_v<Member>))
      throw Error({.file = file, .where = name, .found = "missing", .expected = "all fields"});
    ++n;
  });
  if (n == json.size()) return value;
  for (const auto& [key, unused] : json.items()) {
    bool known = false;
    visit_fields(value, [&](const char* name, const auto&, auto) { known = known || key == name; });
    if (!known) throw Error({.file = file, .found = "a field " + in_quotes(key), .expected = "no such field"});
  }
  return value;
}

}  // namespace kvscope::app
