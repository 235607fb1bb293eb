// SVG by hand: text stays text, and a cell costs some ten bytes.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <numbers>

#include "engine/core/support/text.h"
#include "views/figure/cell_runs.h"
#include "views/figure/fonts.h"
#include "views/figure/render.h"

namespace kvscope::views {
namespace {

std::string number(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", v);
  std::string s = text;
  s.erase(s.find_last_not_of('0') + 1);
  if (s.back() == '.') s.pop_back();
  return s == "-0" ? "0" : s;
}

std::string hex(Colour c) {
  char text[8];
  std::snprintf(text, sizeof text, "#%02x%02x%02x", c.r, c.g, c.b);
  return text;
}

std::string opacity(const char* attribute, Colour c) {
  return c.a == 255 ? "" : std::string(" ") + attribute + "=\"" + number(c.a / 255.0) + "\"";
}

std::string escape(std::string_view text) {
  std::string out;
  for (char c : text) {
    const char* entity = c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '"' ? "&quot;" : nullptr;
    if (entity) {
      out += entity;
    } else {
      out += static_cast<unsigned char>(c) < 0x20 ? '?' : c;  // not allowed in XML
    }
  }
  return out;
}

std::string geometry(Box b) {
  return "x=\"" + number(b.x) + "\" y=\"" + number(b.y) + "\" width=\"" + number(b.w) + "\" height=\"" + number(b.h) +
         "\"";
}

std::string stroke(Colour colour, double width, double dash) {
  return " fill=\"none\" stroke=\"" + hex(colour) + "\"" + opacity("stroke-opacity", colour) + " stroke-width=\"" +
         number(width) + "\"" + (dash > 0 ? " stroke-dasharray=\"" + number(dash) + "\"" : "");
}

class SvgWriter {
 public:
  explicit SvgWriter(double dpi) : dpi_(dpi) {}

  std::string write(const Figure& figure) {
    const std::string w = number(figure.width), h = number(figure.height);
    out_ = "<svg xmlns=\"http://www.w3.org/2000/svg\" xmlns:xlink=\"http://www.w3.org/1999/xlink\" width=\"" + w +
           "pt\" height=\"" + h + "pt\" viewBox=\"0 0 " + w + " " + h + "\">\n<title>" + escape(figure.title) +
           "</title>\n";
    if (figure.background.a != 0) write(FillBox{{0, 0, figure.width, figure.height}, figure.background});
    for (const Primitive& item : figure.items) std::visit([this](const auto& p) { write(p); }, item);
    return out_ + "</svg>\n";
  }

 private:
  void write(const FillBox& p) {
    out_ += "<rect " + geometry(p.box) + radius(p.radius) + " fill=\"" + hex(p.colour) + "\"" +
            opacity("fill-opacity", p.colour) + "/>\n";
  }
  void write(const StrokeBox& p) {
    out_ += "<rect " + geometry(p.box) + radius(p.radius) + stroke(p.colour, p.width, p.dash) + "/>\n";
  }
  void write(const Polyline& p) {
    out_ += "<polyline points=\"" + points(p.points) + "\"" + stroke(p.colour, p.width, p.dash) + "/>\n";
  }
  void write(const Polygon& p) {
    out_ += "<polygon points=\"" + points(p.points) + "\" fill=\"" + hex(p.colour) + "\"" +
            opacity("fill-opacity", p.colour) + "/>\n";
  }
  void write(const Hatch& p) {
    const std::string id = "clip" + std::to_string(n_clips_++);
    std::string d;
    const double first = std::ceil((p.box.x + p.box.y) / p.spacing) * p.spacing;
    for (double k = first; k < p.box.right() + p.box.bottom(); k += p.spacing) {
      d += "M" + number(k - p.box.y) + " " + number(p.box.y) + "L" + number(k - p.box.bottom()) + " " +
           number(p.box.bottom());
    }
    out_ += "<clipPath id=\"" + id + "\"><rect " + geometry(p.box) + "/></clipPath>\n<g clip-path=\"url(#" + id +
            ")\">\n<path d=\"" + d + "\"" + stroke(p.colour, p.width, 0) + "/>\n</g>\n";
  }

