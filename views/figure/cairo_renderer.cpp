// PDF and PNG through Cairo.
#include <cairo-pdf.h>
#include <cairo.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>

#include "engine/core/support/error.h"
#include "views/figure/cell_runs.h"
#include "views/figure/fonts.h"
#include "views/figure/render.h"

namespace kvscope::views {
namespace {

struct Deleter {
  void operator()(cairo_t* p) const { cairo_destroy(p); }
  void operator()(cairo_surface_t* p) const { cairo_surface_destroy(p); }
  void operator()(cairo_font_options_t* p) const { cairo_font_options_destroy(p); }
};
using Surface = std::unique_ptr<cairo_surface_t, Deleter>;
using Context = std::unique_ptr<cairo_t, Deleter>;

void check(cairo_status_t status, const char* what) {
  if (status == CAIRO_STATUS_SUCCESS) return;
  throw Error({ExitCode::resource, "", what, cairo_status_to_string(status), "", ""});
}

cairo_status_t append(void* closure, const unsigned char* data, unsigned length) {
  static_cast<std::string*>(closure)->append(reinterpret_cast<const char*>(data), length);
  return CAIRO_STATUS_SUCCESS;
}

class Painter {
 public:
  /// dpi 0: a vector surface, whose large maps become images of `image_dpi`.
  Painter(cairo_t* cr, double dpi, double image_dpi) : cr_(cr), dpi_(dpi), image_dpi_(image_dpi) {
    const std::unique_ptr<cairo_font_options_t, Deleter> options(cairo_font_options_create());
    cairo_font_options_set_hint_style(options.get(), CAIRO_HINT_STYLE_NONE);
    cairo_font_options_set_hint_metrics(options.get(), CAIRO_HINT_METRICS_OFF);
    cairo_font_options_set_antialias(options.get(), CAIRO_ANTIALIAS_GRAY);
    cairo_set_font_options(cr_, options.get());
  }

  void paint(const Figure& figure) {
    if (figure.background.a != 0) paint(FillBox{{0, 0, figure.width, figure.height}, figure.background});
    for (const Primitive& item : figure.items) std::visit([this](const auto& p) { paint(p); }, item);
  }

 private:
  void source(Colour c) { cairo_set_source_rgba(cr_, c.r / 255.0, c.g / 255.0, c.b / 255.0, c.a / 255.0); }

  void path(Box b, double radius) {
    if (radius <= 0) return cairo_rectangle(cr_, b.x, b.y, b.w, b.h);
    constexpr double kQuarter = std::numbers::pi / 2;
    const double r = std::min({radius, b.w / 2, b.h / 2});
    cairo_new_sub_path(cr_);
    cairo_arc(cr_, b.right() - r, b.y + r, r, -kQuarter, 0);
    cairo_arc(cr_, b.right() - r, b.bottom() - r, r, 0, kQuarter);
    cairo_arc(cr_, b.x + r, b.bottom() - r, r, kQuarter, 2 * kQuarter);
    cairo_arc(cr_, b.x + r, b.y + r, r, 2 * kQuarter, 3 * kQuarter);
    cairo_close_path(cr_);
  }

  void stroke(Colour colour, double width, double dash) {
    source(colour);
    cairo_set_line_width(cr_, width);
    cairo_set_dash(cr_, &dash, dash > 0 ? 1 : 0, 0);
    cairo_stroke(cr_);
  }

  void trace(const std::vector<Point>& points) {
    for (std::size_t i = 0; i < points.size(); ++i) {
      (i == 0 ? cairo_move_to : cairo_line_to)(cr_, points[i].x, points[i].y);
    }
  }

