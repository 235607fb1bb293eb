#include "app/studies/eval/eval_table.h"

#include <algorithm>
#include <cmath>

#include "app/support/table_text.h"
#include "app/support/usage.h"
#include "engine/core/study/table/study_cost.h"
#include "engine/core/support/json_fields.h"
#include "engine/core/support/text.h"

namespace kvscope::app {
namespace {

std::string difference(const EvalRow& row, const char* plus_minus) {
  if (std::isnan(row.nll_difference)) return "";
  const std::string sign = row.nll_difference < 0 ? "" : "+", text = sign + fixed_text(row.nll_difference, 4);
  return std::isnan(row.nll_difference_se) ? text : text + plus_minus + fixed_text(row.nll_difference_se, 4);
}

std::string interval(const EvalRow& row) {
  return std::isnan(row.low) ? "" : fixed_text(row.low, 3) + " - " + fixed_text(row.high, 3);
}

using Cells = std::vector<std::vector<std::string>>;

/// Heading and rows as people read them, without columns that are empty throughout.
Cells shown(std::span<const EvalRow> rows, const char* plus_minus) {
  const bool samples = std::ranges::any_of(rows, [](const EvalRow& row) { return !std::isnan(row.rollouts); });
  Cells cells = {{"item",     "policy",     "n",           "rollouts",      accuracy_title(rows), "95 %",    "of dense",
                  "NLL",      "perplexity", "NLL - dense", "cache size",    "at the end",         "density", "evicted",
                  "triggers", "overflows",  "read",        "oracle recall", "output error",       "tokens/s"}};
  for (const EvalRow& row : rows) {
    cells.push_back({row.item,
                     row.policy,
                     std::to_string(row.n),
                     table_number(row.rollouts, 0),
                     table_number(row.accuracy, 3),
                     interval(row),
                     table_number(row.relative, 3),
                     table_number(row.nll, 4),
                     table_number(row.perplexity, 3),
                     difference(row, plus_minus),
                     table_number(row.cache_size, 3),
                     table_number(row.cache_size_end, 3),
                     table_number(row.density, 3),
                     samples ? table_number(row.evicted, 0) : "",
                     samples ? table_number(row.triggers, 0) : "",
                     samples ? table_number(row.overflows, 0) : "",
                     table_number(row.read_share, 3),
                     table_number(row.recall, 3),
                     table_number(row.output_error, 4),
                     table_number(row.tokens_per_s, 1)});
  }
  return without_empty_columns(std::move(cells));
}

/// A line if the policies' windows differ; the dense policy is the first.
std::string window_line(std::span<const EvalRow> rows, const char* begin) {
  std::vector<double> windows;
  for (const EvalRow& row : rows)
    if (row.policy != rows.front().policy) windows.push_back(row.window);
  const auto spread = window_spread(windows);
  return spread ? begin + spread->warning() + "\n" : "";
}

}  // namespace

std::string latex_tabular(const Cells& cells) {
  std::string text = "\\begin{tabular}{ll" + std::string(cells[0].size() - 2, 'r') + "}\n\\toprule\n";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i == 1 || (i > 1 && cells[i][0] != cells[i - 1][0])) text += "\\midrule\n";
    for (std::size_t j = 0; j < cells[i].size(); ++j) {
      const bool is_math = cells[i][j].find("$") != std::string::npos && j > 1;  // our own, with numbers around it
      text += (j == 0 ? "" : " & ") + (is_math ? cells[i][j] : latex_text(cells[i][j]));
    }
    text += " \\\\\n";
  }
  return text + "\\bottomrule\n\\end{tabular}\n";
}

nlohmann::ordered_json eval_json(const EvalFacts& facts, std::span<const EvalRow> rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const EvalRow& row : rows) list.push_back(json_of_fields(row));
  return {{"facts", json_of_fields(facts)}, {"rows", list}};
}

std::string json_line(const nlohmann::ordered_json& object) {
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

TableFormat table_format(const std::string& name) {
  if (name == "text") return TableFormat::text;
  if (name == "json") return TableFormat::json;
  if (name == "latex") return TableFormat::latex;
  usage_error("--format", "'" + name + "'", "text, json or latex");
}

std::string eval_table(const EvalFacts& facts, std::span<const EvalRow> rows, TableFormat format) {
  switch (format) {
    case TableFormat::json:
      return json_line(eval_json(facts, rows));
    case TableFormat::latex:
      return rows.empty() ? "" : latex_tabular(shown(rows, " $\\pm$ ")) + window_line(rows, "% ");
    case TableFormat::text:
      break;
  }
  if (rows.empty()) return "";
  return format_table(shown(rows, " +- ")) + facts.model + ", " + facts.device + ", " + facts.dtype + ", length " +
         std::to_string(facts.length) + " tokens\n" + window_line(rows, "");
}

std::string latex_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '\\':
        out += "\\textbackslash{}";
        break;
      case '~':
        out += "\\textasciitilde{}";
        break;
      case '^':
        out += "\\textasciicircum{}";
        break;
      case '&':
      case '%':
      case '$':
      case '#':
      case '_':
      case '{':
      case '}':
        out += '\\';
        [[fallthrough]];
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace kvscope::app
