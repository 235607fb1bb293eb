#include "views/run_curves_view.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "views/figure/token_facts.h"
#include "views/widgets/chrome.h"

namespace kvscope::views {
namespace {

/// Values looked at in a frame, some 10 ms; more are for another thread.
constexpr std::int64_t kCheap = 4'000'000;

}  // namespace

void RunCurvesView::draw(ViewContext& context) {
  if (!drawable(context.a)) {
    empty_state(services_, context, "empty.run_curves", "No run yet",
                "Run the model on a prompt, or open a trace: its likelihood, its cache and its recall appear here from "
                "position to position.",
                "Run", "run.start");
    return;
  }
  draw_header(context);
  if (const std::string why = refusal(context); !why.empty()) {
    wrapped_text_in(services_.theme->palette.muted, why);
    services_.items->add_text("curves.refusal", last_item(), why);
    if (context.a->preview) services_.items->add("preview.badge", last_item());
    return;
  }
  const ImVec2 room = ImGui::GetContentRegionAvail();
  if (room.x < services_.theme->px(90) || room.y < services_.theme->px(70)) return;
  const CurvesOptions options = options_of(context);
  const bool with_b = options.compare != MapCompare::none;
  if (!build(context, {RunKey(context.a), RunKey(with_b ? context.b : nullptr), options, room.x, room.y,
                       services_.theme->scale, services_.theme->dark})) {
    text_in(services_.theme->palette.muted, "Counting ...");
    return;
  }
  const ImVec2 origin = ImGui::GetCursorScreenPos();
  drawing_.draw(*ImGui::GetWindowDrawList(), origin, 1, *services_.theme);
  ImGui::InvisibleButton("curves", room);
  handle_mouse(context, origin);
  if (options.preview || options.preview_b)
    services_.items->add("preview.badge", item_rect(origin, {origin.x + room.x, origin.y + room.y}));
}

void RunCurvesView::draw_header(ViewContext& context) {
  std::vector<std::string_view> names, hints;
  for (const RunQuantityInfo& info : run_quantities()) names.push_back(info.title), hints.push_back(info.definition);
  segmented(services_, "curves.quantity", names, hints, quantity_);
  if (!drawable(context.b)) return;
  constexpr std::array<std::string_view, 3> kNames = {"A", "A | B", "B − A"};
  segmented(services_, "curves.compare", kNames, {}, compare_);
  const std::string why = why_no_curve_of_b(context);
  if (why.empty() || compare_ == 0) return;
  const FontScope small(services_.theme->fonts.small);
  wrapped_text_in(services_.theme->palette.warn, "No curve of B: " + why);
  services_.items->add_text("curves.no_b", last_item(), why);
}

CurvesOptions RunCurvesView::options_of(const ViewContext& context) const {
  CurvesOptions options;
  options.quantity = run_quantities()[static_cast<std::size_t>(quantity_)].quantity;
  options.preview = context.a->preview;
  options.name_a = context.a->label;
  options.heads = context.marked_heads();
  if (!drawable(context.b) || !same_shape(*context.a->run, *context.b->run)) return options;
  options.compare = static_cast<MapCompare>(compare_);
  if (!why_no_curve_of_b(context).empty()) options.compare = MapCompare::none;  // A's stands alone
  if (options.compare == MapCompare::none) return options;
  options.preview_b = context.b->preview;
  options.name_b = context.b->label;
  return options;
}

/// A preview has no likelihood of its own, and under another window no recall.
std::string RunCurvesView::why_no_curve_of_b(const ViewContext& context) const {
  if (!drawable(context.b)) return {};
  const RunQuantity quantity = run_quantities()[static_cast<std::size_t>(quantity_)].quantity;
  if (context.b->preview && !previews(quantity)) return "nothing was decoded for a preview.";
  return quantity == RunQuantity::recall ? why_no_recall(*context.b->run, context.b->preview) : std::string();
}

std::string RunCurvesView::refusal(const ViewContext& context) const {
  const CurvesOptions options = options_of(context);
  const RunRecord& run = *context.a->run;
  if (options.preview && !previews(options.quantity))
    return "Nothing was decoded for a preview: decode it to see its " + std::string(info_of(options.quantity).title) +
           ".";
  if (options.quantity == RunQuantity::recall && run.future_mass.empty()) return why_no_recall(run, options.preview);
  if (options.quantity == RunQuantity::output_error && run.output_error.empty())
    return "Output error was not measured in this run: the command line does it with --output-error.";
  if (options.compare == MapCompare::difference && common_prefix(run, *context.b->run) == 0)
    return "A and B have no token in common: there is no difference to take.";
  return {};
}

std::optional<ViewFigure> RunCurvesView::figure(const ViewContext& context) const {
  if (!drawable(context.a) || !refusal(context).empty()) return std::nullopt;
  const CurvesOptions options = options_of(context);
  ViewFigure figure{options, {context.a->run}};
  if (options.compare != MapCompare::none) figure.runs.push_back(context.b->run);
  return figure;
}

bool RunCurvesView::build(const ViewContext& context, const Key& key) {
  std::vector<std::shared_ptr<const RunRecord>> runs = {context.a->run};
  if (key.options.compare != MapCompare::none) runs.push_back(context.b->run);
  std::int64_t cost = 0;
  for (const auto& run : runs) cost += run_curve_cost(*run, key.options.quantity);
  const auto make = [runs, options = key.options, style = services_.theme->figure_style(key.width, key.height)] {
    std::vector<const RunRecord*> pointers;
    for (const auto& run : runs) pointers.push_back(run.get());
    return curves_figure(pointers, options, style).figure;
  };
  if (cost > kCheap) {
    if (std::optional<Figure> figure = aside_.of(key, make); figure && rebuild_.due(key)) {
      drawing_.set(std::move(*figure));
      rebuild_.done();
      drawn_ = true;
    }
  } else if (rebuild_.due(key)) {
    drawing_.set(make());
    rebuild_.done();
    drawn_ = true;
  }
  return drawn_;
}

/// Positions that the axis goes over: of two lines those of the longer run, of a difference those in common.
int RunCurvesView::axis_length(const ViewContext& context) const {
  const RunRecord& a = *context.a->run;
  const MapCompare compare = options_of(context).compare;
  if (compare == MapCompare::none) return a.n_tokens();
  const RunRecord& b = *context.b->run;
  return compare == MapCompare::difference ? common_prefix(a, b) : std::max(a.n_tokens(), b.n_tokens());
}

/// Dragging scrubs; the position of the selection is a line.
void RunCurvesView::handle_mouse(ViewContext& context, ImVec2 origin) const {
  const Panel* panel = drawing_.figure().panel("curves");
  if (panel == nullptr) return;
  const int n = context.a->run->n_tokens(), axis = axis_length(context);
  const ImVec2 a{origin.x + static_cast<float>(panel->box.x), origin.y + static_cast<float>(panel->box.y)};
  const ImVec2 b{origin.x + static_cast<float>(panel->box.right()), origin.y + static_cast<float>(panel->box.bottom())};
  services_.items->add("curves.plot", item_rect(a, b));
  const float at = std::min(1.f, (static_cast<float>(context.q()) + 0.5f) / static_cast<float>(axis));
  const float x = std::floor(a.x + at * (b.x - a.x));
  ImGui::GetWindowDrawList()->AddLine({x, a.y}, {x, b.y}, to_imgui(services_.theme->palette.accent),
                                      services_.theme->px(1.5f));
  if (!ImGui::IsItemActive() || b.x <= a.x) return;
  const float share = (ImGui::GetIO().MousePos.x - a.x) / (b.x - a.x);
  context.selection->q = std::clamp(static_cast<int>(share * static_cast<float>(axis)), 0, n - 1);
}

}  // namespace kvscope::views
