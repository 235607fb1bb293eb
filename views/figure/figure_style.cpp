#include "views/figure/figure_style.h"

#include <array>

#include "engine/core/support/error.h"

namespace kvscope::views {
namespace {

constexpr double kInch = 72;
// Widths as the venues' style files set them; labels and ticks as authors set them beside 10 pt body text.
constexpr std::array kVenues = {
    Venue{"neurips", "NeurIPS", 5.5 * kInch, 5.5 * kInch, 9, 7},
    Venue{"iclr", "ICLR", 5.5 * kInch, 5.5 * kInch, 9, 7},
    Venue{"icml", "ICML", 3.25 * kInch, 6.75 * kInch, 8, 6},
    Venue{"aistats", "AISTATS", 3.25 * kInch, 6.75 * kInch, 8, 6},
    Venue{"aaai", "AAAI", 3.3 * kInch, 6.975 * kInch, 8, 6},
    Venue{"cvpr", "CVPR", 3.25 * kInch, 6.875 * kInch, 8, 6},
    Venue{"jmlr", "JMLR", 6.0 * kInch, 6.0 * kInch, 9, 7},
    Venue{"tmlr", "TMLR", 6.5 * kInch, 6.5 * kInch, 9, 7},
};

}  // namespace

std::span<const Venue> venues() { return kVenues; }

FigureStyle venue_style(std::string_view name) {
  const std::size_t colon = name.find(':');
  const std::string_view venue = name.substr(0, colon);
  const std::string_view part = colon == std::string_view::npos ? "column" : name.substr(colon + 1);
  for (const Venue& v : kVenues) {
    if (v.name != venue || (part != "column" && part != "full")) continue;
    FigureStyle style;
    style.width = part == "full" ? v.full : v.column;
    style.label_size = v.label_size;
    style.tick_size = v.tick_size;
    return style;
  }
  std::string all;
  for (const Venue& v : kVenues) all += (all.empty() ? "" : ", ") + std::string(v.name);
  throw Error({ExitCode::usage, "", "venue", "\"" + std::string(name) + "\"",
               "one of " + all + ", with \":column\" or \":full\" after it", ""});
}

}  // namespace kvscope::views
