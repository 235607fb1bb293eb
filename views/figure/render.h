#pragma once
// Figures on paper: PDF and PNG through Cairo, SVG by our own writer (Cairo's turns text into outlines).
//
// The bytes depend on the figure, the fonts and the library alone: no dates, no random ids.

#include <string>
#include <string_view>

#include "views/figure/figure.h"

namespace kvscope::views {

enum class FigureFormat { pdf, svg, png };
/// From a file name's ending. Throws Error (usage) that lists the three.
FigureFormat figure_format(std::string_view path);

/// The file's bytes. dpi: of a PNG, and what the images of large maps are magnified to at least (nearest) in PDF and
/// SVG, because many viewers blur small images. Throws Error (resource) if Cairo fails or a PNG would be over 32767
/// pixels wide.
std::string render_figure(const Figure& figure, FigureFormat format, double dpi = 300);
std::string render_pdf(const Figure& figure, double dpi = 300);
std::string render_svg(const Figure& figure, double dpi = 300);
std::string render_png(const Figure& figure, double dpi = 300);

/// Base64 of RFC 4648, as the data URLs of an SVG have it.
std::string base64(std::string_view bytes);

}  // namespace kvscope::views
