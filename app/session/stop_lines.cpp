#include "app/session/stop_lines.h"

namespace kvscope::app {

std::vector<std::string> stop_texts(std::string_view lines) {
  std::vector<std::string> texts;
  std::string text;
  for (std::size_t i = 0; i <= lines.size(); ++i) {
    if (i == lines.size() || lines[i] == '\n') {
      if (!text.empty()) texts.push_back(text);
      text.clear();
    } else if (lines[i] == '\\' && i + 1 < lines.size() &&
               std::string_view("nt\\").find(lines[i + 1]) != std::string_view::npos) {
      const char c = lines[++i];
      text += c == 'n' ? '\n' : c == 't' ? '\t' : '\\';
    } else {
      text += lines[i];
    }
  }
  return texts;
}

std::string stop_lines(const std::vector<std::string>& texts) {
  std::string lines;
  for (const std::string& text : texts) {
    if (!lines.empty()) lines += '\n';
    for (const char c : text) {
      if (c == '\n' || c == '\t' || c == '\\') {
        lines += '\\';
        lines += c == '\n' ? 'n' : c == '\t' ? 't' : '\\';
      } else {
        lines += c;
      }
    }
  }
  return lines;
}

}  // namespace kvscope::app
