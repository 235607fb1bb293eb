#include "views/fingerprint_view.h"

#include <algorithm>
#include <array>

#include "views/figure/lost_fact.h"
#include "views/figure/token_facts.h"
#include "views/widgets/chrome.h"
#include "views/widgets/counted_maps.h"
#include "views/widgets/imgui_compat.h"
#include "views/widgets/table_cells.h"

namespace kvscope::views {
namespace {

constexpr std::int64_t kPrintsAtOnce = 1 << 20;  // lifetimes: some 8 ms

std::string head_words_of(const HeadFingerprint& head) {
  return "L" + std::to_string(head.layer) + " H" + std::to_string(head.kv_head);
}

/// What the clusters are, for the button that sorts by them.
const std::string& cluster_rules() {
  static const std::string rules = [] {
    std::string text = "Heads grouped by cluster. The first rule that holds names a head:";
    for (const HeadClusterInfo& info : head_clusters())
      text += "\n" + std::string(info.name) + ": " + std::string(info.rule);
    return text + "\nYoung: up to the end of the first age bin after the window. Old: all later ages.";
  }();
  return rules;
}

bool is_of(const ShownRun& shown, const RunRecord* run) { return shown.run.get() == run; }

}  // namespace

void FingerprintView::draw(ViewContext& context) {
  if (!drawable(context.a)) {
    empty_state(services_, context, "empty.fingerprints", "No heads yet",
                "Run a prompt or open a trace to see what each head keeps.", "Run", "run.start");
    return;
  }
  count(runs_of(context));
  draw_header(context);
  if (n_counted_ == 0) return text_in(services_.theme->palette.muted, "Computing ...");
  const FingerprintOptions options = options_of(context, counted_.runs);
  draw_sentence(options);
  const ImVec2 room = ImGui::GetContentRegionAvail();
  if (room.x < services_.theme->px(90) || room.y < services_.theme->px(60)) return too_little_room(services_, "heads");
  build(options, room);
  const ImVec2 origin = ImGui::GetCursorScreenPos();
  drawing_.draw(*ImGui::GetWindowDrawList(), origin, 1, *services_.theme);
  ImGui::InvisibleButton("fingerprints", room);
  frame_focused_item();
  if (!drawn_.previews.empty()) services_.items->add("preview.badge", last_item());
  draw_heads(context, origin);
}

std::vector<ShownRun> FingerprintView::runs_of(const ViewContext& context) {
  std::vector<ShownRun> runs = {*context.a};
  const auto add = [&](const ShownRun& run) {
    const bool has_it = std::ranges::any_of(runs, [&](const ShownRun& other) { return is_of(other, run.run.get()); });
    if (!has_it && runs.size() < kMostFingerprintRuns && same_shape(*run.run, *runs[0].run)) runs.push_back(run);
  };
  if (drawable(context.b)) add(*context.b);
  for (std::size_t i = 0; context.set != nullptr && i < context.set->size(); ++i) {
    ShownRun run = (*context.set)[i];
    for (std::size_t k = 0; context.listed != nullptr && k < context.listed->all->size(); ++k) {
      const ListedRun& listed = (*context.listed->all)[k];
      if (is_of(run, listed.run.get())) run.label = "run " + std::to_string(listed.id);
    }
    add(run);
  }
  return runs;
}

FingerprintOptions FingerprintView::options_of(const ViewContext& context, const std::vector<ShownRun>& runs) {
  const Cursor at = context.cursor_in(*runs[0].run);
  const FingerprintLook& look = context.selection->fingerprints;
  FingerprintOptions options{.profile = look.profile, .order = look.order, .layer = at.layer, .kv_head = at.kv_head};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    options.names.push_back(runs[i].label);
    if (runs[i].preview) options.previews.push_back(static_cast<int>(i));
  }
  return options;
}

std::optional<ViewFigure> FingerprintView::figure(const ViewContext& context) const {
  if (!drawable(context.a)) return std::nullopt;
  const std::vector<ShownRun> runs = runs_of(context);
  return ViewFigure{options_of(context, runs), records_of(runs)};
}

