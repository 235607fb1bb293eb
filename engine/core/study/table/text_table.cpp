#include "engine/core/study/table/text_table.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "engine/core/study/table/training_log.h"
#include "engine/core/support/json_file.h"
#include "engine/core/support/refuse.h"
#include "engine/core/support/text.h"

namespace kvscope {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kMostPoints = std::size_t{1} << 20, kMostColumns = 4096;

std::optional<double> as_number(std::string_view text) {
  const double scale = text.ends_with('%') ? 0.01 : 1;
  if (scale != 1) text.remove_suffix(1);
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value * scale;
}

std::string column_name(std::string_view text) {
  std::string name;
  for (const char c : text) {
    const bool upper = c >= 'A' && c <= 'Z', word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
    name += upper ? static_cast<char>(c - 'A' + 'a') : word ? c : '_';
  }
  if (name.empty() || name[0] < 'a' || name[0] > 'z') name = "c_" + name;
  return name.substr(0, 64);
}

/// Cells as text, column by column as they come; "" where a row has none.
class Cells {
 public:
  void set(const std::string& name, std::string text, std::size_t row, const std::string& file) {
    auto it = std::ranges::find(columns_, name, &Column::name);
    if (it == columns_.end()) {
      if (columns_.size() >= kMostColumns) refuse(file, "", "more than 4096 columns");
      columns_.push_back({name, {}});
      it = columns_.end() - 1;
    }
    it->cells.resize(row + 1);
    it->cells[row] = std::move(text);
  }
  StudyTable table(std::size_t n_rows) && {
    StudyTable out{.kind = "table", .request = "{}", .facts = "{}"};
    for (Column& column : columns_) {
      column.cells.resize(n_rows);
      StudyColumn made{.name = column.name, .units = "", .meaning = "", .is_text = false};
      for (const std::string& cell : column.cells) {
        const auto number = cell.empty() || cell == "nan" ? kNan : as_number(cell);
        if (!number) {
          made.is_text = true;
          break;
        }
        made.numbers.push_back(*number);
      }
      if (made.is_text) made.numbers.clear(), made.texts = std::move(column.cells);
      out.columns.push_back(std::move(made));
    }
    return out;
  }

 private:
  struct Column {
    std::string name;
    std::vector<std::string> cells;
  };
  std::vector<Column> columns_;
};

/// The fields of the record that begins at `at`, which moves behind it.
std::vector<std::string> csv_record(std::string_view text, std::size_t& at) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (quoted) {
      if (c != '"') {
        fields.back() += c;
      } else if (at + 1 < text.size() && text[at + 1] == '"') {
        fields.back() += text[++at];
      } else {
        quoted = false;
      }
    } else if (c == '"') {
      quoted = true;
    } else if (c == ',') {
      fields.emplace_back();
    } else if (c == '\n') {
      ++at;
      return fields;
    } else if (c != '\r') {
      fields.back() += c;
    }
  }
  return fields;
}

StudyTable read_csv(std::string_view text, const std::string& file) {
  std::size_t at = 0, row = 0;
  std::vector<std::string> names = csv_record(text, at);
  for (std::size_t i = 0; i < names.size(); ++i) {
    names[i] = column_name(names[i]);
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
        names.begin() + static_cast<std::ptrdiff_t>(i))
      refuse(file, names[i], "listed twice");
  }
  Cells cells;
  while (at < text.size()) {
    std::vector<std::string> fields = csv_record(text, at);
    if (fields.size() == 1 && fields[0].empty()) continue;
    if (fields.size() != names.size())
      refuse(file, "point " + std::to_string(row + 1), std::to_string(fields.size()) + " fields",
             std::to_string(names.size()) + ", as the first line has");
    if (row >= kMostPoints) refuse(file, "", "more than 1,048,576 points");
    for (std::size_t i = 0; i < names.size(); ++i) cells.set(names[i], std::move(fields[i]), row, file);
    ++row;
  }
  return std::move(cells).table(row);
}

std::string cell_text(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null()) return "";
  if (value.is_boolean()) return value.get<bool>() ? "1" : "0";
  if (value.is_number()) return number_text(value.get<double>());
  return value.dump();
}

void add_object(Cells& cells, const nlohmann::json& object, const std::string& prefix, std::size_t row,
                const std::string& file) {
  for (const auto& [key, value] : object.items()) {
    const std::string name = column_name(prefix.empty() ? key : prefix + "_" + key);
    if (value.is_object() && value.contains("median") && value.contains("min") && value.contains("max")) {
      cells.set(name, cell_text(value["median"]), row, file);
      cells.set(name + "_low", cell_text(value["min"]), row, file);
      cells.set(name + "_high", cell_text(value["max"]), row, file);
    } else if (value.is_object() && prefix.empty()) {
      add_object(cells, value, name, row, file);
    } else if (!value.is_array()) {
      cells.set(name, cell_text(value), row, file);
    }
  }
}

