#include "app/catalog/prompt_lines.h"

#include <fstream>

#include "app/support/usage.h"
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

std::vector<ChatMessage> messages_of(const nlohmann::json& list, const std::string& file) {
  if (!list.is_array() || list.empty()) {
    throw Error({.file = file, .where = "messages", .found = "no message", .expected = "a list of {role, content}"});
  }
  std::vector<ChatMessage> messages;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonObject message(list[i], file, "messages[" + std::to_string(i) + "]");
    messages.push_back({message.text("role"), message.text("content")});
  }
  return messages;
}

}  // namespace

std::vector<ChatMessage> with_system(const std::optional<std::string>& system, std::vector<ChatMessage> messages) {
  if (!system) return messages;
  if (!messages.empty() && messages.front().role == "system")
    usage_error("--system", "the conversation has a system message", "one of them");
  messages.insert(messages.begin(), {"system", *system});
  return messages;
}

std::vector<ChatMessage> read_messages(std::string_view json, const std::string& file) {
  return messages_of(parse_json(json, file, {.max_bytes = kMaxPromptBytes}), file);
}

Prompt prompt_of_line(std::string_view line, const std::string& where, std::size_t max_bytes) {
  const auto object = parse_json(line, where, {.max_bytes = max_bytes});
  if (!object.is_object()) {
    throw Error({.file = where, .found = object.type_name(), .expected = "an object with \"prompt\" or \"messages\""});
  }
  if (!object.contains("messages")) return {JsonObject(object, where).text("prompt"), {}, where};
  std::vector<ChatMessage> messages = messages_of(object["messages"], where);
  std::string text = messages.back().content;
  return {std::move(text), std::move(messages), where};
}

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
    lines.first = prompt_of_line(line, where, kMaxLine).text;
  }
  return lines;
}

}  // namespace kvscope::app
