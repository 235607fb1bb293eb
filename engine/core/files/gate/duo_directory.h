#pragma once
// DuoAttention's directory, the one per-KV-head format that several programs load (DuoAttention, kvpress, LServe).
//
//     full_attention_heads.tsv   n_layers rows of n_kv_heads tab-separated floats as numpy.savetxt writes them
//     config.json                {"sink_size": S, "recent_size": R}
//
// Loaders ask for a sparsity and keep the heads at or above that quantile. With (heads - n_selected) / heads a file of
// zeros and ones gives back exactly the chosen heads.

#include <filesystem>

#include "engine/core/study/head_selection.h"

namespace kvscope {

/// Throws Error if the folder has other files of those names and overwrite is false.
void export_duo(const HeadSelection& selection, int sink_size, int recent_size, const std::filesystem::path& folder,
                bool overwrite);
HeadSelection import_duo(const std::filesystem::path& folder);

}  // namespace kvscope
