#include "views/figure/render.h"

#include "engine/core/support/error.h"

namespace kvscope::views {

FigureFormat figure_format(std::string_view path) {
  if (path.ends_with(".pdf")) return FigureFormat::pdf;
  if (path.ends_with(".svg")) return FigureFormat::svg;
  if (path.ends_with(".png")) return FigureFormat::png;
  throw Error({ExitCode::usage, std::string(path), "", "not the name of a figure",
               "a name that ends in .pdf, .svg or .png", ""});
}

std::string render_figure(const Figure& figure, FigureFormat format, double dpi) {
  switch (format) {
    case FigureFormat::pdf:
      return render_pdf(figure, dpi);
    case FigureFormat::svg:
      return render_svg(figure, dpi);
    case FigureFormat::png:
      break;
  }
  return render_png(figure, dpi);
}

}  // namespace kvscope::views
