#include "views/figure/study_series.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <numeric>

#include "engine/core/study/table/pareto.h"
#include "engine/core/study/table/study_cost.h"
#include "engine/core/support/error.h"
#include "engine/core/support/text.h"
#include "views/figure/stacked_bars.h"

namespace kvscope::views {
namespace {

constexpr std::size_t kMostPanels = 24, kMostSeries = 16, kMostCategories = 64;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

[[noreturn]] void refuse(const std::string& where, const std::string& found, const std::string& expected) {
  throw Error({ExitCode::bad_input, "", where, found, expected, ""});
}

const StudyColumn& column_of(const StudyTable& table, const std::string& name) {
  if (const StudyColumn* column = table.column(name)) return *column;
  std::string there;
  for (const StudyColumn& c : table.columns) there += (there.empty() ? "" : ", ") + c.name;
  refuse(in_quotes(name), "the study has no column of this name", "one of " + there);
}

std::string text_at(const StudyColumn& column, std::size_t row) {
  if (column.is_text) return column.texts[row];
  const double number = column.numbers[row];
  if (std::isnan(number)) return "";
  const bool is_whole = std::abs(number) < 1e9 && number == std::floor(number);  // a length has all its digits
  return is_whole ? std::to_string(static_cast<long long>(number)) : number_text(number, 4);
}

/// "column OP value|value".
struct Condition {
  std::string column, op;
  std::vector<std::string> values;
};

Condition parse_condition(const std::string& text) {
  const std::size_t at = text.find_first_of("=!<>");
  if (at == 0 || at == std::string::npos)
    refuse(in_quotes(text), "not a condition", "COLUMN=VALUE, !=, <=, >=, < or >");
  Condition c{text.substr(0, at), text.substr(at, 1), {}};
  std::size_t from = at + 1;
  if (c.op != "=" && from < text.size() && text[from] == '=') c.op += text[from++];
  if (c.op == "!") refuse(in_quotes(text), "not a condition", "COLUMN=VALUE, !=, <=, >=, < or >");
  for (std::size_t end = from; from <= text.size(); from = end + 1) {
    end = std::min(text.find('|', from), text.size());
    c.values.push_back(text.substr(from, end - from));
  }
  return c;
}

bool holds(const StudyColumn& column, std::size_t row, const std::string& op, const std::string& text) {
  const bool equality = op == "=" || op == "!=";
  if (column.is_text) {
    if (!equality) refuse(column.name, "a column of texts, which " + op + " cannot compare", "= or !=");
    return (column.texts[row] == text) == (op == "=");
  }
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size()) refuse(column.name, in_quotes(text), "a number");
  const double v = column.numbers[row];
  const bool same = std::abs(v - value) <= 1e-9 * std::max(1.0, std::abs(value));
  if (equality) return same == (op == "=");
  return op[0] == '<' ? v < value || (op == "<=" && same) : v > value || (op == ">=" && same);
}

/// The values of a column: texts in the order of their first row, numbers ascending.
std::vector<std::string> distinct(const StudyColumn& column, const std::vector<bool>& rows) {
  std::vector<std::string> values;
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (!column.is_text)  // what has no number comes last
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
      const double x = column.numbers[a], y = column.numbers[b];
      return std::isnan(y) ? !std::isnan(x) : x < y;
    });
  for (const std::size_t row : order) {
    if (rows[row] && std::ranges::find(values, text_at(column, row)) == values.end())
      values.push_back(text_at(column, row));
  }
  return values;
}

struct Sum {
  StudyPoint point;
  double x = 0, y = 0;
};

void add(Sum& sum, const StudyPoint& p) {
  ++sum.point.n;
  sum.x += p.x, sum.y += p.y;
  const bool one = sum.point.n == 1;
  sum.point.low = one ? p.y : std::min(sum.point.low, p.y);
  sum.point.high = one ? p.y : std::max(sum.point.high, p.y);
  sum.point.on_front |= p.on_front, sum.point.is_knee |= p.is_knee;
  sum.point.name = p.name;
  if (one) sum.point.row = p.row;
}

