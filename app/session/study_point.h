#pragma once
// A point of a study as a run: what it was measured with, and whether this machine still has all of that.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "app/catalog/gates.h"
#include "engine/core/record/run_record.h"
#include "engine/core/study/table/study_table.h"
#include "views/selection/study_look.h"

namespace kvscope::app {

/// One piece of text under one policy, as the study's request and facts say it.
struct MeasuredPoint {
  std::string why_not;                   // why no run can be made of it anywhere, a sentence; empty: one can
  std::string trace;                     // file that has its run, as the study names it; empty: none was kept
  std::string policy;                    // as it was asked for
  std::string model;                     // name or folder, as it was asked for
  std::string model_name, weights_hash;  // as the engine had it
  std::string device, dtype;
  std::vector<std::string> gates;                 // paths and names that were given with it
  std::vector<std::string> inputs;                // "heldout.txt 1f2e...": files with their hashes
  bool hashes_gate_files = false;                 // of gates: of their files' bytes, not of their numbers
  std::string text;                               // path, as it was asked for
  int n_pieces = 0;                               // of all texts
  int piece = 0, pieces_of_text = 1, length = 0;  // which of the text; tokens of each
  int chunk = 1;
  std::vector<float> heads;  // of a hybrid [layer * kv_heads + head]: 1 is global; empty: none
  int n_layers = 0, n_kv_heads = 0, n_sink = 0, window = 0;
  double nll = std::numeric_limits<double>::quiet_NaN();  // of this piece, nats per token

  /// The hash that the study has of a file of that name; empty: it has none.
  std::string hash_of(const std::string& file_name) const;
};
/// `piece` counts over all texts of the point and is brought into range.
MeasuredPoint measured_point(const StudyTable& study, int row, int piece);

/// What there is here of it.
struct PointSources {
  std::string trace, text;         // files
  std::vector<std::string> gates;  // paths, for the engine
  views::PointRun run;
};
struct PointPlace {
  std::string study;               // its file
  std::string model_path;          // of the open model; empty: none is open
  std::optional<ModelInfo> model;  // null: it is being loaded
  std::vector<std::string> texts;  // files that the person has pointed to
};
/// Looks for text and gates and compares their hashes. Touches the disk: not for the window's thread.
PointSources find_sources(const MeasuredPoint& point, const PointPlace& place);

/// All that the run needs: its tokens, and what the engine is to load.
struct PointToRun {
  MeasuredPoint point;
  std::string text;  // of the piece
  std::vector<std::int32_t> ids;
  std::vector<GateFacts> gates;
};
/// Reads and cuts the text; writes the heads of a hybrid into a folder of `heads_folder`, one for each choice. Throws Error.
PointToRun prepare_point(const MeasuredPoint& point, const PointSources& sources, const std::string& model_path,
                         const std::string& heads_folder);

/// "NLL of piece 1: 2.93941 here, 2.93941 in the study"
std::string compare_with_study(const MeasuredPoint& point, const RunRecord& run);

}  // namespace kvscope::app
