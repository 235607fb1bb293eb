#include "app/catalog/study_source.h"

#include <algorithm>
#include <span>
#include <utility>

#include "engine/core/study/table/study_columns.h"
#include "engine/core/support/refuse.h"
#include "engine/core/trace/study_file.h"

namespace kvscope::app {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMostCurves = 64;

/// What eval, bench and train wrote before they wrote studies.
void refuse_text(const fs::path& path) {
  const auto ending = path.extension();
  if (ending != ".csv" && ending != ".json" && ending != ".jsonl") return;
  throw Error({.file = path.string(),
               .found = "a text file",
               .expected = "a study (.h5)",
               .hint = "kvscope eval and bench write one with -o FILE.h5, and train writes NAME_loss.h5"});
}

/// "sp-kv-0.05" of .../sp-kv-0.05_loss.h5, the curve of a training; with its folder where another file has that name too.
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

bool is_curve(const fs::path& path) { return path.filename().string().ends_with(kCurveEnding); }

/// Each folder's curves in its place.
std::vector<std::string> files_of(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code none;
    if (!fs::is_directory(path, none)) {
      files.push_back(path);
      continue;
    }
    const std::vector<std::string> curves = training_curves(path);
    if (curves.empty()) refuse(path, "", "a folder without a training curve", "NAME_loss.h5 in it, from kvscope train");
    if (curves.size() > kMostCurves)
      refuse(path, "", std::to_string(curves.size()) + " training curves", "at most 64; give their files instead");
    files.insert(files.end(), curves.begin(), curves.end());
  }
  return files;
}

}  // namespace

std::vector<std::string> training_curves(const fs::path& folder) {
  std::vector<std::string> curves;
  std::error_code problem;
  fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, problem), end;
  for (; !problem && at != end; at.increment(problem)) {
    if (at.depth() >= 1) at.disable_recursion_pending();
    std::error_code none;
    if (is_curve(at->path()) && at->is_regular_file(none)) curves.push_back(at->path().string());
  }
  std::ranges::sort(curves);
  return curves;
}

std::string study_version(const std::string& path) {
  std::error_code none;
  std::string version;
  for (const std::string& file : fs::is_directory(path, none) ? training_curves(path) : std::vector{path}) {
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
    refuse_text(path);
    StudyTable table = read_study(program, path);
    add_policy_columns(table);
    tables.emplace_back(names[i], std::move(table));
  }
  return join_studies(tables);
}

std::optional<StudyTable> read_study_source(const std::string& path, const std::string& program) {
  std::error_code none;
  refuse_text(path);
  if (fs::is_directory(path, none)) return read_studies({path}, program);
  std::optional<StudyTable> table = read_study_if_one(program, path);
  if (!table) return std::nullopt;
  add_policy_columns(*table);
  const std::pair<std::string, StudyTable> named(source_names({path})[0], std::move(*table));
  return join_studies(std::span(&named, 1));
}

}  // namespace kvscope::app
