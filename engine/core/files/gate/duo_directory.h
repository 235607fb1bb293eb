#pragma once
// DuoAttention's directory, the one per-KV-head format that several programs load (DuoAttention, kvpress, LServe).
//
//     full_attention_heads.tsv   n_layers rows of n_kv_heads tab-separated floats as numpy.savetxt writes them
//     config.json                {"sink_size": S, "recent_size": R, "threshold": T, "full_heads": N, "sparsity": X}
//
// DuoAttention and kvpress read the two sizes, ask for a sparsity and keep the heads at or above that quantile: with X =
// (heads - N) / heads a file of zeros and ones gives back exactly the chosen heads. Here the heads at or above T (0.5
// where a file says none) are global, and N, if it is there, has to be their number.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/study/head_selection.h"

namespace kvscope {

/// What stands beside the heads' values.
struct DuoConfig {
  int sink_size = 0,
      recent_size = 0;     // tokens: first and newest ones that a local head keeps, the query's own included
  double threshold = 0.5;  // a head of at least this is global
  std::optional<int> full_heads = {};  // how many there are
};

/// Throws Error if the folder has other files of those names and overwrite is false.
void export_duo(const HeadSelection& selection, int sink_size, int recent_size, const std::filesystem::path& folder,
                bool overwrite);
HeadSelection import_duo(const std::filesystem::path& folder);
DuoConfig read_duo_config(const std::filesystem::path& folder);

/// What speaks against a selection by density, a sentence each: heads that only their order chose, and scores that
/// cannot be compared between heads.
std::vector<std::string> warnings_of(const HeadSelection& selection);

}  // namespace kvscope
