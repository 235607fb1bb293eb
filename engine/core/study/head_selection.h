#pragma once
// Which heads stay global in a hybrid: chosen from density, exported for others to load.

#include <filesystem>
#include <string>
#include <vector>

#include "engine/core/study/retention_metrics.h"

namespace kvscope {

struct HeadSelection {
  int n_layers = 0, n_kv_heads = 0;
  std::vector<float> full;  // [n_layers][n_kv_heads] 1 for a global (full-attention) head, 0 for a local one
  double coverage = 0;      // retained long-range entries in the chosen heads / all retained long-range entries
  int n_selected() const;
};

/// Strategy D of SP-KV section 4: the round(share * heads) densest heads, ties to the lower layer, then the lower head.
/// `retained` counts long-range entries per head over all runs and decides both density order and coverage.
HeadSelection densest_heads(const std::vector<const RunRecord*>& runs, double share);

/// DuoAttention's directory: full_attention_heads.tsv ([n_layers] rows x [n_kv_heads] tab-separated floats) and
/// config.json with sink_size and recent_size. Loads in DuoAttention and kvpress. Throws Error if the folder has other
/// files of those names and overwrite is false.
void export_duo(const HeadSelection& selection, int sink_size, int recent_size, const std::filesystem::path& folder,
                bool overwrite);
HeadSelection import_duo(const std::filesystem::path& folder);

}  // namespace kvscope
