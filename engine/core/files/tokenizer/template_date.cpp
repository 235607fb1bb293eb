// strftime_now of transformers, on a given day.

#include <array>
#include <cstdio>
#include <optional>

#include "engine/core/files/tokenizer/template_run.h"

namespace kvscope {
namespace {

constexpr std::array<const char*, 12> kMonths = {"January", "February", "March",     "April",   "May",      "June",
                                                 "July",    "August",   "September", "October", "November", "December"};
constexpr std::array<const char*, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                              "Thursday", "Friday", "Saturday"};
constexpr std::array<int, 12> kDaysOfMonth = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

struct Day {
  int year = 0, month = 0, day = 0;  // from 1

  bool leaps() const { return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0; }
  int of_year() const {
    int days = day;
    for (int m = 1; m < month; ++m) days += kDaysOfMonth[static_cast<std::size_t>(m - 1)] + (m == 2 && leaps());
    return days;
  }
  int of_week() const {
    const int before = year - 1;
    return (before * 365 + before / 4 - before / 100 + before / 400 + of_year()) % 7;
  }
  bool is_one() const {
    if (month < 1 || month > 12 || year < 1 || year > 9999) return false;
    return day >= 1 && day <= kDaysOfMonth[static_cast<std::size_t>(month - 1)] + (month == 2 && leaps());
  }
};

std::optional<Day> day_of(const std::string& date) {
  Day day;
  char name[16] = {}, more = 0;
  if (std::sscanf(date.c_str(), "%4d-%2d-%2d%c", &day.year, &day.month, &day.day, &more) != 3) {
    if (std::sscanf(date.c_str(), "%2d %15[A-Za-z] %4d%c", &day.day, name, &day.year, &more) != 3) return {};
    day.month = 0;
    for (std::size_t m = 0; m < kMonths.size(); ++m) {
      const std::string full = kMonths[m];
      if (name == full || name == full.substr(0, 3)) day.month = static_cast<int>(m) + 1;
    }
  }
  return day.is_one() ? std::optional(day) : std::nullopt;
}

std::string digits(int number, int width, bool bare) {
  char text[16];
  std::snprintf(text, sizeof text, "%0*d", bare ? 1 : width, number);
  return text;
}

std::string part_of(const Day& day, char letter, bool bare) {
  const std::string month = kMonths[static_cast<std::size_t>(day.month - 1)];
  const std::string week_day = kDays[static_cast<std::size_t>(day.of_week())];
  switch (letter) {
    case 'd':
      return digits(day.day, 2, bare);
    case 'm':
      return digits(day.month, 2, bare);
    case 'Y':
      return digits(day.year, 1, true);
    case 'y':
      return digits(day.year % 100, 2, bare);
    case 'j':
      return digits(day.of_year(), 3, bare);
    case 'B':
      return month;
    case 'b':
      return month.substr(0, 3);
    case 'A':
      return week_day;
    case 'a':
      return week_day.substr(0, 3);
    case 'H':
    case 'M':
    case 'S':
      return digits(0, 2, bare);
    case 'I':
      return "12";
    case 'p':
      return "AM";
    case 'F':
      return digits(day.year, 4, false) + "-" + digits(day.month, 2, false) + "-" + digits(day.day, 2, false);
    case '%':
      return "%";
    default:
      throw TemplateProblem{std::string("strftime_now() with %") + letter};
  }
}

}  // namespace

std::string format_template_date(const std::string& date, const std::string& form) {
  const std::optional<Day> day = day_of(date);
  if (!day) throw TemplateProblem{"it needs a date such as \"26 Jul 2024\" or \"2024-07-26\""};
  std::string out;
  for (std::size_t at = 0; at < form.size(); ++at) {
    if (form[at] != '%') {
      out += form[at];
      continue;
    }
    const bool bare = at + 1 < form.size() && form[at + 1] == '-';
    at += 1 + bare;
    if (at >= form.size()) throw TemplateProblem{"strftime_now() with % at the end"};
    out += part_of(*day, form[at], bare);
  }
  return out;
}

}  // namespace kvscope
