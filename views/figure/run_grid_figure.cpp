#include "views/figure/run_grid_figure.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/policy/scorer_text.h"
#include "engine/core/support/error.h"
#include "views/figure/caption.h"
#include "views/figure/figure_builder.h"
#include "views/figure/fonts.h"
#include "views/figure/head_map_panel.h"
#include "views/figure/layer_head_map_figure.h"
#include "views/figure/layer_strip_image.h"

namespace kvscope::views {
namespace {

constexpr double kGapOfCells = 8, kMostNamesShare = 0.2, kLeastCell = 12;  // points; of the width

void check_grid(std::span<const RunRecord* const> runs, std::size_t n_measures, const RunGridOptions& o) {
  const auto refuse_grid = [](const std::string& found, const std::string& expected) {
    throw Error({ExitCode::bad_input, "", "run_grid", found, expected, ""});
  };
  if (runs.empty() || runs.size() > kMostGridRuns)
    refuse_grid(std::to_string(runs.size()) + " runs", "1 to " + std::to_string(kMostGridRuns));
  if (n_measures != runs.size() || (!o.names.empty() && o.names.size() != runs.size()))
    refuse_grid("names of another number of runs", "a name for each run");
  for (const RunRecord* run : runs) {
    if (const std::string_view why = why_not_in_grid(*run, *runs[0]); !why.empty())
      refuse_grid("a run with " + std::string(why), "runs of one prompt and one model");
  }
}

std::string name_in_grid(const RunGridOptions& o, std::size_t i) {
  return o.names.empty() ? "run " + std::to_string(i + 1) : o.names[i];
}

RunGrid grid_of(std::span<const RunRecord* const> runs, std::span<const RunMeasures> measures) {
  std::vector<GridRun> listed;
  for (std::size_t i = 0; i < runs.size(); ++i)
    listed.push_back({method_name(runs[i]->policy), measures[i][RunMeasure::cache_size]});
  return run_grid(listed);
}

GridPicture picture_of(const RunRecord& run, const RunGridOptions& o, TokenSpan span, int most_columns) {
  const std::int32_t q = resolve_query(run, o.q);
  if (o.cells == RunGridCells::heads) {
    HeadMap map = head_metric(run, o.metric, q);
    return {map.n_layers, map.n_kv_heads, std::move(map.values), {}};
  }
  const SpanCells cells(span, most_columns);
  LayerStrip strip = layer_strip(run, q, cells);
  GridPicture picture{strip.rows, strip.columns, std::move(strip.heads), {}};
  for (int c = 0; c < cells.cells; ++c) picture.tokens.push_back(cells.tokens(c));
  return picture;
}

/// One for all of them.
ColourScale grid_scale(std::span<const GridPicture> pictures, const RunGridOptions& o, int n_kv_heads) {
  if (o.cells == RunGridCells::tokens)
    return {o.colormap, 0, static_cast<double>(n_kv_heads), 0, "KV heads that keep it"};
  const MetricInfo& info = metric_info(o.metric);
  ColourScale scale{o.colormap, 0, 1, 0, std::string(info.title)};
  double lo = std::numeric_limits<double>::infinity(), hi = -lo;
  for (const GridPicture& picture : pictures)
    for (const float v : picture.values)
      if (!std::isnan(v)) lo = std::min<double>(lo, v), hi = std::max<double>(hi, v);
  if ((o.fit || !info.is_share) && hi > lo) scale.lo = lo, scale.hi = hi;
  return scale;
}

std::string size_text(const RunGrid::Column& column) {
  if (std::isnan(column.lo)) return "no cache size";
  const std::string lo = format_number(column.lo, 2), hi = format_number(column.hi, 2);
  return lo == hi ? lo : lo + " to " + hi;
}

/// "0.6 · 2.31": the cache size and the measure, as far as there are any.
std::string cell_caption(const RunMeasures& measures, RunMeasure measure) {
  std::string text;
  for (const RunMeasure of : {RunMeasure::cache_size, measure}) {
    if (std::isnan(measures[of]) || (of == measure && measure == RunMeasure::cache_size && !text.empty())) continue;
    text += (text.empty() ? "" : " · ") + format_number(measures[of]);
  }
  return text;
}

/// Where the parts go: x and y of the first picture, its size, and the pitch.
struct GridPlaces {
  double left = 0, top = 0, w = 0, h = 0, caption = 0, bar = 0, height = 0;
  Box cell(std::size_t row, std::size_t column) const {
    return {left + static_cast<double>(column) * (w + kGapOfCells), top + static_cast<double>(row) * (h + caption), w,
            h};
  }
};

GridPlaces places_of_grid(const RunGrid& grid, const RunGridOptions& o, const ColourScale& scale, int n_layers,
                          const FigureStyle& s) {
  FigureBuilder measure(s.width, 0, s);
  GridPlaces at;
  double names = 0;
  for (const std::string& method : grid.methods)
    names = std::max(names, text_width(method, FontRole::bold, s.label_size));
  at.left = std::min(names, s.width * kMostNamesShare) + 6;
  at.top = s.label_size * 1.6, at.caption = s.tick_size * 1.9;
  at.bar = measure.colour_bar_width(scale) + 6;
  const auto columns = static_cast<double>(grid.columns.size()), rows = static_cast<double>(grid.methods.size());
  at.w = std::max(kLeastCell, (s.width - at.left - at.bar - columns * kGapOfCells) / columns);
  const double note = s.tick_size * 1.8;
  const double natural = std::clamp(o.cells == RunGridCells::heads ? at.w : at.w / 2, 1.6 * n_layers, 6.0 * n_layers);
  at.h = s.height > 0 ? std::max(kLeastCell, (s.height - at.top - note) / rows - at.caption) : natural;
  at.height = at.top + rows * (at.h + at.caption) + note;
  return at;
}

FigureData tidy_grid(std::span<const RunRecord* const> runs, std::span<const RunMeasures> measures,
                     std::span<const GridPicture> pictures, const RunGrid& grid, const RunGridOptions& o) {
  std::vector<std::string> run, policy, method;
  std::vector<std::int64_t> column, layer, kv_head, first, last;
  std::vector<double> size, measured, value;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::size_t of_run = grid.place_of(i).column;
    const GridPicture& picture = pictures[i];
    for (int r = 0; r < picture.rows; ++r) {
      for (int c = 0; c < picture.columns; ++c) {
        run.push_back(name_in_grid(o, i)), policy.push_back(runs[i]->policy.to_string());
        method.push_back(method_name(runs[i]->policy));
        column.push_back(static_cast<std::int64_t>(of_run) + 1);
        size.push_back(measures[i][RunMeasure::cache_size]), measured.push_back(measures[i][o.measure]);
        layer.push_back(r), kv_head.push_back(c);
        value.push_back(picture.values[static_cast<std::size_t>(r * picture.columns + c)]);
        if (picture.tokens.empty()) continue;
        first.push_back(picture.tokens[static_cast<std::size_t>(c)].begin);
        last.push_back(picture.tokens[static_cast<std::size_t>(c)].end - 1);
      }
    }
  }
  FigureData data{{{"run", run}, {"policy", policy}, {"method", method}, {"column", column}, {"cache_size", size}}};
  if (o.measure != RunMeasure::cache_size) data.columns.push_back({std::string(info_of(o.measure).name), measured});
  data.columns.push_back({"layer", layer});
  if (first.empty()) {
    data.columns.push_back({"kv_head", kv_head}), data.columns.push_back({"value", value});
  } else {
    data.columns.push_back({"first_token", first}), data.columns.push_back({"last_token", last});
    data.columns.push_back({"kv_heads", value});
  }
  return data;
}

std::string note_of(RunMeasure measure) {
  const std::string second = measure == RunMeasure::cache_size ? "" : " · " + label_of(measure);
  return "below each: cache size" + second;
}

std::string describe_grid(std::span<const RunRecord* const> runs, const RunGridOptions& o) {
  const MetricInfo& info = metric_info(o.metric);
  std::string text = o.cells == RunGridCells::heads
                         ? std::string(info.title) + " of each layer (down) and KV head (across)"
                         : "KV heads of each layer (down) that keep a token (across)";
  text += o.q < 0 ? " at the last query" : " at query " + std::to_string(o.q);
  text += " of " + std::to_string(runs.size()) + (runs.size() == 1 ? " run" : " runs") +
          " over one prompt. Rows: methods. Columns: caches of about the same normalised size (" +
          std::string(info_of(RunMeasure::cache_size).definition) + "). Below each: cache size";
  if (o.measure != RunMeasure::cache_size)
    text += " and " + label_of(o.measure) + " (" + std::string(info_of(o.measure).definition) + ")";
  text += ".";
  if (o.cells == RunGridCells::heads) {
    text += " Definition: " + std::string(info.definition) + ".";
    if (info.needs_oracle) text += " Each run is judged by its own oracle.";
  }
  return text + " " + describe_run(*runs[0]);
}

}  // namespace

