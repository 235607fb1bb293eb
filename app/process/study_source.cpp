#include "app/process/study_source.h"

#include <algorithm>
#include <span>
#include <utility>

#include "engine/core/study/text_table.h"
#include "engine/core/support/json_file.h"
#include "engine/core/trace/study_file.h"

namespace kvscope::app {
namespace {

constexpr std::size_t kMostBytes = std::size_t{256} << 20;

bool is_text(const std::filesystem::path& path) {
  const auto ending = path.extension();
  return ending == ".csv" || ending == ".json" || ending == ".jsonl";
}

/// "sp-kv-0.05" of .../sp-kv-0.05_loss.csv, the curve of a training; with its folder where another file has that name too.
std::vector<std::string> source_names(const std::vector<std::string>& paths) {
  std::vector<std::string> names;
  for (const std::string& path : paths) {
    names.push_back(std::filesystem::path(path).stem().string());
    if (names.back().ends_with("_loss")) names.back().resize(names.back().size() - 5);
  }
  std::vector<std::string> out = names;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string folder = std::filesystem::path(paths[i]).parent_path().filename().string();
    if (std::ranges::count(names, names[i]) > 1 && !folder.empty()) out[i] = folder + "/" + names[i];
  }
  return out;
}

}  // namespace

StudyTable read_studies(const std::vector<std::string>& paths, const std::string& program) {
  std::vector<std::pair<std::string, StudyTable>> tables;
  const std::vector<std::string> names = source_names(paths);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const std::string& path = paths[i];
    StudyTable table =
        is_text(path) ? read_text_table(read_text_file(path, kMostBytes), path) : read_study(program, path);
    add_policy_columns(table);
    tables.emplace_back(names[i], std::move(table));
  }
  return join_tables(tables);
}

std::optional<StudyTable> read_study_source(const std::string& path, const std::string& program) {
  if (is_text(path)) return read_studies({path}, program);
  std::optional<StudyTable> table = read_study_if_one(program, path);
  if (!table) return std::nullopt;
  add_policy_columns(*table);
  const std::pair<std::string, StudyTable> named(source_names({path})[0], std::move(*table));
  return join_tables(std::span(&named, 1));
}

}  // namespace kvscope::app
