#include "app/catalog/study_source.h"

#include <algorithm>
#include <span>
#include <utility>

#include "engine/core/study/table/text_table.h"
#include "engine/core/study/table/training_log.h"
#include "engine/core/support/json_file.h"
#include "engine/core/support/refuse.h"
#include "engine/core/trace/study_file.h"

namespace kvscope::app {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMostBytes = std::size_t{256} << 20, kMostLogs = 64;

bool is_text(const fs::path& path) {
  const auto ending = path.extension();
  return ending == ".csv" || ending == ".json" || ending == ".jsonl";
}

/// "sp-kv-0.05" of .../sp-kv-0.05_loss.csv, the curve of a training; with its folder where another file has that name too.
std::vector<std::string> source_names(const std::vector<std::string>& paths) {
  std::vector<std::string> names;
  for (const std::string& path : paths) {
    names.push_back(fs::path(path).stem().string());
    if (names.back().ends_with("_loss")) names.back().resize(names.back().size() - 5);
  }
  std::vector<std::string> out = names;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string folder = fs::path(paths[i]).parent_path().filename().string();
    if (std::ranges::count(names, names[i]) > 1 && !folder.empty()) out[i] = folder + "/" + names[i];
  }
  return out;
}

bool is_log(const fs::path& path) { return path.filename().string().ends_with(kTrainingLogEnding); }

std::string text_of(const std::string& path) {
  std::string text = read_text_file(path, kMostBytes);
  if (is_log(path)) text.resize(text.rfind('\n') + 1);  // 0 where there is none
  return text;
}

/// Each folder's curves in its place.
std::vector<std::string> files_of(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code none;
    if (!fs::is_directory(path, none)) {
      files.push_back(path);
      continue;
    }
    const std::vector<std::string> logs = training_logs(path);
    if (logs.empty()) refuse(path, "", "a folder without a training curve", "NAME_loss.csv in it, from kvscope train");
    if (logs.size() > kMostLogs)
      refuse(path, "", std::to_string(logs.size()) + " training curves", "at most 64; give their files instead");
    files.insert(files.end(), logs.begin(), logs.end());
  }
  return files;
}

}  // namespace

std::vector<std::string> training_logs(const fs::path& folder) {
  std::vector<std::string> logs;
  std::error_code problem;
  fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, problem), end;
  for (; !problem && at != end; at.increment(problem)) {
    if (at.depth() >= 1) at.disable_recursion_pending();
    std::error_code none;
    if (is_log(at->path()) && at->is_regular_file(none)) logs.push_back(at->path().string());
  }
  std::ranges::sort(logs);
  return logs;
}

std::string study_version(const std::string& path) {
  std::error_code none;
  std::string version;
  for (const std::string& file : fs::is_directory(path, none) ? training_logs(path) : std::vector{path}) {
    std::error_code problem;
    const auto size = fs::file_size(file, problem);
    const auto time = fs::last_write_time(file, none).time_since_epoch().count();
    if (!problem) version += file + " " + std::to_string(size) + " " + std::to_string(time) + "\n";
  }
  return version;
}

StudyTable read_studies(const std::vector<std::string>& given, const std::string& program) {
  const std::vector<std::string> paths = files_of(given);
  std::vector<std::pair<std::string, StudyTable>> tables;
  const std::vector<std::string> names = source_names(paths);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const std::string& path = paths[i];
    StudyTable table = is_text(path) ? read_text_table(text_of(path), path) : read_study(program, path);
    add_policy_columns(table);
    tables.emplace_back(names[i], std::move(table));
  }
  return join_tables(tables);
}

std::optional<StudyTable> read_study_source(const std::string& path, const std::string& program) {
  std::error_code none;
  if (is_text(path) || fs::is_directory(path, none)) return read_studies({path}, program);
  std::optional<StudyTable> table = read_study_if_one(program, path);
  if (!table) return std::nullopt;
  add_policy_columns(*table);
  const std::pair<std::string, StudyTable> named(source_names({path})[0], std::move(*table));
  return join_tables(std::span(&named, 1));
}

}  // namespace kvscope::app