/// Rows that are one point: their mean, and their range in place of an interval.
std::vector<StudyPoint> combined(const std::vector<std::pair<std::string, StudyPoint>>& rows) {
  std::vector<std::string> order;
  std::map<std::string, Sum> sums;
  std::map<std::string, StudyPoint> last;
  for (const auto& [key, point] : rows) {
    const auto [it, is_new] = sums.emplace(key, Sum{});
    if (is_new) order.push_back(key), it->second.point.n = 0;
    add(it->second, point);
    last[key] = point;
  }
  std::vector<StudyPoint> out;
  for (const std::string& key : order) {
    Sum& sum = sums[key];
    if (sum.point.n == 1) {
      out.push_back(last[key]);  // with its own interval
      continue;
    }
    sum.point.x = sum.x / sum.point.n, sum.point.y = sum.y / sum.point.n;
    out.push_back(sum.point);
  }
  return out;
}

bool flagged(const StudyTable& table, const std::string& name, std::size_t row) {
  const StudyColumn* column = name.empty() ? nullptr : table.column(name);
  return column != nullptr && !column->is_text && column->numbers[row] == 1;
}

/// One quantity of one panel.
class PanelMaker {
 public:
  PanelMaker(const StudyTable& table, const StudyPick& pick, const std::string& y, bool categories,
             const std::vector<std::string>& names)
      : table_(table),
        pick_(pick),
        x_(column_of(table, pick.x)),
        y_(table.numbers(y, "")),
        interval_(table, y),
        categories_(categories),
        names_(names) {
    if (!categories && x_.is_text)
      refuse(in_quotes(pick.x), "a column of texts", "a column of numbers, which lines need");
  }

  std::vector<StudyPoint> points(const std::vector<bool>& rows) const {
    const StudyColumn* by = pick_.combine.empty() ? nullptr : &column_of(table_, pick_.combine);
    std::vector<std::pair<std::string, StudyPoint>> keyed;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      if (!rows[row] || std::isnan(y_[row])) continue;
      StudyPoint point{.x = 0, .y = y_[row], .row = static_cast<int>(row)};
      if (categories_) {
        point.name = text_at(x_, row);
        point.x = static_cast<double>(std::ranges::find(names_, point.name) - names_.begin());
      } else {
        point.x = x_.numbers[row];
      }
      if (std::isnan(point.x)) continue;
      point.low = interval_.from(row, point.y), point.high = interval_.to(row, point.y);
      point.on_front = flagged(table_, pick_.front, row), point.is_knee = flagged(table_, pick_.knee, row);
      // A category is one bar, whatever rows it has.
      keyed.emplace_back(categories_ ? point.name : by ? text_at(*by, row) : std::to_string(row), point);
    }
    std::vector<StudyPoint> out = combined(keyed);
    std::ranges::stable_sort(out, {}, &StudyPoint::x);
    return out;
  }

 private:
  const StudyTable& table_;
  const StudyPick& pick_;
  const StudyColumn& x_;
  const std::vector<double>& y_;
  Interval interval_;
  bool categories_;
  const std::vector<std::string>& names_;
};

bool is_cost(const std::string& name) {
  return std::ranges::any_of(std::initializer_list<const char*>{"cache_size", "cache_size_end", "cache_tokens",
                                                                "cache_bytes", "density", "read_share", "ms_per_token"},
                             [&](const char* cost) { return name == cost; });
}

/// A study's front and knee are of its own cost. Against another cost the drawn points have a front of their own, and against
/// a density without windows that differ there is none.
void mark_front_of_axes(const StudyTable& table, const StudyPick& pick, StudyPanel& panel) {
  if (table.column(pick.front) == nullptr || !is_cost(pick.x) || pick.x == study_cost(table)) return;
  std::vector<StudyPoint*> points;
  std::vector<double> cost, value;
  for (StudySeries& series : panel.series) {
    for (StudyPoint& point : series.points) {
      point.on_front = point.is_knee = false;
      points.push_back(&point), cost.push_back(point.x), value.push_back(point.y);
    }
  }
  if (pick.x == "density" && window_spread(table)) return;
  const Aim aim = pick.y[panel.y].starts_with("accuracy") ? Aim::larger : Aim::smaller;
  const std::vector<bool> front = pareto_front(cost, value, Aim::smaller, aim);
  for (std::size_t i = 0; i < points.size(); ++i) points[i]->on_front = front[i];
}

/// Those of the rows that have one of the quantities: a category without a bar would be a gap without a name.
std::vector<bool> measured(const StudyTable& table, const StudyPick& pick, std::vector<bool> rows) {
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const auto has = [&](const std::string& y) { return !std::isnan(table.numbers(y, "")[row]); };
    rows[row] = rows[row] && std::ranges::any_of(pick.y, has);
  }
  return rows;
}

