#include "app/process/prompt_lines.h"

#include <fstream>

#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"

namespace kvscope::app {
namespace {

constexpr std::size_t kMaxLine = 16u << 20;  // as of a prompt that the window reads

bool is_empty(const std::string& line) { return line.find_first_not_of(" \t\r") == std::string::npos; }

/// The next line with something in it, as far as kMaxLine; false at the end.
bool next_line(std::istream& in, std::string& line) {
  line.clear();
  for (char c = 0; in.get(c);) {
    if (c != '\n') {
      if (line.size() <= kMaxLine) line.push_back(c);
    } else if (!is_empty(line)) {
      return true;
    } else {
      line.clear();
    }
  }
  return !is_empty(line);
}

std::string text_of(const nlohmann::json& object, const std::string& where) {
  if (!object.contains("messages")) return JsonObject(object, where).text("prompt");
  const nlohmann::json& messages = object["messages"];
  if (!messages.is_array() || messages.empty())
    throw Error({.file = where, .where = "messages", .found = "no message", .expected = "a list of {role, content}"});
  return JsonObject(messages.back(), where, "messages").text("content");
}

}  // namespace

bool has_prompt_lines(const std::filesystem::path& path) {
  std::error_code error;
  if (path.extension() != ".jsonl" || !std::filesystem::is_regular_file(path, error)) return false;
  std::ifstream in(path, std::ios::binary);
  std::string line;
  if (!next_line(in, line) || line.size() > kMaxLine) return false;
  const auto object = nlohmann::json::parse(line, nullptr, false);
  return object.is_object() && (object.contains("prompt") || object.contains("messages"));
}

PromptLines read_prompt_lines(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  PromptLines lines;
  for (std::string line; next_line(in, line); ++lines.n) {
    if (lines.n > 0) continue;
    const std::string where = path.string() + ": first line";
    lines.first = text_of(parse_json(line, where, {.max_bytes = kMaxLine}), where);
  }
  return lines;
}

}  // namespace kvscope::app
