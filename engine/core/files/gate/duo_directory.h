#pragma once
// DuoAttention's directory, a value for each KV head.
//
//     full_attention_heads.tsv   n_layers rows of n_kv_heads tab-separated floats as numpy.savetxt writes them
//     config.json                {"sink_size": S, "recent_size": R, "deploy_sink_size": S, "deploy_recent_size": R,
//                                 "threshold": T, "full_heads": N, "sparsity": X}
//
// We write zeros and ones. Who reads it, and how it comes to heads (docs/reference/head-files.md has the rules):
//
//     DuoAttention, LServe   sizes, then the heads at or above the X-quantile, which the caller asks for: with X = (heads -
//                            N) / heads the chosen ones exactly. They read X from no file.
//     HeadKV-SGLang          the deploy sizes first; the heads of at least T. Asked for a ratio it takes so many of each
//                            layer, which are others wherever layers are uneven (duo_losses()).
//     kvpress                round(heads * X) lowest are local, but its press knows six models' directories by URL and
//                            reads none from a disk without a subclass.
//
// Here the heads at or above T (0.5 where a file says none) are global, and N, if it is there, has to be their number.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/study/heads/head_selection.h"

namespace kvscope {

/// What stands beside the heads' values.
struct DuoConfig {
  /// Tokens: first and newest ones that a local head keeps, the query's own included. Trained directories may say other
  /// sizes to deploy with than they were trained with; those to deploy with go first.
  int sink_size = 0, recent_size = 0;
  double threshold = 0.5;              // a head of at least this is global
  std::optional<int> full_heads = {};  // how many there are
};

/// export_heads() of this format alone. Throws Error if the folder has other files of those names and overwrite is false.
void export_duo(const HeadSelection& selection, int sink_size, int recent_size, const std::filesystem::path& folder,
                bool overwrite);
/// `full` has the file's values.
HeadSelection import_duo(const std::filesystem::path& folder);
DuoConfig read_duo_config(const std::filesystem::path& folder);
/// Whether what stands there can be read as one of the two files.
bool is_head_file(const std::filesystem::path& path);

/// What speaks against a selection by density, a sentence each: heads that only their order chose, and scores that
/// cannot be compared between heads. `equal` is what tied heads have in common.
std::vector<std::string> warnings_of(const HeadSelection& selection,
                                     const std::string& equal = "keep the same number of tokens");

}  // namespace kvscope
