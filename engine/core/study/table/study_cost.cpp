#include "engine/core/study/table/study_cost.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/core/support/text.h"

namespace kvscope {

std::string study_cost(const StudyTable& study) {
  const auto request = nlohmann::json::parse(study.request, nullptr, false);
  if (request.is_object() && request.contains("cost") && request["cost"].is_string())
    return request["cost"].get<std::string>();
  return study.column("cache_size") != nullptr ? "cache_size" : "density";
}

std::string WindowSpread::text() const { return fixed_text(least, 0) + " to " + fixed_text(greatest, 0); }

std::string WindowSpread::warning() const {
  return "density leaves out the windows, which differ (" + text() + " tokens): compare by cache size";
}

std::optional<WindowSpread> window_spread(std::span<const double> windows) {
  std::optional<WindowSpread> spread;
  for (const double window : windows) {
    if (std::isnan(window)) continue;
    if (!spread) spread = {window, window};
    spread->least = std::min(spread->least, window);
    spread->greatest = std::max(spread->greatest, window);
  }
  // A window that is a share of the text differs by a token or so between pieces.
  if (spread && spread->greatest - spread->least < 1.5) spread.reset();
  return spread;
}

std::optional<WindowSpread> window_spread(const StudyTable& study) {
  const StudyColumn *windows = study.column("window"), *dense = study.column("is_dense");
  if (windows == nullptr || windows->is_text) return std::nullopt;
  std::vector<double> values = windows->numbers;
  for (std::size_t row = 0; dense != nullptr && !dense->is_text && row < values.size(); ++row)
    if (dense->numbers[row] > 0) values[row] = std::nan("");
  return window_spread(values);
}

}  // namespace kvscope