std::vector<bool> both(const std::vector<bool>& rows, const StudyColumn* column, const std::string& value) {
  std::vector<bool> out = rows;
  for (std::size_t row = 0; row < out.size() && column; ++row) out[row] = out[row] && text_at(*column, row) == value;
  return out;
}

}  // namespace

Interval::Interval(const StudyTable& table, const std::string& name) {
  const auto numbers = [&](const char* ending) -> const std::vector<double>* {
    const StudyColumn* column = table.column(name + ending);
    return column && !column->is_text ? &column->numbers : nullptr;
  };
  low = numbers("_low"), high = numbers("_high"), se = numbers("_se");
  if (!low || !high) low = high = nullptr;
  if (low) se = nullptr;
}
double Interval::from(std::size_t row, double value) const {
  return low ? (*low)[row] : se ? value - 1.96 * (*se)[row] : kNan;
}
double Interval::to(std::size_t row, double value) const {
  return high ? (*high)[row] : se ? value + 1.96 * (*se)[row] : kNan;
}

StudyPick resolved(const StudyTable& table, StudyPick pick) {
  const auto choose = [&](std::string& names) {
    for (std::size_t at = 0; names.find('|') != std::string::npos && at < names.size();) {
      const std::size_t end = std::min(names.find('|', at), names.size());
      const std::string name = names.substr(at, end - at);
      const auto is_there = [&](const std::string& part) { return table.column(part) != nullptr; };
      if (!std::ranges::all_of(sum_parts(name), is_there) && end < names.size()) {
        at = end + 1;
      } else {
        names = name;
      }
    }
    if (names.ends_with('|')) names.clear();  // none of them is there
  };
  for (std::string* names : {&pick.x, &pick.series, &pick.panel, &pick.combine}) choose(*names);
  for (std::string& names : pick.y) choose(names);
  std::erase(pick.y, "");
  return pick;
}

std::vector<bool> matching_rows(const StudyTable& table, const std::vector<std::string>& conditions) {
  std::vector<bool> rows(table.n_points(), true);
  for (const std::string& text : conditions) {
    const Condition c = parse_condition(text);
    const StudyColumn& column = column_of(table, c.column);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      // None of them for !=, any of them for the others.
      bool ok = c.op == "!=";
      for (const std::string& value : c.values)
        ok = c.op == "!=" ? ok && holds(column, row, c.op, value) : ok || holds(column, row, c.op, value);
      rows[row] = rows[row] && ok;
    }
  }
  return rows;
}

std::vector<StudyPanel> study_panels(const StudyTable& table, const StudyPick& pick, bool categories) {
  if (pick.y.empty()) refuse("y", "no column", "at least one");
  const std::vector<bool> drawn = matching_rows(table, pick.where);
  std::vector<bool> dense(drawn.size(), false), rows = drawn;
  const std::string dense_column = pick.dense.empty() ? "" : parse_condition(pick.dense).column;
  if (!dense_column.empty() && table.column(dense_column)) {
    dense = matching_rows(table, {pick.dense});
    for (std::size_t i = 0; i < rows.size(); ++i) dense[i] = dense[i] && drawn[i], rows[i] = rows[i] && !dense[i];
  }
  const StudyColumn* panel = pick.panel.empty() ? nullptr : &column_of(table, pick.panel);
  const StudyColumn* series = pick.series.empty() ? nullptr : &column_of(table, pick.series);
  const auto titles = panel ? distinct(*panel, drawn) : std::vector<std::string>{""};
  const auto names = series ? distinct(*series, rows) : std::vector<std::string>{""};
  const auto categories_of =
      categories ? distinct(column_of(table, pick.x), measured(table, pick, rows)) : std::vector<std::string>{};
  if (titles.size() * pick.y.size() > kMostPanels)
    refuse("panel", std::to_string(titles.size() * pick.y.size()) + " panels", "at most 24");
  if (names.size() > kMostSeries)
    refuse("series", std::to_string(names.size()) + " values of " + in_quotes(pick.series),
           "at most 16; select with \"where\"");
  if (categories_of.size() > kMostCategories)
    refuse("x", std::to_string(categories_of.size()) + " values of " + in_quotes(pick.x),
           "at most 64; select with \"where\"");
  std::vector<StudyPanel> panels;
  std::size_t n_points = 0;
  for (const std::string& title : titles) {
    for (std::size_t y = 0; y < pick.y.size(); ++y) {
      const PanelMaker maker(table, pick, pick.y[y], categories, categories_of);
      StudyPanel made{.title = title, .y = y, .series = {}};
      const std::vector<bool> here = both(rows, panel, title);
      for (const std::string& name : names) {
        made.series.push_back({name, maker.points(both(here, series, name))});
        n_points += made.series.back().points.size();
      }
      double sum = 0, n = 0;
      const std::vector<bool> reference = both(dense, panel, title);
      const std::vector<double>& values = table.numbers(pick.y[y], "");
      for (std::size_t row = 0; row < reference.size(); ++row) {
        if (reference[row] && !std::isnan(values[row])) sum += values[row], ++n;
      }
      if (n > 0) made.dense = sum / n;
      if (!categories) mark_front_of_axes(table, pick, made);
      panels.push_back(std::move(made));
    }
  }
  if (n_points == 0)
    refuse(in_quotes(pick.x) + " and " + in_quotes(pick.y[0]), "no point has both",
           "measured columns, and a \"where\" that leaves some rows");
  return panels;
}

