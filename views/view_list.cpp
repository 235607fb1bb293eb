#include "views/view_list.h"

#include "views/answer_difference_view.h"
#include "views/cache_timeline_view.h"
#include "views/comparison_view.h"
#include "views/fingerprint_view.h"
#include "views/gate_training_view.h"
#include "views/head_board_view.h"
#include "views/inspector_view.h"
#include "views/layer_head_map_view.h"
#include "views/lifetimes_view.h"
#include "views/lost_fact_view.h"
#include "views/metric_by_layer_view.h"
#include "views/run_curves_view.h"
#include "views/run_grid_view.h"
#include "views/run_table_view.h"
#include "views/study_view.h"
#include "views/token_attention_view.h"
#include "views/token_strip_view.h"
#include "views/unseen_tokens_view.h"

namespace kvscope::views {

ViewList make_views(const ViewServices& services) {
  ViewList views;
  views.push_back(std::make_unique<TokenStripView>(services));
  views.push_back(std::make_unique<LayerHeadMapView>(services));
  views.push_back(std::make_unique<CacheTimelineView>(services));
  views.push_back(std::make_unique<MetricByLayerView>(services));
  views.push_back(std::make_unique<RunCurvesView>(services));
  views.push_back(std::make_unique<TokenAttentionView>(services));
  views.push_back(std::make_unique<LostFactView>(services));
  views.push_back(std::make_unique<FingerprintView>(services));
  views.push_back(std::make_unique<AnswerDifferenceView>(services));
  views.push_back(std::make_unique<LifetimesView>(services));
  views.push_back(std::make_unique<UnseenTokensView>(services));
  views.push_back(std::make_unique<HeadBoardView>(services));
  views.push_back(std::make_unique<ComparisonView>(services));
  views.push_back(std::make_unique<RunTableView>(services));
  views.push_back(std::make_unique<RunGridView>(services));
  views.push_back(std::make_unique<StudyView>(services));
  views.push_back(std::make_unique<GateTrainingView>(services));
  views.push_back(std::make_unique<InspectorView>(services));
  return views;
}

std::unique_ptr<View> make_view(std::string_view kind, const ViewServices& services) {
  for (std::unique_ptr<View>& view :
       make_views(services)) {  // an empty view is cheap: pictures are made when it is drawn
    if (view->kind() == kind) return std::move(view);
  }
  return nullptr;
}

}  // namespace kvscope::views
