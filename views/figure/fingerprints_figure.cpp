#include "views/figure/fingerprints_figure.h"

#include <algorithm>

#include "engine/core/support/error.h"
#include "views/figure/caption.h"
#include "views/figure/fingerprint_cells.h"
#include "views/figure/fingerprint_curves.h"
#include "views/figure/fonts.h"
#include "views/figure/lost_fact.h"
#include "views/figure/plot.h"
#include "views/figure/token_facts.h"

namespace kvscope::views {
namespace {

constexpr double kLeastCurvesWidth = 90, kLeastCurvesHeight = 44, kLeastGridHeight = 60;  // points

void check_fingerprints(std::span<const RunRecord* const> runs, const FingerprintOptions& o) {
  const auto refuse_prints = [](const std::string& where, const std::string& found, const std::string& expected) {
    throw Error({ExitCode::bad_input, "", where, found, expected, ""});
  };
  if (runs.empty() || runs.size() > kMostFingerprintRuns)
    refuse_prints("fingerprints", std::to_string(runs.size()) + " runs",
                  "1 to " + std::to_string(kMostFingerprintRuns));
  for (const RunRecord* run : runs) {
    resolve_query(*run, -1);
    if (!same_shape(*run, *runs[0]))
      refuse_prints("fingerprints", "runs of different shapes", "the same layers and heads");
  }
  const int layers = runs[0]->evict_at.n_layers(), heads = runs[0]->evict_at.n_kv_heads();
  if (o.layer < 0 || o.layer >= layers)
    refuse_prints("layer", std::to_string(o.layer), "0 to " + std::to_string(layers - 1));
  if (o.kv_head < 0 || o.kv_head >= heads)
    refuse_prints("kv_head", std::to_string(o.kv_head), "0 to " + std::to_string(heads - 1));
}

std::string head_text(const FingerprintOptions& o) {
  return "L" + std::to_string(o.layer) + " H" + std::to_string(o.kv_head);
}

std::string_view cluster_in(const RunFingerprints& prints, const FingerprintOptions& o) {
  return cluster_name(cluster_of(prints.at(o.layer, o.kv_head)));
}

std::vector<LegendEntry> cluster_legend(const RunFingerprints& prints, bool dark) {
  std::vector<LegendEntry> entries;
  const std::vector<int> counts = heads_of_clusters(prints);
  for (const HeadClusterInfo& info : head_clusters()) {
    const int n = counts[static_cast<std::size_t>(info.cluster)];
    if (n > 0)
      entries.push_back({LegendEntry::Mark::swatch, std::string(info.name) + " " + std::to_string(n),
                         cluster_colour(info.cluster, dark)});
  }
  return entries;
}

/// Of the one head: nothing of a single run, whose title has all of it.
std::vector<PlotLegendEntry> run_legend(std::span<const RunRecord* const> runs,
                                        std::span<const RunFingerprints* const> prints, const FingerprintOptions& o) {
  std::vector<PlotLegendEntry> entries;
  for (std::size_t i = 0; runs.size() > 1 && i < runs.size(); ++i)
    entries.push_back(
        {.label = run_name(o.names, i) + ", " + runs[i]->policy.name + ": " + std::string(cluster_in(*prints[i], o)),
         .i = i});
  return entries;
}

/// Where the parts go. Without room for the one head its box has no height.
struct FingerprintPlaces {
  Box grid, head;
  double legend = 0;  // height of the one head's
  double height = 0;  // of the figure
};

/// `top`: below the legend of the clusters.
FingerprintPlaces places_of(const FigureStyle& s, const FingerprintOptions& o, double top, int n_layers,
                            const std::vector<PlotLegendEntry>& runs) {
  FigureBuilder measure(s.width, 0, s);
  const double bottom = plot_bottom(s), right = text_width("100 %", FontRole::text, s.tick_size) / 2;
  const double grid_left =
      o.order == FingerprintOrder::cluster
          ? 1
          : s.label_size + 4 + text_width("00", FontRole::text, s.tick_size) + 3 + FigureBuilder::kTickLength;
  const double curves_left = fingerprint_curves_left(s), title = s.label_size * 1.5;
  const bool beside = s.height > 0 && s.width > 1.4 * s.height;
  FingerprintPlaces at;
  const double curves_width =
      beside ? std::clamp(s.width * 0.4, 0.0, 360.0) - curves_left - right : s.width - curves_left - right;
  at.legend = draw_plot_legend(measure, {0, 0}, std::max(1.0, curves_width), runs, true);
  const double above = title + at.legend + 2;
  const double room = s.height - top - bottom;  // of a given height
  const double given = beside ? room - above : std::clamp(s.height * 0.34, 0.0, 170.0) - above;
  const double curves_height = s.height > 0 ? given : 80;
  const double full = s.height > 0 ? room : std::clamp(12.0 * n_layers, 60.0, 400.0);
  const double stacked = above + curves_height + bottom;  // what the one head takes from the grid's height
  const double grid_height = beside || s.height <= 0 ? full : full - stacked;
  const bool has_head =
      curves_width >= kLeastCurvesWidth && curves_height >= kLeastCurvesHeight && grid_height >= kLeastGridHeight;
  const double grid_right = beside && has_head ? curves_width + curves_left + right + s.label_size : right;
  at.grid = {grid_left, top, std::max(20.0, s.width - grid_left - grid_right),
             std::max(4.0, has_head ? grid_height : full)};
  at.height = top + at.grid.h + bottom;
  if (!has_head) return at;
  const double head_top = (beside ? top : at.height) + above;
  at.head = {s.width - right - curves_width, head_top, curves_width, curves_height};
  at.height = std::max(at.height, head_top + curves_height + bottom);
  return at;
}

FigureData tidy_fingerprints(std::span<const RunFingerprints* const> prints, const FingerprintOptions& o) {
  std::vector<std::string> run, cluster, profile, bin;
  std::vector<std::int64_t> layer, kv_head, kept, pairs;
  std::vector<double> share;
  for (std::size_t i = 0; i < prints.size(); ++i) {
    for (const HeadFingerprint& head : prints[i]->heads) {
      if (i > 0 && (head.layer != o.layer || head.kv_head != o.kv_head)) continue;
      const auto add = [&](const std::string& name, const KeptPairs& of) {
        run.push_back(run_name(o.names, i)), layer.push_back(head.layer), kv_head.push_back(head.kv_head);
        cluster.emplace_back(cluster_name(cluster_of(head))), profile.emplace_back(profile_name(o.profile));
        bin.push_back(name), kept.push_back(of.kept), pairs.push_back(of.pairs), share.push_back(of.share());
      };
      add("all", head.all());
      const std::vector<KeptPairs> bins = head.profile(o.profile);
      for (std::size_t k = 0; k < bins.size(); ++k) add(bin_name(o.profile, static_cast<int>(k)), bins[k]);
    }
  }
  return {{{"run", run},
           {"layer", layer},
           {"kv_head", kv_head},
           {"cluster", cluster},
           {"profile", profile},
           {"bin", bin},
           {"kept", kept},
           {"pairs", pairs},
           {"share", share}}};
}

std::string describe_fingerprints(std::span<const RunRecord* const> runs,
                                  std::span<const RunFingerprints* const> prints, const FingerprintOptions& o) {
  std::string text = "Kept share by " + std::string(profile_name(o.profile)) + " in each KV head of " +
                     run_name(o.names, 0) + ", 0 at the bottom of a cell and 1 at its top, and in head " +
                     head_text(o) + " of every run. " + std::string(kKeptShareDefinition) +
                     " Clusters, by the first rule that holds:";
  const std::vector<int> counts = heads_of_clusters(*prints[0]);
  for (const HeadClusterInfo& info : head_clusters())
    text += " " + std::string(info.name) + " (" + std::to_string(counts[static_cast<std::size_t>(info.cluster)]) +
            "), " + std::string(info.rule) + (info.cluster == HeadCluster::none ? "." : ";");
  for (std::size_t i = 0; i < runs.size(); ++i) {
    text += " " + run_name(o.names, i) + ": " + head_text(o) + " is " + std::string(cluster_in(*prints[i], o)) + ", " +
            cluster_reason(prints[i]->at(o.layer, o.kv_head)) + ". " + describe_run(*runs[i]) +
            describe_preview(std::ranges::find(o.previews, static_cast<int>(i)) != o.previews.end());
  }
  return text;
}

}  // namespace

BuiltFigure fingerprints_figure(std::span<const RunRecord* const> runs, const FingerprintOptions& o,
                                const FigureStyle& style) {
  check_fingerprints(runs, o);  // before the counting
  std::vector<RunFingerprints> prints;
  for (const RunRecord* run : runs) prints.push_back(run_fingerprints(*run));
  std::vector<const RunFingerprints*> pointers;
  for (const RunFingerprints& of_run : prints) pointers.push_back(&of_run);
  return fingerprints_figure(runs, pointers, o, style);
}

BuiltFigure fingerprints_figure(std::span<const RunRecord* const> runs, std::span<const RunFingerprints* const> prints,
                                const FingerprintOptions& o, const FigureStyle& s) {
  check_fingerprints(runs, o);
  const auto clusters = cluster_legend(*prints[0], s.dark);
  const auto of_runs = run_legend(runs, prints, o);
  const bool preview = !o.previews.empty();
  FigureBuilder measure(s.width, 0, s);
  const double of_legend = measure.legend({1, 0}, s.width - 1, clusters, true);
  const bool has_legend = s.height <= 0 || of_legend < s.height / 4;
  const double top = 3 + (has_legend ? of_legend : 0) + (preview ? measure.preview_height() + 2 : 0);
  const TokenSpan bins = fingerprint_bins(prints, o.profile);
  const FingerprintPlaces at = places_of(s, o, top, prints[0]->n_layers, of_runs);

  FigureBuilder b(s.width, at.height, s);
  if (has_legend) b.legend({1, 0}, s.width - 1, clusters);
  draw_fingerprint_cells(b, *prints[0], o, bins, at.grid);
  if (at.head.h > 0) {
    const double legend_top = at.head.y - at.legend - 2;
    b.text(shortened(head_text(o) + (runs.size() > 1 ? "" : ": " + std::string(cluster_in(*prints[0], o))),
                     FontRole::bold, s.label_size, at.head.w),
           {at.head.x, legend_top - s.label_size * 0.5}, s.label_size, s.ink, Anchor::start, Baseline::alphabetic, 0,
           FontRole::bold);
    draw_plot_legend(b, {at.head.x, legend_top}, at.head.w, of_runs);
    draw_fingerprint_curves(b, prints, o, bins, at.head);
    if (preview) b.preview_frame(at.head);
  }
  if (preview) {
    if (std::ranges::find(o.previews, 0) != o.previews.end()) b.preview_frame(at.grid);
    b.preview_badge(s.width - 2, top - 4);
  }
  b.figure().title = "What each head keeps by " + std::string(profile_name(o.profile));
  return {std::move(b.figure()), tidy_fingerprints(prints, o), describe_fingerprints(runs, prints, o)};
}

}  // namespace kvscope::views
