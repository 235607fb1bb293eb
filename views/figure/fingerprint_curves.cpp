#include "views/figure/fingerprint_curves.h"

#include <algorithm>

#include "views/figure/fonts.h"
#include "views/figure/plot.h"

namespace kvscope::views {
namespace {

/// "64", "2k".
std::string age_label(std::int64_t age) { return age >= 1024 ? std::to_string(age / 1024) + "k" : std::to_string(age); }

/// Of ages and positions the edges of bins, of kinds the middles.
std::vector<Tick> bin_ticks(const Box& box, FingerprintProfile profile, TokenSpan bins, double size) {
  constexpr std::string_view kBrief[kTokenKinds] = {"digits", "caps", "words", "punct.", "space", "special"};
  std::vector<Tick> ticks;
  const double pitch = box.w / bins.size();
  if (profile == FingerprintProfile::kind) {
    for (int bin = 0; bin < kTokenKinds; ++bin)
      ticks.push_back({box.x + (bin + 0.5) * pitch,
                       shortened(std::string(kBrief[bin]), FontRole::text, size, std::max(1.0, pitch - 2))});
    return ticks;
  }
  const bool age = profile == FingerprintProfile::age;
  const int stride = tick_stride(bins.size() + 1, pitch, text_width(age ? "0000 " : "100 % ", FontRole::text, size));
  for (int edge = bins.begin; edge <= bins.end; edge += stride)
    ticks.push_back({box.x + (edge - bins.begin) * pitch,
                     age ? age_label(age_bin_begin(edge)) : std::to_string(edge * 100 / kPositionBins) + " %"});
  return ticks;
}

void draw_fingerprint_axes(FigureBuilder& b, const Box& box, FingerprintProfile profile, TokenSpan bins) {
  const FigureStyle& s = b.style();
  std::vector<Tick> y;
  for (const double share : {0.0, 0.5, 1.0}) {
    const double at = box.bottom() - share * box.h;
    b.line({box.x, at}, {box.right(), at}, mix(s.paper, s.rule, 0.25), s.rule_width * 0.8);
    y.push_back({at, format_number(share)});
  }
  b.y_ticks(box, y);
  b.x_ticks(box, bin_ticks(box, profile, bins, s.tick_size));
  constexpr std::string_view kLabels[] = {"Token age (queries)", "Position in the text", "Token class"};
  const double below = box.bottom() + FigureBuilder::kTickLength + 2 + s.tick_size * 1.25 + s.label_size * 0.6;
  b.label(shortened(std::string(kLabels[static_cast<std::size_t>(profile)]), FontRole::text, s.label_size, box.w),
          {box.centre().x, below});
  if (text_width("Kept share", FontRole::text, s.label_size) <= box.h + 2 * s.tick_size)
    b.label("Kept share", {box.x - fingerprint_curves_left(s) + s.label_size / 2 + 1, box.centre().y}, Anchor::middle,
            90);
}

void draw_curve(FigureBuilder& b, const Box& box, const std::vector<KeptPairs>& shares, TokenSpan bins, std::size_t run,
                bool line) {
  const SeriesLook look = series_look(run, b.style().dark);
  std::vector<Point> points;
  const auto end_line = [&] {
    if (line && points.size() > 1) b.add(Polyline{points, look.colour, 1.1, look.dash});
    for (const Point& point : points) draw_mark(b, look.mark, point, 3.6, look.colour);
    points.clear();
  };
  for (int bin = bins.begin; bin < std::min<int>(bins.end, std::ssize(shares)); ++bin) {
    const KeptPairs& pairs = shares[static_cast<std::size_t>(bin)];
    if (pairs.pairs == 0) {
      end_line();
      continue;
    }
    points.push_back({box.x + (bin - bins.begin + 0.5) * box.w / bins.size(), box.bottom() - pairs.share() * box.h});
  }
  end_line();
}

}  // namespace

void draw_fingerprint_curves(FigureBuilder& b, std::span<const RunFingerprints* const> prints,
                             const FingerprintOptions& o, TokenSpan bins, const Box& box) {
  draw_fingerprint_axes(b, box, o.profile, bins);
  for (std::size_t run = prints.size(); run-- > 0;)  // A on top
    draw_curve(b, box, prints[run]->at(o.layer, o.kv_head).profile(o.profile), bins, run,
               o.profile != FingerprintProfile::kind);
  b.frame(box);
  b.figure().panels.push_back({"head", box, bins.size(), 1});
}

double fingerprint_curves_left(const FigureStyle& s) {
  return s.label_size + 4 + text_width("0.0", FontRole::text, s.tick_size) + 2 + FigureBuilder::kTickLength + 1;
}

}  // namespace kvscope::views
