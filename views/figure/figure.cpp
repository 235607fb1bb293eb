#include "views/figure/figure.h"

#include <algorithm>
#include <cmath>

#include "engine/core/support/csv.h"
#include "engine/core/support/text.h"

namespace kvscope::views {

std::optional<std::pair<int, int>> Panel::cell_at(Point p) const {
  if (columns <= 0 || rows <= 0 || !box.contains(p)) return std::nullopt;
  const int column = static_cast<int>((p.x - box.x) / box.w * columns);
  const int row = static_cast<int>((p.y - box.y) / box.h * rows);
  return std::pair{std::min(row, rows - 1), std::min(column, columns - 1)};
}

Box Panel::cell(int row, int column) const {
  const double w = box.w / columns, h = box.h / rows;
  return {box.x + column * w, box.y + row * h, w, h};
}

const Panel* Figure::panel(std::string_view id) const {
  const auto it = std::find_if(panels.begin(), panels.end(), [&](const Panel& p) { return p.id == id; });
  return it == panels.end() ? nullptr : &*it;
}

std::size_t FigureColumn::size() const {
  return std::visit([](const auto& v) { return v.size(); }, values);
}

namespace {

std::string csv_field(double v) { return std::isnan(v) ? "" : number_text(v, 9); }

std::string csv_field(std::int64_t v) { return std::to_string(v); }

std::string csv_field(const std::string& v) { return csv_text(v); }

}  // namespace

std::string csv_text(const std::string& v) { return csv_cell(v); }

std::string FigureData::to_csv() const {
  std::string csv;
  for (std::size_t c = 0; c < columns.size(); ++c) csv += (c ? "," : "") + csv_field(columns[c].name);
  csv += '\n';
  for (std::size_t r = 0; r < n_rows(); ++r) {
    for (std::size_t c = 0; c < columns.size(); ++c) {
      if (c) csv += ',';
      csv += std::visit([r](const auto& v) { return csv_field(v[r]); }, columns[c].values);
    }
    csv += '\n';
  }
  return csv;
}

}  // namespace kvscope::views
