#include <cmath>

#include "app/studies/hybrid/hybrid_table.h"
#include "app/support/table_text.h"
#include "engine/core/support/text.h"

namespace kvscope::app {
namespace {

std::string cell(const StudyTable& table, std::string_view name, std::size_t row, int decimals, double scale = 1) {
  const StudyColumn* column = table.column(name);
  if (column == nullptr || std::isnan(column->numbers[row])) return "";
  return fixed_text(scale * column->numbers[row], decimals);
}

double mean_tau(const StudyTable& table) {
  const StudyArray* tau = table.array("kendall_tau");
  double sum = 0, n = 0;
  for (std::int64_t i = 0; i < tau->shape[0]; ++i)
    for (std::int64_t j = 0; j < i; ++j, ++n) sum += tau->values[static_cast<std::size_t>(i * tau->shape[0] + j)];
  return n > 0 ? sum / n : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

std::string hybrid_text(const StudyTable& table) {
  const bool has_accuracy = table.column("accuracy") != nullptr;
  std::vector<std::vector<std::string>> rows = {
      {"point", "heads", "coverage", "MB", "NLL", "- dense", "95 % from", "to", "by piece", "again"}};
  if (has_accuracy) rows[0].push_back("accuracy");
  for (std::size_t i = 0; i < table.n_points(); ++i) {
    rows.push_back({table.column("point")->texts[i], cell(table, "n_global", i, 0), cell(table, "coverage", i, 4),
                    cell(table, "cache_bytes", i, 1, 1e-6), cell(table, "nll", i, 4),
                    cell(table, "nll_difference", i, 4), cell(table, "nll_difference_low", i, 4),
                    cell(table, "nll_difference_high", i, 4), cell(table, "turnover_pieces", i, 3),
                    cell(table, "turnover_again", i, 3)});
    if (has_accuracy) rows.back().push_back(cell(table, "accuracy", i, 3));
  }
  const auto facts = nlohmann::json::parse(table.facts);
  std::string text = format_table(rows);
  const double tau = mean_tau(table);
  text += "signal " + facts.value("signal", "") + ", " + std::to_string(facts.value("pieces", 0)) + " pieces of " +
          std::to_string(facts.value("length", 0)) + " tokens";
  if (!std::isnan(tau)) text += "; mean Kendall's tau-b between the head rankings of two pieces: " + fixed_text(tau, 3);
  text += "\n";
  text += "MB of keys and values at " + std::to_string(facts.value("context", 0)) +
          " tokens; by piece, again: turnover of d between pieces, and under its own heads\n";
  return text;
}

nlohmann::ordered_json point_json(const StudyTable& table, std::size_t row) {
  nlohmann::ordered_json point;
  for (const StudyColumn& column : table.columns)
    point[column.name] =
        column.is_text ? nlohmann::ordered_json(column.texts[row]) : number_or_null(column.numbers[row]);
  return point;
}

nlohmann::ordered_json hybrid_json(const StudyTable& table) {
  nlohmann::ordered_json points = nlohmann::ordered_json::array(), order = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < table.n_points(); ++i) points.push_back(point_json(table, i));
  const StudyArray& signal = *table.array("signal_mean");
  for (const int head : ranking(signal.values))
    order.push_back(
        {{"layer", head / signal.shape[1]},
         {"kv_head", head % signal.shape[1]},
         {"signal", number_or_null(signal.values[static_cast<std::size_t>(head)])},
         {"deviation", number_or_null(table.array("signal_deviation")->values[static_cast<std::size_t>(head)])}});
  return {{"kind", table.kind},
          {"facts", nlohmann::ordered_json::parse(table.facts)},
          {"points", points},
          {"ranking", order},
          {"kendall_tau", number_or_null(mean_tau(table))}};
}

}  // namespace kvscope::app
