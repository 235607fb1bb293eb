#pragma once
// What a decoded token costs in floating-point operations, by the size of the model (SP-KV Fig. 7, eq. 15): no input is needed.

#include "engine/core/study/table/study_table.h"
#include "views/figure/figure_style.h"

namespace kvscope::views {

struct DecodeFlopsOptions {
  double context = 131072;  // keys that full attention reads for a token
  double share = 0.2;       // of them, what sparse attention reads
  bool log_x = true, log_y = true;
  bool operator==(const DecodeFlopsOptions&) const = default;
};

/// The models of SP-KV's Tables 7 and 8, each with full and with sparse attention. Columns: series, parameters, layers, width,
/// attention_flops = 2 layers context width (times `share`), total_flops = 2 parameters + that.
StudyTable decode_flops(const DecodeFlopsOptions& options);

/// Panels: "panel.0" attention, "panel.1" total. Data: as study_lines_figure() has it.
BuiltFigure decode_flops_figure(const DecodeFlopsOptions& options, const FigureStyle& style);

}  // namespace kvscope::views
