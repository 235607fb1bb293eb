#include "app/catalog/prompts.h"

#include <algorithm>
#include <string_view>

#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"

namespace kvscope::app {
namespace {

constexpr std::size_t kMaxFileBytes = 1u << 30;

std::vector<Prompt> prompts_of_folder(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_regular_file() && entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  std::vector<Prompt> prompts;
  for (const auto& file : files) prompts.push_back({read_text_file(file, kMaxPromptBytes), {}, file.string()});
  return prompts;
}

}  // namespace

std::vector<Prompt> read_prompts(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) throw Error({.file = path.string(), .found = "no such file"});
  std::vector<Prompt> prompts;
  if (std::filesystem::is_directory(path, error)) {
    prompts = prompts_of_folder(path);
  } else {
    const bool jsonl = path.extension() == ".jsonl";
    const std::string text = jsonl ? read_file(path, kMaxFileBytes) : read_text_file(path, kMaxFileBytes);
    std::string_view rest = text;
    for (int number = 1; !rest.empty(); ++number) {
      const std::size_t end = rest.find('\n');
      std::string_view line = rest.substr(0, end);
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
      const std::string where = path.string() + ":" + std::to_string(number);
      prompts.push_back(jsonl ? prompt_of_line(line, where) : Prompt{std::string(line), {}, where});
    }
  }
  if (prompts.empty()) throw Error({.file = path.string(), .found = "no prompt in it"});
  return prompts;
}

}  // namespace kvscope::app