std::vector<GridPicture> grid_pictures(std::span<const RunRecord* const> runs, std::span<const RunMeasures> measures,
                                       const RunGridOptions& o, double width) {
  check_grid(runs, measures.size(), o);
  std::int32_t end = std::numeric_limits<std::int32_t>::max();
  for (const RunRecord* run : runs) end = std::min(end, resolve_query(*run, o.q) + 1);
  const auto columns = static_cast<int>(grid_of(runs, measures).columns.size());
  const int most = std::max(8, static_cast<int>(width * 0.8 / std::max(1, columns)));
  std::vector<GridPicture> pictures;
  for (const RunRecord* run : runs) pictures.push_back(picture_of(*run, o, {0, end}, most));
  return pictures;
}

BuiltFigure run_grid_figure(std::span<const RunRecord* const> runs, std::span<const RunMeasures> measures,
                            std::span<const GridPicture> pictures, const RunGridOptions& o, const FigureStyle& s) {
  const RunGrid grid = grid_of(runs, measures);
  const int n_layers = runs[0]->evict_at.n_layers(), n_kv_heads = runs[0]->evict_at.n_kv_heads();
  const ColourScale scale = grid_scale(pictures, o, n_kv_heads);
  const GridPlaces at = places_of_grid(grid, o, scale, n_layers, s);

  FigureBuilder b(s.width, at.height, s);
  for (std::size_t c = 0; c < grid.columns.size(); ++c) {
    const Box first = at.cell(0, c);
    const std::string title = (c == 0 ? "cache size " : "") + size_text(grid.columns[c]);
    b.text(shortened(title, FontRole::text, s.label_size, at.w + kGapOfCells / 2),
           {first.x, at.top - s.label_size * 0.5}, s.label_size, s.ink);
  }
  for (std::size_t r = 0; r < grid.methods.size(); ++r) {
    const Box first = at.cell(r, 0);
    b.text(shortened(grid.methods[r], FontRole::bold, s.label_size, at.left - 6), {1, first.y + at.h / 2}, s.label_size,
           s.ink, Anchor::start, Baseline::middle, 0, FontRole::bold);
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunGrid::Place place = grid.place_of(i);
    const Box box = at.cell(place.row, place.column);
    std::vector<Colour> pixels;
    for (const float v : pictures[i].values) pixels.push_back(std::isnan(v) ? Colour{0, 0, 0, 0} : scale(v));
    b.heat_map("run." + std::to_string(i), box, pictures[i].columns, pictures[i].rows, std::move(pixels));
    b.text(shortened(cell_caption(measures[i], o.measure), FontRole::text, s.tick_size, at.w + kGapOfCells / 2),
           {box.x, box.bottom() + s.tick_size * 0.4}, s.tick_size, s.muted, Anchor::start, Baseline::top);
  }
  const double bar_height = at.cell(grid.methods.size() - 1, 0).bottom() - at.top;
  b.colour_bar({s.width - at.bar + 2, at.top, 6, bar_height}, scale);
  b.text(shortened(note_of(o.measure), FontRole::text, s.tick_size, s.width - at.left), {at.left, at.height - 2},
         s.tick_size, s.muted);
  b.figure().title = "Methods by cache size";
  std::vector<HeadMap> maps;
  for (const GridPicture& picture : pictures) maps.push_back({picture.rows, picture.columns, picture.values, {}});
  return {std::move(b.figure()), tidy_grid(runs, measures, pictures, grid, o),
          describe_grid(runs, o) + std::string(hatch_note(maps))};
}

BuiltFigure run_grid_figure(std::span<const RunRecord* const> runs, const RunGridOptions& o, const FigureStyle& s) {
  std::vector<RunMeasures> measures;
  check_grid(runs, runs.size(), o);
  for (const RunRecord* run : runs) measures.push_back(measure_run(*run));
  return run_grid_figure(runs, measures, grid_pictures(runs, measures, o, s.width), o, s);
}

}  // namespace kvscope::views
