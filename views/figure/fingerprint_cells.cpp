#include "views/figure/fingerprint_cells.h"

#include <algorithm>

#include "views/figure/colormap.h"
#include "views/figure/fonts.h"

namespace kvscope::views {
namespace {

constexpr double kTint = 0.16;  // of the cluster's colour on the cell's ground

/// Each run of bins that have pairs, as one area over a line at 0: a bin without a pair has neither.
void draw_spark(FigureBuilder& b, const Box& box, const std::vector<KeptPairs>& shares, TokenSpan bins, Colour colour) {
  const double pitch = box.w / bins.size();
  const auto has_pairs = [&](int bin) {
    return bins.contains(bin) && bin < std::ssize(shares) && shares[static_cast<std::size_t>(bin)].pairs > 0;
  };
  for (int bin = bins.begin; bin < bins.end; ++bin) {
    std::vector<Point> upper, lower;
    for (; has_pairs(bin); ++bin) {
      const double x = box.x + pitch * (bin - bins.begin);
      const double y = box.bottom() - shares[static_cast<std::size_t>(bin)].share() * box.h;
      for (const double at : {x, x + pitch}) upper.push_back({at, y}), lower.push_back({at, box.bottom()});
    }
    if (upper.empty()) continue;
    const Point from = lower.front(), to = lower.back();
    upper.insert(upper.end(), lower.rbegin(), lower.rend());
    b.add(Polygon{std::move(upper), colour});
    b.line(from, to, colour, 0.5);
  }
}

/// The cluster's first letter where there is room, for a print in grey; by cluster the head's name too.
void write_cell(FigureBuilder& b, const Box& cell, const HeadFingerprint& head, bool with_name) {
  const FigureStyle& s = b.style();
  const double size = s.tick_size * 0.9;
  if (cell.h < size * 1.8 || cell.w < size * 2.2) return;
  const std::string letter(1, static_cast<char>(cluster_name(cluster_of(head))[0] - 'a' + 'A'));
  b.text(letter, {cell.right() - 2, cell.y + 2}, size, s.ink, Anchor::end, Baseline::top);
  const std::string name = "L" + std::to_string(head.layer) + " H" + std::to_string(head.kv_head);
  if (with_name && text_width(name + letter + "  ", FontRole::text, size) <= cell.w)
    b.text(name, {cell.x + 2, cell.y + 2}, size, s.ink, Anchor::start, Baseline::top);
}

void draw_cell(FigureBuilder& b, const Box& cell, const HeadFingerprint& head, const FingerprintOptions& o,
               TokenSpan bins) {
  const FigureStyle& s = b.style();
  const HeadCluster cluster = cluster_of(head);
  const Colour colour = cluster_colour(cluster, s.dark);
  if (cluster == HeadCluster::none) return b.add(Hatch{cell.inset(0.5), mix(s.paper, s.muted, 0.55), 3, 0.4});
  const Box spark = spark_box(cell);
  if (spark.w < kLeastSparkWidth || spark.h < kLeastSparkHeight) return b.add(FillBox{cell.inset(0.25), colour});
  b.add(FillBox{spark, mix(s.paper, colour, kTint)});
  draw_spark(b, spark, head.profile(o.profile), bins, colour);
  write_cell(b, cell, head, o.order == FingerprintOrder::cluster);
}

void draw_grid_axes(FigureBuilder& b, const Box& box, const FingerprintGrid& grid, FingerprintOrder order) {
  const FigureStyle& s = b.style();
  const double line = s.tick_size * 1.25;
  if (order == FingerprintOrder::cluster)
    return b.label(shortened("Heads, by cluster, then by layer", FontRole::text, s.label_size, box.w),
                   {box.centre().x, box.bottom() + 2 + s.label_size * 0.6});
  std::vector<Tick> x, y;
  const double w = box.w / grid.columns, h = box.h / grid.rows;
  const int columns = tick_stride(grid.columns, w, text_width("00 ", FontRole::text, s.tick_size));
  for (int head = 0; head < grid.columns; head += columns)
    x.push_back({box.x + (head + 0.5) * w, std::to_string(head)});
  for (int layer = 0, rows = tick_stride(grid.rows, h, line); layer < grid.rows; layer += rows)
    y.push_back({box.y + (layer + 0.5) * h, std::to_string(layer)});
  b.x_ticks(box, x);
  b.y_ticks(box, y);
  b.label("KV head", {box.centre().x, box.bottom() + FigureBuilder::kTickLength + 2 + line + s.label_size * 0.6});
  if (text_width("Layer", FontRole::text, s.label_size) <= box.h)
    b.label("Layer", {s.label_size / 2 + 1, box.centre().y}, Anchor::middle, 90);
}

}  // namespace

Box spark_box(const Box& cell) { return cell.inset(std::min(1.0, std::min(cell.w, cell.h) * 0.1)); }

void draw_fingerprint_cells(FigureBuilder& b, const RunFingerprints& prints, const FingerprintOptions& o,
                            TokenSpan bins, const Box& box) {
  const FingerprintGrid grid = fingerprint_grid(prints, o.order, box);
  const Panel panel{"grid", box, grid.columns, grid.rows};
  for (std::size_t i = 0; i < grid.heads.size(); ++i) {
    if (grid.heads[i] < 0) continue;
    const int row = static_cast<int>(i) / grid.columns, column = static_cast<int>(i) % grid.columns;
    draw_cell(b, panel.cell(row, column), prints.heads[static_cast<std::size_t>(grid.heads[i])], o, bins);
  }
  b.frame(box);
  draw_grid_axes(b, box, grid, o.order);
  b.figure().panels.push_back(panel);
}

}  // namespace kvscope::views