FingerprintView::Counted FingerprintView::counted(const std::vector<ShownRun>& runs, const Counted& before) {
  Counted now{runs, {}};
  for (const ShownRun& run : runs) {
    std::shared_ptr<const RunFingerprints> prints;
    for (std::size_t k = 0; k < before.runs.size(); ++k)
      if (RunKey(&before.runs[k]) == RunKey(&run)) prints = before.prints[k];
    now.prints.push_back(prints ? prints : std::make_shared<const RunFingerprints>(run_fingerprints(*run.run)));
  }
  return now;
}

void FingerprintView::count(const std::vector<ShownRun>& runs) {
  const auto take = [this](Counted now) {
    counted_ = std::move(now);
    ++n_counted_;
    recount_.done();
  };
  if (auto now = background_.take()) take(std::move(*now));
  CountKey key{keys_of(runs), {}};
  std::int64_t cost = 0;
  for (const ShownRun& run : runs) {
    key.labels.push_back(run.label);
    const bool known =
        std::ranges::any_of(counted_.runs, [&](const ShownRun& before) { return RunKey(&before) == RunKey(&run); });
    if (!known)
      cost += std::int64_t{run.run->n_tokens()} * run.run->evict_at.n_layers() * run.run->evict_at.n_kv_heads();
  }
  if (background_.is_busy() || !recount_.due(key)) return;
  if (cost <= kPrintsAtOnce) return take(counted(runs, counted_));
  background_.post([runs, before = counted_] { return counted(runs, before); });
}

/// Which profile, and in which order.
void FingerprintView::draw_header(ViewContext& context) {
  constexpr std::array<std::string_view, 3> kNames = {"Age", "Position", "Class"};
  constexpr std::array<std::string_view, 3> kHints = {
      "Kept share by age: queries since the token, in bins that double from 64 on",
      "Kept share by position: tenths of the text",
      "Kept share by class: digits, capitalised words, other words or parts of words, punctuation, white space, special "
      "tokens"};
  constexpr std::array<std::string_view, 2> kOrders = {"By layer", "By cluster"};
  const std::array<std::string_view, 2> orders = {"Layers down, heads across", cluster_rules()};
  FingerprintLook& look = context.selection->fingerprints;
  int profile = static_cast<int>(look.profile), order = static_cast<int>(look.order);
  if (segmented(services_, "fingerprints.profile", kNames, kHints, profile))
    look.profile = static_cast<FingerprintProfile>(profile);
  const float gap = services_.theme->px(14);
  if (right_edge_on_screen() - ImGui::GetItemRectMax().x > services_.theme->px(170)) ImGui::SameLine(0, gap);
  if (segmented(services_, "fingerprints.order", kOrders, orders, order))
    look.order = static_cast<FingerprintOrder>(order);
}

/// The selected head of A: its cluster, and why.
void FingerprintView::draw_sentence(const FingerprintOptions& options) {
  const HeadFingerprint& head = counted_.prints[0]->at(options.layer, options.kv_head);
  const std::string text =
      head_words_of(head) + " is " + std::string(cluster_name(cluster_of(head))) + ": " + cluster_reason(head) + ".";
  lines_of_text(services_, services_.theme->palette.text, text,
                ImGui::GetContentRegionAvail().x < services_.theme->px(500) ? 3 : 2);
  services_.items->add_text("fingerprints.sentence", last_item(), text);
}

/// At once for other heads or numbers: a click must not meet a cell of others.
void FingerprintView::build(const FingerprintOptions& options, ImVec2 room) {
  if (!rebuild_.due({n_counted_, options, room.x, room.y, services_.theme->scale, services_.theme->dark},
                    options != drawn_ || drawn_count_ != n_counted_))
    return;
  std::vector<const RunFingerprints*> prints;
  for (const auto& of_run : counted_.prints) prints.push_back(of_run.get());
  drawing_.set(fingerprints_figure(pointers_to(records_of(counted_.runs)), prints, options,
                                   services_.theme->figure_style(room.x, room.y))
                   .figure);
  first_bin_ = fingerprint_bins(prints, options.profile).begin;
  drawn_ = options, drawn_count_ = n_counted_;
  rebuild_.done();
}

