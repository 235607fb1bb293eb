#pragma once
// Probes of a training: the scores of a held-out text by its gate, as it was after some steps. They are arrays beside the training's
// curve, one axis of which is "probe":
//
//     probe_step       [probe]                           steps done
//     probe_threshold  [probe]                           a score of this or more is kept; NaN: the gate has no threshold
//     probe_score      [probe, layer, kv_head, token]    float32; NaN: no score (a local layer, a token at the end that is not
//                                                        scored yet)
//     probe_token      [token]                           ids of the text
//     probe_source     [probe]                           row of the table at which its training begins; of joined tables
//
// The study's facts have the tokens as texts, {"probe": {"pieces": [...]}}.

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/core/study/table/study_table.h"

namespace kvscope {

inline constexpr std::string_view kProbeStep = "probe_step", kProbeThreshold = "probe_threshold",
                                  kProbeScore = "probe_score", kProbeToken = "probe_token",
                                  kProbeSource = "probe_source";
/// Scores of all probes of a training: 64 MiB in memory.
inline constexpr std::int64_t kMostProbeScores = std::int64_t{1} << 23;

struct GateProbe {
  double step = 0;
  double threshold = 0;  // NaN: none
  int n_layers = 0, n_kv_heads = 0;
  std::vector<std::int32_t> tokens = {};
  std::vector<float> scores = {};  // [layer, kv_head, token]
};

std::size_t n_probes(const StudyTable& table);
/// Its arrays without those of probes.
std::vector<StudyArray> other_arrays(const StudyTable& table);
/// After the probes of earlier steps; those of its step and later ones go, and all of another text or shape.
void add_probe(StudyTable& table, const GateProbe& probe);
/// The threshold of all probes.
void set_probe_threshold(StudyTable& table, double threshold);
/// The probes of `earlier`, and its texts, up to this step; in place of those of `table`.
void keep_probes(StudyTable& table, const StudyTable& earlier, double last_step);
/// Those of `table`, whose rows begin at `first_row` of `all`, after those of `all`; none where the text or the shape is another.
void join_probes(StudyTable& all, const StudyTable& table, std::size_t first_row);

}  // namespace kvscope