  void paint(const FillBox& p) {
    path(p.box, p.radius);
    source(p.colour);
    cairo_fill(cr_);
  }
  void paint(const StrokeBox& p) {
    path(p.box, p.radius);
    stroke(p.colour, p.width, p.dash);
  }
  void paint(const Polyline& p) {
    trace(p.points);
    stroke(p.colour, p.width, p.dash);
  }
  void paint(const Polygon& p) {
    trace(p.points);
    cairo_close_path(cr_);
    source(p.colour);
    cairo_fill(cr_);
  }
  void paint(const Hatch& p) {
    cairo_save(cr_);
    path(p.box, 0);
    cairo_clip(cr_);
    // Lines of x + y = k * spacing in the figure's own coordinates, so that neighbouring cells join.
    const double first = std::ceil((p.box.x + p.box.y) / p.spacing) * p.spacing;
    for (double k = first; k < p.box.right() + p.box.bottom(); k += p.spacing) {
      cairo_move_to(cr_, k - p.box.y, p.box.y);
      cairo_line_to(cr_, k - p.box.bottom(), p.box.bottom());
    }
    stroke(p.colour, p.width, 0);
    cairo_restore(cr_);
  }

  void paint(const Text& p) {
    const std::vector<GlyphRun> runs = place_glyphs(p.utf8, p.role, p.size);
    const double width = text_width(p.utf8, p.role, p.size), cap = cap_height(p.role, p.size);
    const double dx = p.anchor == Anchor::start ? 0 : p.anchor == Anchor::middle ? -width / 2 : -width;
    const double dy = p.baseline == Baseline::middle ? cap / 2 : p.baseline == Baseline::top ? cap : 0;
    cairo_save(cr_);
    cairo_translate(cr_, p.at.x, p.at.y);
    cairo_rotate(cr_, -p.angle * std::numbers::pi / 180);
    source(p.colour);
    for (const GlyphRun& run : runs) {
      cairo_set_font_face(cr_, run.face);
      cairo_set_font_size(cr_, p.size);
      std::vector<cairo_glyph_t> glyphs;
      std::vector<cairo_text_cluster_t> clusters;
      for (const PlacedGlyph& g : run.glyphs) {
        glyphs.push_back({g.index, dx + g.x, dy});
        clusters.push_back({g.n_bytes, 1});
      }
      // With its characters, so that text in the PDF can be searched and copied.
      cairo_show_text_glyphs(cr_, run.utf8.data(), static_cast<int>(run.utf8.size()), glyphs.data(),
                             static_cast<int>(glyphs.size()), clusters.data(), static_cast<int>(clusters.size()), {});
    }
    cairo_restore(cr_);
  }

  void paint(const Image& p) {
    if (p.columns <= 0 || p.rows <= 0) return;
    if (dpi_ > 0) return paint_pixels(p);
    if (static_cast<std::int64_t>(p.columns) * p.rows > kMaxVectorCells) {
      return paint_pixels(magnify(p, magnification(p, image_dpi_)));
    }
    for (const CellRun& run : cell_runs(p)) {
      for (const Box& box : boxes_of(run, p)) paint(FillBox{box, run.colour});
    }
  }

  void paint_pixels(const Image& p) {
    const Surface image(cairo_image_surface_create(CAIRO_FORMAT_ARGB32, p.columns, p.rows));
    check(cairo_surface_status(image.get()), "heat map");
    unsigned char* data = cairo_image_surface_get_data(image.get());
    const int stride = cairo_image_surface_get_stride(image.get());
    for (int r = 0; r < p.rows; ++r) {
      auto* row = reinterpret_cast<std::uint32_t*>(data + static_cast<std::ptrdiff_t>(r) * stride);
      for (int c = 0; c < p.columns; ++c) {
        const Colour k = p.pixels[static_cast<std::size_t>(r) * p.columns + c];
        row[c] = k.a == 0 ? 0 : 0xff000000u | k.r << 16 | k.g << 8 | k.b;  // premultiplied; cells are opaque or absent
      }
    }
    cairo_surface_mark_dirty(image.get());
    Box box = p.box;
    if (dpi_ > 0) {  // whole pixels, or the edge of the map is a blend
      const double k = dpi_ / 72;
      box.x = std::round(box.x * k) / k, box.w = std::round(p.box.right() * k) / k - box.x;
      box.y = std::round(box.y * k) / k, box.h = std::round(p.box.bottom() * k) / k - box.y;
    }
    cairo_save(cr_);
    cairo_translate(cr_, box.x, box.y);
    cairo_scale(cr_, box.w / p.columns, box.h / p.rows);
    cairo_set_source_surface(cr_, image.get(), 0, 0);
    cairo_pattern_set_filter(cairo_get_source(cr_), CAIRO_FILTER_NEAREST);
    cairo_pattern_set_extend(cairo_get_source(cr_), CAIRO_EXTEND_PAD);  // without it the outermost pixels stay paper
    cairo_rectangle(cr_, 0, 0, p.columns, p.rows);
    cairo_fill(cr_);
    cairo_restore(cr_);
  }

