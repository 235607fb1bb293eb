#include "views/figure/stacked_bars.h"

#include <algorithm>
#include <limits>

namespace kvscope::views {

std::vector<std::string> sum_parts(const std::string& name) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t end = std::min(name.find('+', at), name.size());
    parts.push_back(name.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

StudyTable with_sums(const StudyTable& study, const std::vector<std::string>& names) {
  StudyTable table = study;
  for (const std::string& name : names) {
    const std::vector<std::string> parts = sum_parts(name);
    const auto usable = [&](const std::string& part) {
      const StudyColumn* column = study.column(part);
      return column != nullptr && !column->is_text;
    };
    if (parts.size() < 2 || table.column(name) || !std::ranges::all_of(parts, usable)) continue;
    StudyColumn sum{.name = name, .units = study.column(parts[0])->units, .meaning = ""};
    sum.numbers.assign(study.n_points(), 0);
    for (const std::string& part : parts) {
      for (std::size_t i = 0; i < sum.numbers.size(); ++i) sum.numbers[i] += study.column(part)->numbers[i];
    }
    table.columns.push_back(std::move(sum));
  }
  return table;
}

double first_part(const StudyPanel& parts, const std::string& series, const StudyPoint& point) {
  const auto of = std::ranges::find(parts.series, series, &StudySeries::name);
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  if (of == parts.series.end()) return kNone;
  const auto same = std::ranges::find(of->points, point.x, &StudyPoint::x);
  return same == of->points.end() ? kNone : same->y;
}

void draw_pale_part(FigureBuilder& b, Box box) {
  b.add(FillBox{box, with_alpha(b.style().paper, 165)});
  b.line({box.x, box.bottom()}, {box.right(), box.bottom()}, b.style().ink, 0.5);
}

std::string part_label(const std::string& column) {
  if (column == "cache_bytes") return "KV cache";
  if (column == "weight_bytes") return "weights";
  return column.substr(0, column.rfind('_'));
}

}  // namespace kvscope::views
