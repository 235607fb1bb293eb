#pragma once
// Runs and studies as netCDF-4, for xarray.open_dataset() and the tools of that world. What stands where:
// docs/how-to/export-data.md.

#include <filesystem>
#include <set>

#include "engine/core/study/table/export_run.h"
#include "engine/core/study/table/study_table.h"

namespace kvscope {

/// One variable each, over the dimensions layer, kv_head, token, query and contest:
///
///     lifetimes   evict_at eviction_verdict (0 right, 1 wrong, 255 not judged; 2, 3 by an oracle of 25 % of the run)
///     scores      score future_mass future_rms future_max value_norm output_mean output_rms output_max
///     contests    contest_q contest_layer ...
///     tokens      token_id token_logprob token_text, which are always there
///     metrics     density recall ..., as metric_list() has them; mean_read_mass and mean_best_read_mass, whose series
///                 have those names
///     output_error   group_damage read_mass best_read_mass layer_damage layer_output
///
/// A series that the run has not is left out; cells without a value are NaN, or 2147483646 in lifetimes. What the run is,
/// as attributes of the file. A run that has no tokens is refused. The same run gives the same bytes. The file is made in
/// memory. Throws Error as writable_target() does.
void export_netcdf(const RunRecord& run, const std::set<ExportPart>& parts, const std::filesystem::path& path,
                   bool replace = true);

/// Columns over `point`, arrays over their own axes; request and facts as attributes. A study without points is refused.
void export_netcdf(const StudyTable& study, const std::filesystem::path& path, bool replace = true);

}  // namespace kvscope
