#pragma once
// The files that a sweep leaves: the study and its table beside it.

#include <filesystem>

#include "app/studies/sweep/sweep_run.h"
#include "engine/core/study/table/study_table.h"

namespace kvscope::app {

struct SweepFiles {
  std::filesystem::path recipe, study;  // the table is STUDY with the ending .csv
  bool overwrite = false;
};

/// Refuses what is in the way of one of the files before anything is asked. Throws Error (usage).
void check_sweep_targets(const SweepFiles& files, const SweepPlan& plan);
/// The same of a table beside which there are answers, once these are read.
void check_sweep_table(const SweepFiles& files, const SweepRun& run, const SweepJournal& journal);
/// sweep_table() with the bytes that a token of this model takes.
StudyTable sweep_table_of(const SweepPlan& plan, const SweepJournal& journal);
/// Both files or none.
void write_sweep(const SweepFiles& files, const StudyTable& table);

}  // namespace kvscope::app