std::string column_label(const StudyTable& table, const std::string& name) {
  static const std::map<std::string, std::string, std::less<>> kTitles = {
      {"nll", "NLL"},
      {"nll_difference", "NLL − dense"},
      {"density", "Density"},
      {"cache_size", "Cache size (tokens held / read)"},
      {"cache_size_end", "Cache size at the end (tokens held / read)"},
      {"accuracy", "Accuracy"},
      {"recall", "Recall of the oracle"},
      {"output_error", "Output error"},
      {"cache_bytes", "KV cache"},
      {"peak_bytes", "Peak memory"},
      {"ms_per_token", "Time per token"},
      {"ms_per_step", "Time per token"},
      {"coverage", "Density coverage"},
      {"turnover_again", "Turnover under the hybrid"},
      {"turnover_pieces", "Turnover between pieces"},
      {"share", "Share of global heads"},
      {"prompt_tokens", "Context length (tokens)"},
      {"seconds", "Prefill"},
      {"attention_s+rest_s", "Prefill"},
      {"attention_ms+rest_ms", "Time per token"},
      {"cache_bytes+weight_bytes", "Memory"},
      {"triggers", "Queries that evict"},
      {"overflows", "Evictions triggered"},
      {"token_accuracy", "Token accuracy"},
      {"gate_mean", "Mean utility of the gates"},
      {"gate_open", "Share of gates open"},
      {"loss_output", "Loss of the output"},
      {"loss_distance", "Distance of the last hidden states"},
      {"loss_boundary", "Boundary loss"},
      {"read_share", "Share of the cache read"},
      {"read", "Tokens that a query reads"},
      {"axis_read", "Tokens that a query reads"},
      {"step", "Step"},
      {"tokens", "Tokens of training"},
      {"train_flops", "Training compute (FLOPs)"},
      {"parameters", "Parameters outside the embeddings"},
      {"attention_flops", "FLOPs of attention"},
      {"total_flops", "FLOPs in all"},
  };
  std::string label;
  if (const auto it = kTitles.find(name); it != kTitles.end()) {
    label = it->second;
  } else {
    label = name;
    std::ranges::replace(label, '_', ' ');
    if (!label.empty() && label[0] >= 'a' && label[0] <= 'z') label[0] = static_cast<char>(label[0] - 'a' + 'A');
  }
  const StudyColumn* column = table.column(name);
  const auto windows = name == "density" ? window_spread(table) : std::nullopt;
  if (windows) label += " (without windows of " + windows->text() + " tokens)";
  if (column && !column->units.empty() && column->units != "bytes") label += " (" + column->units + ")";
  return label;
}

AxisUnit axis_unit(const StudyTable& table, const std::string& name, double largest) {
  const StudyColumn* column = table.column(name);
  AxisUnit unit{1, column_label(table, name)};
  if (!column || column->units != "bytes") return unit;
  const double divisors[] = {1 << 30, 1 << 20, 1 << 10};
  const char* names[] = {"GiB", "MiB", "KiB"};
  for (int i = 0; i < 3; ++i) {
    if (std::abs(largest) < 1.5 * divisors[i] && i < 2) continue;
    return {divisors[i], unit.label + " (" + names[i] + ")"};
  }
  return unit;
}

}  // namespace kvscope::views
