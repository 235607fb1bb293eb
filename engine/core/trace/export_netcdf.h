#pragma once
// Runs and studies as netCDF-4, for xarray.open_dataset() and the tools of that world. What stands where:
// docs/how-to/export-data.md.

#include <filesystem>
#include <set>

#include "engine/core/study/table/export_run.h"
#include "engine/core/study/table/study_table.h"

namespace kvscope {

/// The parts of export_npz() as variables over the dimensions layer, kv_head, token, query and contest; what the run is,
/// as attributes of the file. A run that has no tokens is refused. The same run gives the same bytes. The file is made in
/// memory. Throws Error as writable_target() does.
void export_netcdf(const RunRecord& run, const std::set<ExportPart>& parts, const std::filesystem::path& path,
                   bool replace = true);

/// Columns over `point`, arrays over their own axes; request and facts as attributes. A study without points is refused.
void export_netcdf(const StudyTable& study, const std::filesystem::path& path, bool replace = true);

}  // namespace kvscope
