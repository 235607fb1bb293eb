#include "app/studies/sweep/sweep_files.h"

#include "app/studies/sweep/sweep_table.h"
#include "app/support/usage.h"
#include "engine/core/support/error.h"
#include "engine/core/support/file.h"
#include "engine/core/support/json_file.h"
#include "engine/core/trace/study_file.h"

namespace kvscope::app {
namespace {

namespace fs = std::filesystem;

fs::path table_path(const fs::path& study) { return fs::path(study).replace_extension(".csv"); }

/// What a kill between the renames of the two files leaves: the table of these answers, to the byte, and no study. Any other
/// table is somebody's.
bool is_left_table(const fs::path& study, const StudyTable& table) {
  std::error_code error;
  const std::string text = study_csv(table);
  return !fs::exists(study, error) && fs::file_size(table_path(study), error) == text.size() && !error &&
         read_file(table_path(study), text.size()) == text;
}

}  // namespace

void check_sweep_targets(const SweepFiles& files, const SweepPlan& plan) {
  if (files.study.extension() != ".h5") usage_error("-o", in_quotes(files.study.string()), "a name that ends in .h5");
  std::vector<fs::path> inputs(plan.request.texts.begin(), plan.request.texts.end());
  inputs.push_back(files.recipe);
  if (!plan.request.filler.empty()) inputs.emplace_back(plan.request.filler);
  writable_target(files.study, files.overwrite, inputs, kOverwriteHint);
  std::error_code error;
  const bool may_be_left = !fs::exists(files.study, error) && fs::exists(journal_path(files.study), error);
  writable_target(table_path(files.study), files.overwrite || may_be_left, inputs, kOverwriteHint);
}

StudyTable sweep_table_of(const SweepPlan& plan, const SweepJournal& journal) {
  return sweep_table(plan, journal, kv_bytes_of_token(plan, journal));
}

void check_sweep_table(const SweepFiles& files, const SweepRun& run, const SweepJournal& journal) {
  std::error_code error;
  if (files.overwrite || !fs::exists(table_path(files.study), error)) return;
  const bool is_whole = run.shard.of == 1 && run.n_done(journal) == run.n_all();
  if (!is_whole || !is_left_table(files.study, sweep_table_of(run.plan, journal)))
    writable_target(table_path(files.study), false, {}, kOverwriteHint);
}

void write_sweep(const SweepFiles& files, const StudyTable& table) {
  const std::string bytes = study_bytes(table, files.study.string());
  AtomicFile csv(table_path(files.study), files.overwrite || is_left_table(files.study, table)),
      study(files.study, files.overwrite);
  csv.write(study_csv(table));
  study.write(bytes);
  AtomicFile* both[] = {&csv, &study};
  commit_together(both);
}

}  // namespace kvscope::app