  cairo_t* cr_;
  double dpi_, image_dpi_;
};

/// Cairo writes no resolution into a PNG; without pHYs a word processor places the figure at a wrong size.
std::string with_resolution(const std::string& png, double dpi) {
  constexpr std::size_t kAfterHeader = 8 + 25;  // signature, IHDR
  const auto big_endian = [](std::uint32_t v) {
    return std::string{static_cast<char>(v >> 24), static_cast<char>(v >> 16), static_cast<char>(v >> 8),
                       static_cast<char>(v)};
  };
  const std::string per_metre = big_endian(static_cast<std::uint32_t>(std::lround(dpi / 0.0254)));
  const std::string chunk = "pHYs" + per_metre + per_metre + '\x01';
  const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(chunk.data()), chunk.size());
  return png.substr(0, kAfterHeader) + big_endian(9) + chunk + big_endian(static_cast<std::uint32_t>(crc)) +
         png.substr(kAfterHeader);
}

}  // namespace

std::string render_pdf(const Figure& figure, double dpi) {
  const std::lock_guard guard(font_lock());
  std::string bytes;
  const Surface surface(cairo_pdf_surface_create_for_stream(append, &bytes, figure.width, figure.height));
  cairo_pdf_surface_set_metadata(surface.get(), CAIRO_PDF_METADATA_TITLE, figure.title.c_str());
  cairo_pdf_surface_set_metadata(surface.get(), CAIRO_PDF_METADATA_CREATOR, "KVScope");
  // Cairo writes the time of day otherwise, and no figure could be made again byte for byte.
  cairo_pdf_surface_set_metadata(surface.get(), CAIRO_PDF_METADATA_CREATE_DATE, "2000-01-01T00:00:00Z");
  {
    const Context cr(cairo_create(surface.get()));
    Painter(cr.get(), 0, std::max(dpi, 600.0)).paint(figure);
    check(cairo_status(cr.get()), "PDF");
  }
  cairo_surface_finish(surface.get());
  check(cairo_surface_status(surface.get()), "PDF");
  return bytes;
}

std::string render_png(const Figure& figure, double dpi) {
  const std::lock_guard guard(font_lock());
  const double k = dpi / 72;
  const int width = static_cast<int>(std::lround(figure.width * k)),
            height = static_cast<int>(std::lround(figure.height * k));
  const Surface surface(cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height));
  check(cairo_surface_status(surface.get()), "PNG");
  const Context cr(cairo_create(surface.get()));
  cairo_set_source_rgb(cr.get(), 1, 1, 1);
  cairo_paint(cr.get());
  cairo_scale(cr.get(), k, k);
  Painter(cr.get(), dpi, dpi).paint(figure);
  check(cairo_status(cr.get()), "PNG");
  std::string bytes;
  check(cairo_surface_write_to_png_stream(surface.get(), append, &bytes), "PNG");
  return with_resolution(bytes, dpi);
}

FigureFormat figure_format(std::string_view path) {
  if (path.ends_with(".pdf")) return FigureFormat::pdf;
  if (path.ends_with(".svg")) return FigureFormat::svg;
  if (path.ends_with(".png")) return FigureFormat::png;
  throw Error(
      {ExitCode::usage, std::string(path), "", "not a figure file name", "a name that ends in .pdf, .svg or .png", ""});
}

std::string render_figure(const Figure& figure, FigureFormat format, double dpi) {
  if (format == FigureFormat::pdf) return render_pdf(figure, dpi);
  return format == FigureFormat::svg ? render_svg(figure, dpi) : render_png(figure, dpi);
}

}  // namespace kvscope::views
