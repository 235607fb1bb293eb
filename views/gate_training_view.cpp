#include "views/gate_training_view.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/core/study/table/gate_probe.h"
#include "engine/core/support/text.h"
#include "views/figure/probe_words.h"
#include "views/figure/token_text.h"
#include "views/widgets/chrome.h"

namespace kvscope::views {
namespace {

constexpr std::size_t kScoresAtOnce = 1'000'000;                   // some milliseconds; more are for another thread
constexpr double kPlayTime = 8, kLeastPause = 0.05, kPause = 0.5;  // seconds: of a play, between two steps of it

std::string value_words(float v) { return std::isnan(v) ? "none" : number_text(v, 3); }

}  // namespace

bool GateTrainingView::has_content(const ViewContext& context) const {
  return context.study() != nullptr && n_probes(*context.study()->table) > 0;
}

void GateTrainingView::draw(ViewContext& context) {
  if (!has_content(context)) {
    const bool training = context.study() != nullptr && context.study()->table->kind == kTrainingStudy;
    empty_state(
        services_, context, "empty.gate_training", training ? "This training has no scores" : "No training is shown",
        "Add \"probe\": true to a recipe. Its training then scores a held-out text at every tenth step. Open the "
        "training's folder, also while it runs.",
        "Open a study", "study.open");
    playing_ = false;
    return;
  }
  prepare(context);
  if (!probes_) return text_in(services_.theme->palette.muted, "Reading the scores ...");
  play(context);
  draw_choices(context);
  draw_steps(context);
  draw_picture(context, ImGui::GetContentRegionAvail());
}

GateTrainingOptions GateTrainingView::options_of(const ViewContext& context) const {
  const GateTrainingLook& look = context.selection->gate_training;
  GateTrainingOptions options{.step = look.step, .quantity = look.quantity, .colormap = services_.theme->maps};
  const std::vector<std::string> sources = probed_sources(*context.study()->table);
  if (std::ranges::find(sources, look.source) != sources.end()) options.source = look.source;
  return options;
}

void GateTrainingView::prepare(const ViewContext& context) {
  const OpenStudy& study = *context.study();
  if (sources_of_ != study.table) sources_ = probed_sources(*study.table), sources_of_ = study.table;
  const Subject subject{study.table, options_of(context).source};
  // Of a training that goes on the last answer stays until the next is there.
  if (path_ != study.path) probes_ = nullptr;
  const auto make = [subject]() -> Probes {
    return std::make_shared<const ProbeSummary>(summarise_probes(*subject.table, subject.source));
  };
  if (study.table->array(kProbeScore)->values.size() > kScoresAtOnce) {
    if (const auto probes = debounced_.of(subject, make)) take(context, *probes);
  } else if (rebuild_probes_.due(subject, probes_ == nullptr)) {
    take(context, make());
    rebuild_probes_.done();
  }
}

void GateTrainingView::take(const ViewContext& context, Probes probes) {
  probes_ = std::move(probes), path_ = context.study()->path;
}

std::optional<ViewFigure> GateTrainingView::figure(const ViewContext& context) const {
  if (!has_content(context)) return std::nullopt;
  return ViewFigure{options_of(context), {}, context.study()->table, context.study()->path};
}

void GateTrainingView::show_probe(ViewContext& context, std::size_t probe) const {
  const bool last = probe + 1 >= probes_->steps.size();
  context.selection->gate_training.step = last ? -1 : static_cast<int>(probes_->steps[probe]);
}

/// From probe to probe up to the last one.
void GateTrainingView::play(ViewContext& context) {
  if (!playing_) return;
  const std::size_t n = probes_->steps.size(), shown = probes_->probe_at(context.selection->gate_training.step);
  const double pause = std::clamp(kPlayTime / static_cast<double>(n), kLeastPause, kPause);
  since_step_ += std::min(ImGui::GetIO().DeltaTime, 0.25f);  // a frame after a pause is not a leap
  if (since_step_ >= pause) {
    const auto further = static_cast<std::size_t>(since_step_ / pause);
    since_step_ = std::fmod(since_step_, pause);
    show_probe(context, std::min(shown + further, n - 1));
  }
  if (shown + 1 >= n) playing_ = false;
  if (services_.wake) services_.wake();
}

void GateTrainingView::draw_choices(ViewContext& context) {
  GateTrainingLook& look = context.selection->gate_training;
  constexpr std::array<std::string_view, 2> kNames = {"Kept share", "Mean score"},
                                            kHints = {kKeptOfProbeDefinition, kScoreOfProbeDefinition};
  if (probes_->has_threshold()) {
    int quantity = static_cast<int>(look.quantity);
    if (segmented(services_, "gates.quantity", kNames, kHints, quantity))
      look.quantity = static_cast<ProbeQuantity>(quantity);
  } else {
    text_in(services_.theme->palette.muted, "Mean score: this gate has no threshold");
    services_.items->add_text("gates.no_threshold", last_item(), "Mean score: this gate has no threshold");
    hint_of(services_, kScoreOfProbeDefinition);
  }
  if (sources_.size() < 2) return;
  const std::vector<std::string_view> names(sources_.begin(), sources_.end());
  int chosen = static_cast<int>(std::ranges::find(sources_, probes_->source) - sources_.begin());
  ImGui::SameLine(0, services_.theme->px(12));
  if (drop_down(services_, "gates.source", names, {}, chosen, 220))
    look.source = sources_[static_cast<std::size_t>(chosen)];
}

void GateTrainingView::draw_steps(ViewContext& context) {
  const Theme& theme = *services_.theme;
  const int n = static_cast<int>(probes_->steps.size());
  if (line_button(services_, "gates.play", playing_ ? "Pause" : "Play", "Show the steps one after the other", playing_,
                  true)) {
    playing_ = !playing_, since_step_ = 0;
    if (playing_ && probes_->probe_at(context.selection->gate_training.step) + 1 == static_cast<std::size_t>(n))
      show_probe(context, 0);
  }
  int shown = static_cast<int>(probes_->probe_at(context.selection->gate_training.step));
  const auto step = [&](int probe) { return number_text(probes_->steps[static_cast<std::size_t>(probe)], 12); };
  const std::string words = "step " + step(shown) + " of " + step(n - 1);
  ImGui::SameLine(0, theme.px(8));
  const float of_words = ImGui::CalcTextSize(("step " + step(n - 1) + " of " + step(n - 1)).c_str()).x;
  ImGui::SetNextItemWidth(std::max(theme.px(50), ImGui::GetContentRegionAvail().x - of_words - theme.px(10)));
  if (ImGui::SliderInt("##probe", &shown, 0, std::max(1, n - 1), "", ImGuiSliderFlags_AlwaysClamp)) {
    playing_ = false;
    shown = std::clamp(shown, 0, n - 1);
    show_probe(context, static_cast<std::size_t>(shown));
  }
  services_.items->add_text("gates.step", last_item(), words);
  hint_of(services_, "Training step of the map and the text. At the end, the view follows the training.");
  ImGui::SameLine(0, theme.px(8));
  text_in(theme.palette.muted, words);
}

void GateTrainingView::draw_picture(ViewContext& context, ImVec2 room) {
  const Theme& theme = *services_.theme;
  if (room.x < theme.px(120) || room.y < theme.px(90)) return too_little_room(services_, "map");
  const Key key{probes_, options_of(context), room.x, room.y, theme.scale, theme.dark};
  if (rebuild_.due(key, drawn_.probes == nullptr || drawn_.probes->source != probes_->source)) {
    drawing_.set(draw_gate_training(*probes_, key.options, theme.figure_style(room.x, room.y)));
    drawn_ = key;
    rebuild_.done();
  }
  const ImVec2 origin = ImGui::GetCursorScreenPos();
  drawing_.draw(*ImGui::GetWindowDrawList(), origin, 1, theme);
  ImGui::InvisibleButton("gates", room);
  frame_focused_item();
  services_.items->add("gates.picture", last_item());
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  for (const Panel& panel : drawing_.figure().panels) {
    const Box& b = panel.box;
    const float x = origin.x + static_cast<float>(b.x), y = origin.y + static_cast<float>(b.y);
    services_.items->add("gates." + panel.id, {x, y, static_cast<float>(b.w), static_cast<float>(b.h)});
    if (!ImGui::IsItemHovered() || !b.contains({mouse.x - origin.x, mouse.y - origin.y})) continue;
    if (panel.id == "map") handle_map(panel, origin);
    if (panel.id == "lines") handle_lines(context, panel, origin);
    if (panel.id == "text") handle_text(panel, origin);
  }
}

void GateTrainingView::handle_map(const Panel& panel, ImVec2 origin) {
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const auto cell = panel.cell_at({mouse.x - origin.x, mouse.y - origin.y});
  if (!cell) return;
  const ProbeSummary& probes = *drawn_.probes;
  const std::size_t shown = probes.probe_at(drawn_.options.step);
  const float kept = probes.map(shown, ProbeQuantity::kept).at(cell->first, cell->second),
              score = probes.map(shown, ProbeQuantity::score).at(cell->first, cell->second);
  const std::string text = "L" + std::to_string(cell->first) + " H" + std::to_string(cell->second) + "\nkept share " +
                           value_words(kept) + ", mean score " + value_words(score);
  services_.items->add_text("gates.hover", item_rect(mouse, mouse), text);
  const HoverCard card(services_);
  ImGui::TextUnformatted(text.c_str());
  wrapped_text_in(services_.theme->palette.muted, drawn_quantity(probes, drawn_.options) == ProbeQuantity::kept
                                                      ? kKeptOfProbeDefinition
                                                      : kScoreOfProbeDefinition);
}

/// The nearest layer at the nearest step; a click goes to that step.
void GateTrainingView::handle_lines(ViewContext& context, const Panel& panel, ImVec2 origin) {
  const ProbeSummary& probes = *drawn_.probes;
  const ProbeQuantity quantity = drawn_quantity(probes, drawn_.options);
  const ProbeAxes axes = probe_axes(probes, quantity);
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const double step = axes.step_lo + (mouse.x - origin.x - panel.box.x) / panel.box.w * (axes.step_hi - axes.step_lo),
               value = axes.hi - (mouse.y - origin.y - panel.box.y) / panel.box.h * (axes.hi - axes.lo);
  std::size_t nearest = 0;
  for (std::size_t i = 0; i < probes.steps.size(); ++i)
    if (std::abs(probes.steps[i] - step) < std::abs(probes.steps[nearest] - step)) nearest = i;
  int layer = -1;
  const auto away = [&](int l) { return std::abs(probes.of_layer(nearest, l, quantity) - value); };
  for (int l = 0; l < probes.n_layers; ++l)
    if (!std::isnan(probes.of_layer(nearest, l, quantity)) && (layer < 0 || away(l) < away(layer))) layer = l;
  if (ImGui::IsMouseClicked(ImGuiMouseButton_Left)) playing_ = false, show_probe(context, nearest);
  if (layer < 0) return;
  const std::string text = "step " + number_text(probes.steps[nearest], 12) + ", layer " + std::to_string(layer) +
                           ": " + value_words(probes.of_layer(nearest, layer, quantity));
  services_.items->add_text("gates.hover", item_rect(mouse, mouse), text);
  const HoverCard card(services_);
  ImGui::TextUnformatted(text.c_str());
  text_in(services_.theme->palette.muted, "Mean over the layer's KV heads. Click to show this step.");
}

void GateTrainingView::handle_text(const Panel& panel, ImVec2 origin) {
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const ProbeSummary& probes = *drawn_.probes;
  const double size = services_.theme->figure_style(drawn_.width, drawn_.height).tick_size;
  for (const ProbeWord& word : probe_words(probes, panel.box, size)) {
    if (!word.box.contains({mouse.x - origin.x, mouse.y - origin.y})) continue;
    const std::size_t shown = probes.probe_at(drawn_.options.step);
    const float score =
        probes.token_score[shown * static_cast<std::size_t>(probes.n_tokens) + static_cast<std::size_t>(word.token)];
    const std::string text =
        "\"" + word.label + "\" (token " + std::to_string(word.token) + ")\n" +
        (std::isnan(score) ? "no score: the text ends before the gate scores it" : "mean score " + value_words(score));
    services_.items->add_text("gates.hover", item_rect(mouse, mouse), text);
    const HoverCard card(services_);
    ImGui::TextUnformatted(text.c_str());
    return;
  }
}

}  // namespace kvscope::views