/// The objects of the lines; those of "rows" where no line is a point itself.
std::vector<nlohmann::json> json_points(std::string_view text, const std::string& file) {
  std::vector<nlohmann::json> plain, wrapped;
  const auto add = [&](nlohmann::json object, const std::string& where) {
    if (!object.is_object()) refuse(file, where, "JSON that is not an object", "one object per line");
    if (!object.contains("rows")) {
      plain.push_back(std::move(object));
    } else if (object["rows"].is_array()) {
      for (nlohmann::json& row : object["rows"]) {
        if (row.is_object()) wrapped.push_back(std::move(row));
      }
    }
  };
  // One object over several lines, as people indent it.
  if (!nlohmann::json::accept(text.substr(0, text.find('\n'))) && nlohmann::json::accept(text)) {
    add(parse_json(text, file), "");
    return plain.empty() ? wrapped : plain;
  }
  for (std::size_t at = 0, line = 1; at < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view one = text.substr(at, end - at);
    at = end + 1;
    if (one.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    add(parse_json(one, file + ", line " + std::to_string(line)), "line " + std::to_string(line));
  }
  return plain.empty() ? wrapped : plain;
}

StudyTable read_json_lines(std::string_view text, const std::string& file) {
  const std::vector<nlohmann::json> points = json_points(text, file);
  if (points.size() > kMostPoints) refuse(file, "", "more than 1,048,576 points");
  Cells cells;
  for (std::size_t row = 0; row < points.size(); ++row) add_object(cells, points[row], "", row, file);
  return std::move(cells).table(points.size());
}

StudyColumn* find(StudyTable& table, std::string_view name) {
  const auto it = std::ranges::find(table.columns, name, &StudyColumn::name);
  return it == table.columns.end() ? nullptr : &*it;
}

/// What the rules of StudyColumn call an interval.
void name_intervals(StudyTable& table) {
  if (find(table, "accuracy")) {
    for (const char* end : {"low", "high"}) {
      StudyColumn* column = find(table, end);
      if (column) column->name = std::string("accuracy_") + end, column->meaning = "95 % interval of Wilson";
    }
  }
  for (StudyColumn& column : table.columns) {
    if (column.name.ends_with("_bytes")) column.units = "bytes";
    if (column.name.starts_with("ms_per_step")) column.units = "ms";
    if (column.name == "seconds") column.units = "s";
    if (column.name.starts_with("nll")) column.units = "nats/token";
  }
}

}  // namespace

bool has_known_column(const StudyTable& table) {
  constexpr std::string_view kKnown[] = {"accuracy",  "coverage",     "density",        "gate_mean",
                                         "gate_open", "output_error", "perplexity",     "policy",
                                         "read",      "read_share",   "recall",         "seconds",
                                         "share",     "step",         "turnover_again", "turnover_pieces"};
  constexpr std::string_view kBegins[] = {"nll", "loss", "ms_per_", "recall_", "read_mass"};
  return std::ranges::any_of(table.columns, [&](const StudyColumn& column) {
    const std::string_view name = column.name;
    return std::ranges::find(kKnown, name) != std::end(kKnown) || name.ends_with("_bytes") ||
           name.find("tokens_per_s") != std::string_view::npos ||
           std::ranges::any_of(kBegins, [&](std::string_view begin) { return name.starts_with(begin); });
  });
}

StudyTable read_text_table(std::string_view text, const std::string& file) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) refuse(file, "", "an empty table", "a heading and points");
  StudyTable table = text[first] == '{' ? read_json_lines(text, file) : read_csv(text, file);
  if (table.n_points() == 0) refuse(file, "", "a table without points", "at least one");
  name_intervals(table);
  name_training_log(table);
  check_study(table, file);
  return table;
}

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
      const std::string name = column_name(part.substr(0, equals));
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

StudyTable join_tables(std::span<const std::pair<std::string, StudyTable>> tables) {
  if (tables.empty()) refuse("", "", "no table", "at least one");
  const StudyTable& first = tables[0].second;
  StudyTable all{.kind = first.kind, .request = first.request, .facts = first.facts};
  all.arrays = tables.size() == 1 ? first.arrays : std::vector<StudyArray>{};
  StudyColumn source{.name = "source", .units = "", .meaning = "file that the point is from", .is_text = true};
  for (const auto& [name, table] : tables) {
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

}  // namespace kvscope
