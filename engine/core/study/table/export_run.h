#pragma once
// A run as a table, for programs that are not ours. As arrays: engine/core/trace/export_netcdf.h.

#include <filesystem>
#include <set>
#include <string>

#include "engine/core/record/run_record.h"
#include "engine/core/study/measure/retention_metrics.h"

namespace kvscope {

enum class ExportPart { lifetimes, scores, contests, tokens, metrics, output_error };

/// "lifetimes,scores": one or more names. Throws Error (usage) listing what exists.
std::set<ExportPart> parse_export_parts(const std::string& names);

/// One table, its first line the names of its columns:
///
///     lifetimes and scores   layer,kv_head,token,evict_at,score,future_mass,eviction_verdict
///                            (lifetimes alone: without score and future_mass; scores alone: without the lifetimes)
///     either or both, tokens the same with `text` behind `token`
///     contests               q,layer,kv_head,newcomer,boundary,newcomer_effective,boundary_effective,evicted
///     tokens                 token,id,logprob,piece
///     metrics                layer,kv_head,density,evict_ratio, ...  each metric of metric_list() at the last position
///     output_error           layer,kv_head,query,group_damage,layer_damage,layer_output,read_mass,best_read_mass
///
/// Texts are UTF-8: half a character, which a token may be, is U+FFFD. A cell without a value is empty; lifetimes are as in traces (2147483647 kept, 2147483646 undecided). Throws Error
/// (usage) for parts that make no one table, and without `replace` for a file that exists.
void export_csv(const RunRecord& run, const std::set<ExportPart>& parts, const std::filesystem::path& path,
                bool replace = true);

}  // namespace kvscope
