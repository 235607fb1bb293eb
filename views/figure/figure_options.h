#pragma once
// The options of any figure: one struct a kind of figure.

#include <string_view>
#include <variant>

#include "views/figure/answer_difference_figure.h"
#include "views/figure/column_spread_figure.h"
#include "views/figure/curves_figure.h"
#include "views/figure/decode_flops_figure.h"
#include "views/figure/fingerprints_figure.h"
#include "views/figure/gate_training_figure.h"
#include "views/figure/layer_head_map_figure.h"
#include "views/figure/lifetimes_figure.h"
#include "views/figure/lost_fact_figure.h"
#include "views/figure/map_panels_figure.h"
#include "views/figure/metric_by_layer_figure.h"
#include "views/figure/run_card_figure.h"
#include "views/figure/run_grid_figure.h"
#include "views/figure/run_points_figure.h"
#include "views/figure/scaling_fit_figure.h"
#include "views/figure/study_bars_figure.h"
#include "views/figure/study_lines_figure.h"
#include "views/figure/timeline_figure.h"
#include "views/figure/token_attention_figure.h"
#include "views/figure/token_strip_figure.h"
#include "views/figure/unseen_tokens_figure.h"

namespace kvscope::views {

using FigureOptions =
    std::variant<LayerHeadMapOptions, TokenStripOptions, TimelineOptions, MetricByLayerOptions, CurvesOptions,
                 MapPanelsOptions, StudyLinesOptions, StudyBarsOptions, ColumnSpreadOptions, TokenAttentionOptions,
                 DecodeFlopsOptions, ScalingFitOptions, LostFactOptions, RunPointsOptions, RunCardOptions,
                 FingerprintOptions, AnswerDifferenceOptions, LifetimesOptions, UnseenTokensOptions, RunGridOptions,
                 GateTrainingOptions>;

std::string_view figure_name(const FigureOptions& options);  // "layer_head_map", "token_strip" ...

}  // namespace kvscope::views
