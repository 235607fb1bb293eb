#include "app/studies/bench/bench_table.h"

#include <limits>

#include "engine/core/support/version.h"

namespace kvscope::app {
namespace {

using nlohmann::json;

std::string unit_of(const std::string& name) {
  if (name.ends_with("_bytes") || name == "bytes_per_step") return "bytes";
  if (name.ends_with("tokens_per_s")) return "tokens/s";
  if (name.ends_with("bytes_per_s")) return "bytes/s";
  if (name.starts_with("ms_per_") || name.ends_with("_ms")) return "ms";
  return name == "seconds" || name.ends_with("_s") ? "s" : "";
}

/// Member `name` of every row, or `part` of it.
StudyColumn column_of(const json& rows, const std::string& name, const char* part = nullptr, const char* end = "",
                      const char* meaning = "") {
  StudyColumn column{.name = name + end, .units = unit_of(name), .meaning = meaning};
  for (const json& row : rows) {
    json value = row.value(name, json());
    if (part != nullptr) value = value.is_object() ? value.value(part, json()) : json();
    if (value.is_string()) column.texts.push_back(value.get<std::string>());
    if (!value.is_string())
      column.numbers.push_back(value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN());
  }
  column.is_text = !column.texts.empty();
  return column;
}

}  // namespace

StudyTable bench_table(const json& request, const json& result) {
  json facts = result;
  for (const char* key : {"rows", "status", "markdown"}) facts.erase(key);
  facts.update({{"program", std::string(version())}, {"git_revision", std::string(git_revision())}});
  StudyTable table{.kind = std::string(kBenchStudy), .request = request.dump(), .facts = facts.dump()};
  const json rows = result.value("rows", json::array()), first = rows.empty() ? json::object() : rows[0];
  for (const auto& [name, value] : first.items()) {
    if (!value.is_object()) {
      table.columns.push_back(column_of(rows, name));
      continue;
    }
    table.columns.push_back(column_of(rows, name, "median", "", "median of the repetitions"));
    table.columns.push_back(column_of(rows, name, "min", "_low", "lower end of the range of the repetitions"));
    table.columns.push_back(column_of(rows, name, "max", "_high", "upper end"));
  }
  return table;
}

}  // namespace kvscope::app
