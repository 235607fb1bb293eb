#pragma once
// Which heads stay global, in one structure for all the files that say it (head_formats.h): what was chosen, what a local
// head keeps, and what the choice was made from.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/study/heads/head_selection.h"
#include "engine/core/study/heads/head_shape.h"

namespace kvscope {

/// What a choice was made from.
struct HeadOrigin {
  std::string model = {}, weights_hash = {};  // ModelInfo's
  std::string signal = {};                    // what `value` is: "density"; empty without values
  std::vector<std::string> policies = {};     // of the runs, each once
  int n_runs = 0;
  std::vector<double> value = {};   // [n_layers][n_kv_heads] mean over the runs; NaN: none
  std::vector<double> spread = {};  // the same, standard deviation between the runs; NaN of a single one
  std::string facts = {};           // JSON object of whoever made the choice: turnover, settings; empty: none
  bool operator==(const HeadOrigin&) const = default;
};

/// What is written.
struct HeadChoice {
  HeadSelection selection = {};
  LocalSizes sizes = {};
  HeadOrigin origin = {};
  int group_size = 0;  // query heads a KV head; 0: not known
};

/// A choice from runs of one model, with their densities. `runs`: at least one.
HeadChoice choice_of_runs(const std::vector<const RunRecord*>& runs, HeadSelection selection, LocalSizes sizes);

/// What was read. `selection.full` has the file's own values, higher rather global.
struct HeadFile {
  HeadSelection selection = {};
  std::optional<double> threshold = {};         // heads of at least this are global; none: values that rank heads alone
  std::optional<int> n_sink = {}, window = {};  // tokens that a local head keeps, where the file says it
  HeadOrigin origin = {};
  int group_size = 0;                             // 0: neither file nor model says it
  std::vector<std::filesystem::path> files = {};  // that were read
};

/// The heads of the file itself if nothing is asked for and it has a threshold; otherwise those of the strategy (D: of
/// greatest value, origin.value where the file has it). Throws Error (usage) as choose_heads() does.
HeadSelection chosen_heads(const HeadFile& file, const HeadQuestion& question);

}  // namespace kvscope