/// The selected head's cell; a click selects another, and the mouse has the numbers.
void FingerprintView::draw_heads(ViewContext& context, ImVec2 origin) {
  const bool hovered = ImGui::IsItemHovered();
  const bool active = ImGui::IsItemActive() && ImGui::IsMouseDown(ImGuiMouseButton_Left);  // not by a key
  const Panel& panel = *drawing_.figure().panel("grid");
  const RunFingerprints& prints = *counted_.prints[0];
  const FingerprintGrid grid = fingerprint_grid(prints, drawn_.order, panel.box);
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const Point at{mouse.x - origin.x, mouse.y - origin.y};
  const float edge = services_.theme->px(1.5f);
  for (std::size_t i = 0; i < grid.heads.size(); ++i) {
    if (grid.heads[i] < 0) continue;
    const HeadFingerprint& head = prints.heads[static_cast<std::size_t>(grid.heads[i])];
    const Box cell = panel.cell(static_cast<int>(i) / grid.columns, static_cast<int>(i) % grid.columns);
    const ImVec2 min{origin.x + static_cast<float>(cell.x), origin.y + static_cast<float>(cell.y)};
    const ImVec2 max{origin.x + static_cast<float>(cell.right()), origin.y + static_cast<float>(cell.bottom())};
    services_.items->add("fingerprints.head", head.layer, head.kv_head, item_rect(min, max));
    if (head.layer == drawn_.layer && head.kv_head == drawn_.kv_head)
      ImGui::GetWindowDrawList()->AddRect(min, max, to_imgui(services_.theme->palette.accent), 0, edge);
    if (!cell.contains(at)) continue;
    if (active) context.selection->layer = head.layer, context.selection->kv_head = head.kv_head;
    if (hovered) draw_head_card(head);
  }
  const Panel* one = drawing_.figure().panel("head");
  if (const auto bin = hovered && one != nullptr ? one->cell_at(at) : std::nullopt)
    draw_bin_card(first_bin_ + bin->second);
}

void FingerprintView::draw_head_card(const HeadFingerprint& head) const {
  const Palette& p = services_.theme->palette;
  const HoverCard card(services_);
  ImGui::PushTextWrapPos(ImGui::GetCursorPosX() + services_.theme->px(360));
  std::string text = head_words_of(head) + ": " + std::string(cluster_name(cluster_of(head)));
  draw_text(services_.theme->fonts.bold, p.text, text);
  wrapped_text_in(p.text, cluster_reason(head));
  const std::vector<KeptPairs> bins = head.profile(drawn_.profile);
  for (std::size_t bin = 0; bin < bins.size(); ++bin) {
    if (bins[bin].pairs == 0) continue;
    const std::string line = bin_name(drawn_.profile, static_cast<int>(bin)) + ": " + share_text(bins[bin].share()) +
                             " (" + std::to_string(bins[bin].kept) + " of " + std::to_string(bins[bin].pairs) + ")";
    text_in(p.muted, line);
    text += "\n" + line;
  }
  for (std::size_t i = 1; i < counted_.prints.size(); ++i)
    text_in(p.muted, run_name(drawn_.names, i) + ": " +
                         std::string(cluster_name(cluster_of(counted_.prints[i]->at(head.layer, head.kv_head)))));
  wrapped_text_in(p.muted, kKeptShareDefinition);
  ImGui::PopTextWrapPos();
  services_.items->add_text("fingerprints.hover", item_rect(ImGui::GetIO().MousePos, ImGui::GetIO().MousePos), text);
}

/// Of the selected head: what each run keeps in the bin.
void FingerprintView::draw_bin_card(int bin) const {
  const Palette& p = services_.theme->palette;
  const HoverCard card(services_);
  text_in(p.text, std::string(profile_name(drawn_.profile)) + " " + bin_name(drawn_.profile, bin));
  for (std::size_t i = 0; i < counted_.prints.size(); ++i) {
    const auto bins = counted_.prints[i]->at(drawn_.layer, drawn_.kv_head).profile(drawn_.profile);
    const bool has_bin = static_cast<std::size_t>(bin) < bins.size();
    const KeptPairs pairs = has_bin ? bins[static_cast<std::size_t>(bin)] : KeptPairs();
    text_in(p.muted, run_name(drawn_.names, i) + ": " + share_text(pairs.share()) + " (" + std::to_string(pairs.kept) +
                         " of " + std::to_string(pairs.pairs) + ")");
  }
}

}  // namespace kvscope::views
