#pragma once
// The points of a study that a figure draws: which columns, which rows, one series for each value of a text column, one
// panel for each value of another or for each quantity.

#include <limits>
#include <string>
#include <vector>

#include "engine/core/study/table/study_table.h"

namespace kvscope::views {

/// A column's name may be several, "curve|source", of which the first that is there is meant. One of `y` that ends in "|" is left out
/// where none is there, and one of bars may be a sum, "attention_ms+rest_ms" (stacked_bars.h).
struct StudyPick {
  std::string x;                   // numbers; of bars texts too
  std::vector<std::string> y;      // a panel each
  std::string series = "method";   // column whose values are series; "": one series
  std::string panel;               // column whose values are panels; "": none
  std::vector<std::string> where;  // rows that are drawn, all of: "item=needle|reversal", "share<=0.5", "policy!=full"
  std::string combine;             // rows of a series that are alike in this column become one point: their mean, from
                                   // the lowest to the highest. "": each row is a point
  std::string dense = "method=full";  // rows that are the reference, not a series; "": none
  std::string front = "on_front";     // column that is 1 on the Pareto front; "", or none in the study: no front
  std::string knee = "is_knee";       // column that is 1 at the knee
  bool operator==(const StudyPick&) const = default;
};

struct StudyPoint {
  double x = 0, y = 0;
  double low = std::numeric_limits<double>::quiet_NaN(), high = std::numeric_limits<double>::quiet_NaN();
  int n = 1;         // rows that it is the mean of
  int row = -1;      // of the table; of a mean its first
  std::string name;  // of bars: the category, x is its number
  bool on_front = false, is_knee = false;
  double smooth = std::numeric_limits<double>::quiet_NaN();  // mean of y over the last points, where it is asked for
};
struct StudySeries {
  std::string name;
  std::vector<StudyPoint> points;  // x ascending, those of one x in the study's order
};
struct StudyPanel {
  std::string title;                                        // the panel column's value
  std::size_t y = 0;                                        // number of the quantity
  std::vector<StudySeries> series;                          // all series of the figure, in the same order in each panel
  double dense = std::numeric_limits<double>::quiet_NaN();  // mean of the reference rows
};

/// The same with one name in each place: "curve|source" is the first of these columns that the study has.
StudyPick resolved(const StudyTable& table, StudyPick pick);

/// What StudyColumn's names say of the interval of `name`: from name_low and name_high, else 1.96 name_se to both sides.
struct Interval {
  const std::vector<double>*low = nullptr, *high = nullptr, *se = nullptr;
  Interval(const StudyTable& table, const std::string& name);
  bool known() const { return (low && high) || se; }
  double from(std::size_t row, double value) const;
  double to(std::size_t row, double value) const;
};

/// Rows that `where` leaves; `conditions` as in StudyPick. Throws Error (bad input): a condition that is none, a column that
/// is not there.
std::vector<bool> matching_rows(const StudyTable& table, const std::vector<std::string>& conditions);

/// `pick` as resolved() gives it. Panels in the order of the panel column's values, within these of `y`. Points whose x or y is NaN are left out. Throws
/// Error (bad input): a column that is not there or of the wrong kind (with those that are), nothing left to draw, more than
/// 24 panels or 16 series.
std::vector<StudyPanel> study_panels(const StudyTable& table, const StudyPick& pick, bool categories);

/// "NLL difference (nats/token)": a column's name and unit as a label.
std::string column_label(const StudyTable& table, const std::string& name);
/// What an axis divides the values of a column by, and how it says so: bytes as MiB or GiB, by the largest value.
struct AxisUnit {
  double divisor = 1;
  std::string label;  // with the unit
};
AxisUnit axis_unit(const StudyTable& table, const std::string& name, double largest);

}  // namespace kvscope::views
