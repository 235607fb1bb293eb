#include "engine/core/study/table/study_columns.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "engine/core/study/table/gate_probe.h"
#include "engine/core/support/refuse.h"

namespace kvscope {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::optional<double> as_number(std::string_view text) {
  const double scale = text.ends_with('%') ? 0.01 : 1;
  if (scale != 1) text.remove_suffix(1);
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value * scale;
}

StudyColumn* find(StudyTable& table, std::string_view name) {
  const auto it = std::ranges::find(table.columns, name, &StudyColumn::name);
  return it == table.columns.end() ? nullptr : &*it;
}

}  // namespace

void add_policy_columns(StudyTable& table) {
  const StudyColumn* policy = table.column("policy");
  if (policy == nullptr || !policy->is_text) return;
  const std::vector<std::string> texts = policy->texts;
  const bool with_method = table.column("method") == nullptr;
  std::vector<StudyColumn> made;
  if (with_method) made.push_back({.name = "method", .units = "", .meaning = "name of the policy", .is_text = true});
  for (std::size_t row = 0; row < texts.size(); ++row) {
    const std::size_t colon = std::min(texts[row].find(':'), texts[row].size());
    if (with_method) made[0].texts.push_back(texts[row].substr(0, colon));
    for (std::size_t at = colon + 1; at < texts[row].size();) {
      const std::size_t end = std::min(texts[row].find(',', at), texts[row].size());
      const std::string part = texts[row].substr(at, end - at);
      at = end + 1;
      const std::size_t equals = part.find('=');
      if (equals == std::string::npos) continue;
      std::string name = part.substr(0, equals);
      std::ranges::replace(name, '-', '_');
      const auto value = as_number(std::string_view(part).substr(equals + 1));
      if (!value || table.column(name) != nullptr) continue;
      auto it = std::ranges::find(made, name, &StudyColumn::name);
      if (it == made.end()) {
        made.push_back({.name = name, .units = "", .meaning = "of the policy", .is_text = false});
        it = made.end() - 1;
        it->numbers.assign(texts.size(), kNan);
      }
      if (!it->is_text) it->numbers[row] = *value;
    }
  }
  for (StudyColumn& column : made) table.columns.push_back(std::move(column));
}

StudyTable join_studies(std::span<const std::pair<std::string, StudyTable>> tables) {
  if (tables.empty()) refuse("", "", "no table", "at least one");
  const StudyTable& first = tables[0].second;
  StudyTable all{.kind = first.kind, .request = first.request, .facts = first.facts};
  if (tables.size() == 1) all.arrays = other_arrays(first);
  StudyColumn source{.name = "source", .units = "", .meaning = "file that the point is from", .is_text = true};
  for (const auto& [name, table] : tables) {
    join_probes(all, table, source.texts.size());
    const std::size_t before = source.texts.size(), after = before + table.n_points();
    for (const StudyColumn& column : table.columns) {
      if (column.name == source.name) continue;
      StudyColumn* known = find(all, column.name);
      if (known == nullptr) {
        all.columns.push_back({.name = column.name, .units = column.units, .meaning = column.meaning});
        known = &all.columns.back();
        known->is_text = column.is_text;
      }
      if (known->is_text != column.is_text)
        refuse(name, column.name, "a column of " + std::string(column.is_text ? "texts" : "numbers"),
               "as in the tables before it");
      known->numbers.resize(known->is_text ? 0 : before, kNan), known->texts.resize(known->is_text ? before : 0);
      known->numbers.insert(known->numbers.end(), column.numbers.begin(), column.numbers.end());
      known->texts.insert(known->texts.end(), column.texts.begin(), column.texts.end());
    }
    source.texts.resize(after, name);
    for (StudyColumn& column : all.columns) {
      if (column.is_text) column.texts.resize(after);
      if (!column.is_text) column.numbers.resize(after, kNan);
    }
  }
  all.columns.push_back(std::move(source));
  return all;
}

int same_step(const StudyTable& before, int row, const StudyTable& now) {
  const StudyColumn *step = before.column("step"), *source = before.column("source");
  const StudyColumn *new_step = now.column("step"), *new_source = now.column("source");
  if (!step || !source || !new_step || !new_source) return -1;
  const auto at = static_cast<std::size_t>(row);
  for (std::size_t i = 0; i < now.n_points(); ++i) {
    if (new_step->numbers[i] == step->numbers[at] && new_source->texts[i] == source->texts[at])
      return static_cast<int>(i);
  }
  return -1;
}

}  // namespace kvscope