  void write(const Text& p) {
    constexpr const char* kFamilies[] = {"Inter, 'DejaVu Sans', Helvetica, Arial, sans-serif",
                                         "Inter, 'DejaVu Sans', Helvetica, Arial, sans-serif",
                                         "'JetBrains Mono', 'DejaVu Sans Mono', Menlo, Consolas, monospace"};
    constexpr const char* kAnchors[] = {"start", "middle", "end"};
    const double cap = cap_height(p.role, p.size);
    const double dy = p.baseline == Baseline::middle ? cap / 2 : p.baseline == Baseline::top ? cap : 0;
    out_ += "<text ";
    if (p.angle == 0) {
      out_ += "x=\"" + number(p.at.x) + "\" y=\"" + number(p.at.y + dy) + "\"";
    } else {
      out_ += "transform=\"translate(" + number(p.at.x) + " " + number(p.at.y) + ") rotate(" + number(-p.angle) +
              ")\" y=\"" + number(dy) + "\"";
    }
    out_ += std::string(" font-family=\"") + kFamilies[static_cast<int>(p.role)] + "\" font-size=\"" + number(p.size) +
            "\"";
    if (p.role == FontRole::bold) out_ += " font-weight=\"600\"";
    // A token is its characters: <| is no triangle.
    if (p.role == FontRole::mono) out_ += " style=\"font-variant-ligatures:none\"";
    if (p.anchor != Anchor::start) out_ += std::string(" text-anchor=\"") + kAnchors[static_cast<int>(p.anchor)] + "\"";
    out_ += " fill=\"" + hex(p.colour) + "\"" + opacity("fill-opacity", p.colour) + " xml:space=\"preserve\">" +
            escape(p.utf8) + "</text>\n";
  }

  void write(const Image& p) {
    if (p.columns <= 0 || p.rows <= 0) return;
    if (static_cast<std::int64_t>(p.columns) * p.rows > kMaxVectorCells) return write_pixels(p);
    std::map<std::string, std::string> paths;  // one path a colour, on the integer grid of cells
    for (const CellRun& run : cell_runs(p)) {
      const std::string n = std::to_string(run.n);
      paths[hex(run.colour)] +=
          "M" + std::to_string(run.column) + " " + std::to_string(run.row) + "h" + n + "v1h-" + n + "z";
    }
    // crispEdges: no antialiasing, hence no seams between cells.
    out_ += "<g transform=\"translate(" + number(p.box.x) + " " + number(p.box.y) + ") scale(" +
            number_text(p.box.w / p.columns, 6) + " " + number_text(p.box.h / p.rows, 6) +
            ")\" shape-rendering=\"crispEdges\">\n";
    for (const auto& [colour, d] : paths) out_ += "<path fill=\"" + colour + "\" d=\"" + d + "\"/>\n";
    out_ += "</g>\n";
  }

  void write_pixels(const Image& p) {
    Figure cells{p.box.w, p.box.h, {255, 255, 255, 0}, "", {p}, {}};
    std::get<Image>(cells.items[0]).box = {0, 0, p.box.w, p.box.h};
    const auto [fx, fy] = magnification(p, std::max(dpi_, 600.0));
    // Exactly fx x fy pixels a cell: one point is one pixel at 72 dpi.
    cells.width = std::get<Image>(cells.items[0]).box.w = static_cast<double>(p.columns) * fx;
    cells.height = std::get<Image>(cells.items[0]).box.h = static_cast<double>(p.rows) * fy;
    out_ += "<image " + geometry(p.box) + " preserveAspectRatio=\"none\" style=\"image-rendering:pixelated\" " +
            "xlink:href=\"data:image/png;base64," + base64(render_png(cells, 72)) + "\"/>\n";
  }

  static std::string radius(double r) { return r > 0 ? " rx=\"" + number(r) + "\"" : ""; }
  static std::string points(const std::vector<Point>& list) {
    std::string s;
    for (const Point& p : list) s += (s.empty() ? "" : " ") + number(p.x) + "," + number(p.y);
    return s;
  }

  double dpi_;
  std::string out_;
  int n_clips_ = 0;
};

}  // namespace

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k)
      group = group << 8 | (i + k < bytes.size() ? static_cast<std::uint8_t>(bytes[i + k]) : 0u);
    for (std::size_t k = 0; k < 4; ++k) {
      text += k <= bytes.size() - i ? kDigits[group >> (18 - 6 * k) & 63] : '=';
    }
  }
  return text;
}

std::string render_svg(const Figure& figure, double dpi) { return SvgWriter(dpi).write(figure); }

}  // namespace kvscope::views
