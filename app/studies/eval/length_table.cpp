#include "app/studies/eval/length_table.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "app/support/table_text.h"

namespace kvscope::app {
namespace {

using Rows = std::vector<EvalRow>;

/// Of all lengths, in the order in which they first come.
std::vector<std::string> names_of(std::span<const EvalResult> results, std::vector<std::string> EvalFacts::*member) {
  std::vector<std::string> names;
  for (const EvalResult& result : results) {
    for (const std::string& name : result.facts.*member)
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

/// A name in two columns, then accuracy, NLL and cache size of every length.
std::vector<std::string> line(const std::string& item, const std::string& policy, std::span<const EvalRow> lengths) {
  std::vector<std::string> cells = {item, policy};
  for (const EvalRow& row : lengths) cells.push_back(table_number(row.accuracy, 3));
  for (const EvalRow& row : lengths) cells.push_back(table_number(row.nll, 4));
  for (const EvalRow& row : lengths) cells.push_back(table_number(row.cache_size, 3));
  return cells;
}

std::vector<std::string> heading(std::span<const EvalResult> results, const char* accuracy) {
  std::vector<std::string> cells = {"item", "policy"};
  for (const char* what : {accuracy, "NLL", "cache size"})
    for (const EvalResult& result : results)
      cells.push_back(std::string(what) + " " + std::to_string(result.facts.length));
  return cells;
}

std::vector<std::vector<std::string>> cells_of(std::span<const EvalResult> results) {
  std::vector<Rows> known;
  Rows all_rows;
  for (const EvalResult& result : results) {
    known.push_back(summarise(result.answers));
    all_rows.insert(all_rows.end(), known.back().begin(), known.back().end());
  }
  std::vector<std::vector<std::string>> cells = {heading(results, accuracy_title(all_rows))};
  const std::vector<std::string> policies = names_of(results, &EvalFacts::policies);
  for (const std::string& item : names_of(results, &EvalFacts::items)) {
    for (const std::string& policy : policies) {
      Rows lengths(results.size());
      bool is_there = false;
      for (std::size_t i = 0; i < known.size(); ++i) {
        for (const EvalRow& row : known[i])
          if (row.item == item && row.policy == policy) lengths[i] = row, is_there = true;
      }
      if (is_there) cells.push_back(line(item, policy, lengths));
    }
  }
  const std::vector<EvalAverage> all = averages(results);
  for (const std::string& policy : policies) {
    Rows lengths(results.size());
    int n_tasks = 0;
    for (const EvalAverage& average : all) {
      if (average.policy != policy) continue;
      const auto at =
          std::ranges::find(results, average.length, [](const auto& result) { return result.facts.length; });
      EvalRow& row = lengths[static_cast<std::size_t>(at - results.begin())];
      row.accuracy = average.accuracy, row.cache_size = average.cache_size, n_tasks = average.n_tasks;
    }
    if (n_tasks > 0) cells.push_back(line("average of " + std::to_string(n_tasks), policy, lengths));
  }
  return without_empty_columns(std::move(cells));
}

std::string json_of(std::span<const EvalResult> results) {
  nlohmann::ordered_json lengths = nlohmann::ordered_json::array(), list = nlohmann::ordered_json::array();
  for (const EvalResult& result : results) lengths.push_back(eval_json(result.facts, summarise(result.answers)));
  for (const EvalAverage& average : averages(results))
    list.push_back({{"length", average.length},
                    {"policy", average.policy},
                    {"tasks", average.n_tasks},
                    {"accuracy", number_or_null(average.accuracy)},
                    {"cache_size", number_or_null(average.cache_size)}});
  return json_line({{"lengths", lengths}, {"averages", list}});
}

}  // namespace

std::vector<EvalAverage> averages(std::span<const EvalResult> results) {
  std::vector<EvalAverage> all;
  for (const auto& [facts, answers] : results) {
    const Rows rows = summarise(answers);
    const auto is_text = [&](const std::string& item) {
      return std::ranges::any_of(rows, [&](const EvalRow& row) { return row.item == item && !std::isnan(row.nll); });
    };
    const auto n_tasks = static_cast<int>(std::ranges::count_if(facts.items, std::not_fn(is_text)));
    for (const std::string& policy : facts.policies) {
      EvalAverage average{.length = facts.length, .policy = policy, .n_tasks = 0, .accuracy = 0, .cache_size = 0};
      for (const EvalRow& row : rows) {
        if (row.policy != policy || is_text(row.item)) continue;
        ++average.n_tasks;
        average.accuracy += row.accuracy / n_tasks;
        average.cache_size += row.cache_size / n_tasks;
      }
      // The mean over some of the tasks is another number: a stopped evaluation has none.
      if (n_tasks > 1 && average.n_tasks == n_tasks) all.push_back(average);
    }
  }
  return all;
}

std::string length_table(std::span<const EvalResult> results, TableFormat format) {
  if (format == TableFormat::json) return json_of(results);
  const auto cells = cells_of(results);
  if (cells.size() == 1) return "";
  if (format == TableFormat::latex) return latex_tabular(cells);
  const EvalFacts& facts = results.front().facts;
  return format_table(cells) + facts.model + ", " + facts.device + ", " + facts.dtype + "\n";
}

}  // namespace kvscope::app
