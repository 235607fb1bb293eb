#include "views/figure/render.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <regex>

#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"
#include "tests/support/random_run.h"
#include "tests/support/skip.h"
#include "tests/views/view_support.h"
#include "views/figure/figure_builder.h"
#include "views/figure/recipe.h"

using namespace kvscope;
using namespace kvscope::views;
using namespace kvscope::test;

namespace {

std::uint32_t hex(Colour c) { return static_cast<std::uint32_t>(c.r) << 16 | c.g << 8 | c.b; }

/// Whether it can be one: a figure of a study is of measurements alone.
bool make_preview(FigureRecipe& recipe) {
  return std::visit(
      [](auto& options) {
        if constexpr (requires { options.preview; }) return options.preview = true;
        return false;
      },
      recipe.options);
}

/// Every preset, which is every kind of primitive, with preview marks, hatches and labels.
std::vector<Figure> all_figures() {
  const RunRecord run = random_run(4), other = random_run(5);
  const RunRecord* runs[] = {&run, &other};
  std::vector<Figure> figures;
  for (const FigurePreset& preset : figure_presets()) {
    FigureRecipe recipe = with_attention(preset.recipe, run);
    make_preview(recipe);
    figures.push_back(build_any(recipe, std::span(runs, std::max(1, preset.least_runs))).figure);
  }
  LayerHeadMapOptions early;  // before anything left the window: every cell is hatched
  early.q = 2;
  figures.push_back(layer_head_map_figure(runs, early, {}).figure);
  return figures;
}

Figure map_of(int columns, int rows, double width, double height) {
  Figure figure{width, height, {255, 255, 255, 255}, "cells", {}, {}};
  Image image{{0, 0, width, height}, columns, rows, {}};
  for (int i = 0; i < columns * rows; ++i) image.pixels.push_back(sample(Colormap::viridis, (i * 37 % 256) / 255.0));
  figure.items.emplace_back(std::move(image));
  return figure;
}

/// Share of pixels that have none of the map's colours.
double off_colour(const Pixels& pixels, const Image& image) {
  std::vector<std::uint32_t> known;
  for (Colour c : image.pixels) known.push_back(hex(c));
  std::sort(known.begin(), known.end());
  int off = 0;
  for (std::uint32_t p : pixels.rgb) off += !std::binary_search(known.begin(), known.end(), p);
  return static_cast<double>(off) / static_cast<double>(pixels.rgb.size());
}

}  // namespace

TEST_CASE("rendering a figure twice gives the same bytes") {
  const FigureFormat format = GENERATE(FigureFormat::pdf, FigureFormat::svg, FigureFormat::png);
  for (const Figure& figure : all_figures())
    CHECK(render_figure(figure, format, 150) == render_figure(figure, format, 150));
}

// Read by another program: Cairo 1.18 compresses the dates.
TEST_CASE("a PDF carries no date of today") {
  if (!program_exists("pdfinfo")) return skip("pdfinfo (poppler-utils) is not installed");
  const TemporaryFolder folder;
  write_file_atomic(folder / "figure.pdf", render_pdf(all_figures().front()));
  const std::string info = output_of("TZ=UTC pdfinfo -isodates " + (folder / "figure.pdf").string());
  CHECK_THAT(info, Catch::Contains("CreationDate:") && Catch::Contains("2000-01-01T00:00:00"));
  CHECK_THAT(info, !Catch::Contains("ModDate"));
}

TEST_CASE("fonts in a PDF are embedded subsets with ToUnicode, none of them Type 3") {
  if (!program_exists("pdffonts")) return skip("pdffonts (poppler-utils) is not installed");
  const TemporaryFolder folder;
  int n_fonts = 0;
  for (const Figure& figure : all_figures()) {
    write_file_atomic(folder / "figure.pdf", render_pdf(figure));
    std::istringstream lines(output_of("pdffonts " + (folder / "figure.pdf").string()));
    std::string line;
    for (int i = 0; std::getline(lines, line); ++i) {
      if (i < 2) continue;  // head of the table
      INFO(line);
      CHECK_THAT(line, !Catch::Contains("Type 3"));
      CHECK(std::regex_search(line, std::regex("yes +yes +yes +[0-9]+ +[0-9]+ *$")));
      ++n_fonts;
    }
  }
  CHECK(n_fonts >= 6);
}

TEST_CASE("text in a PDF can be searched") {
  if (!program_exists("pdftotext")) return skip("pdftotext (poppler-utils) is not installed");
  const TemporaryFolder folder;
  const RunRecord run = random_run(4);
  const RunRecord* runs[] = {&run};
  write_file_atomic(folder / "map.pdf", render_pdf(build_figure(preset_recipe("kvpop-fig8"), runs).figure));
  const std::string text = output_of("pdftotext " + (folder / "map.pdf").string() + " -");
  CHECK_THAT(text, Catch::Contains("KV head"));
  CHECK_THAT(text, Catch::Contains("by layer"));
}

TEST_CASE("an SVG has its labels as text, escaped") {
  const RunRecord run = random_run(4);
  const RunRecord* runs[] = {&run};
  const std::string map = render_svg(build_figure(preset_recipe("spkv-fig4"), runs).figure);
  for (const char* label : {">KV head<", ">Layer<", ">Density<"}) CHECK_THAT(map, Catch::Contains(label));
  Figure figure{100, 50, {255, 255, 255, 255}, "<title> & co", {}, {}};
  figure.items.emplace_back(Text{"a < b & \"c\"\x01", {10, 20}, FontRole::mono, 8, {0, 0, 0, 255}});
  const std::string svg = render_svg(figure);
  CHECK_THAT(svg, Catch::Contains("<title>&lt;title&gt; &amp; co</title>"));
  CHECK_THAT(svg, Catch::Contains(">a &lt; b &amp; &quot;c&quot;?</text>"));
}

TEST_CASE("every SVG is well-formed XML") {
  if (!program_exists("xmllint")) return skip("xmllint (libxml2-utils) is not installed");
  const TemporaryFolder folder;
  for (const Figure& figure : all_figures()) {
    write_file_atomic(folder / "figure.svg", render_svg(figure));
    output_of("xmllint --noout " + (folder / "figure.svg").string());
  }
}

TEST_CASE("a PNG has the figure's size at its resolution, and says so") {
  const double dpi = GENERATE(72, 150, 300);
  const std::string bytes = render_png(map_of(4, 3, 120, 90), dpi);
  const Pixels pixels = decode_png(bytes);
  CHECK(pixels.width == std::lround(120 * dpi / 72));
  CHECK(pixels.height == std::lround(90 * dpi / 72));
  const std::size_t at = bytes.find("pHYs");
  REQUIRE(at != std::string::npos);
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[at + 4 + i]); };
  CHECK((byte(0) << 24 | byte(1) << 16 | byte(2) << 8 | byte(3)) == std::lround(dpi / 0.0254));
}

TEST_CASE("each cell of a PNG has exactly its colour, without a blend at its edges") {
  const int columns = GENERATE(1, 7, 113);
  const Figure figure = map_of(columns, 5, 200, 60);
  const Image& image = std::get<Image>(figure.items[0]);
  const Pixels pixels = decode_png(render_png(figure, 300));
  CHECK(off_colour(pixels, image) == 0);
  for (int r = 0; r < image.rows; ++r) {
    for (int c = 0; c < image.columns; ++c) {
      const int x = static_cast<int>((c + 0.5) / columns * pixels.width),
                y = static_cast<int>((r + 0.5) / 5 * pixels.height);
      CHECK(pixels.at(x, y) == hex(image.pixels[static_cast<std::size_t>(r) * columns + c]));
    }
  }
}

TEST_CASE("a heat map in a PDF shows no seams between its cells") {
  if (!program_exists("pdftocairo")) return skip("pdftocairo (poppler-utils) is not installed");
  const TemporaryFolder folder;
  const int columns = GENERATE(112, 1000);  // as rectangles, and as a magnified image
  const int dpi = GENERATE(96, 150, 300);
  // Two dark colours that differ by one step in a checkerboard: no two cells are merged, and any paper that shines
  // through between them is far from both.
  Figure figure = map_of(columns, 36, 396, 144);
  Image& image = std::get<Image>(figure.items[0]);
  for (int i = 0; i < columns * 36; ++i) {
    image.pixels[i] = {static_cast<std::uint8_t>(40 + (i / columns + i % columns) % 2), 0, 80, 255};
  }
  write_file_atomic(folder / "map.pdf", render_pdf(figure));
  const std::string base = (folder / "map").string();
  output_of("pdftocairo -png -singlefile -r " + std::to_string(dpi) + " " + base + ".pdf " + base);
  const Pixels pixels = read_png(folder / "map.png");
  int seams = 0;
  for (int y = 1; y + 1 < pixels.height; ++y) {
    for (int x = 1; x + 1 < pixels.width; ++x) seams += (pixels.at(x, y) >> 8 & 0xff) > 2;  // 2: rounding of a blend
  }
  CHECK(seams == 0);
}

/// Grey in blocks of 8 x 8 pixels, [0, 255]: what is left of a picture when letters may move by a pixel.
std::vector<double> blocks(const Pixels& pixels) {
  constexpr int kSide = 8;
  const int columns = pixels.width / kSide, rows = pixels.height / kSide;
  std::vector<double> grey(static_cast<std::size_t>(columns) * rows);
  for (int y = 0; y < rows * kSide; ++y) {
    for (int x = 0; x < columns * kSide; ++x) {
      const std::uint32_t p = pixels.at(x, y);
      grey[static_cast<std::size_t>(y / kSide) * columns + x / kSide] +=
          ((p >> 16 & 0xff) * 0.3 + (p >> 8 & 0xff) * 0.59 + (p & 0xff) * 0.11) / (kSide * kSide);
    }
  }
  return grey;
}

TEST_CASE("other programs draw each preset's PDF and SVG as our own PNG has it") {
  const auto [program, command, ending] = GENERATE(table<const char*, const char*, const char*>({
      {"pdftoppm", "pdftoppm -png -singlefile -r 96 %.pdf %", ".pdf"},
      {"pdftocairo", "pdftocairo -png -singlefile -r 96 %.pdf %", ".pdf"},
      {"mutool", "mutool draw -q -r 96 -o %.png %.pdf 2>/dev/null", ".pdf"},
      {"rsvg-convert", "rsvg-convert -d 96 -p 96 -o %.png %.svg", ".svg"},
  }));
  if (!program_exists(program)) return skip((std::string(program) + " is not installed").c_str());
  const TemporaryFolder folder;
  const std::string base = (folder / "figure").string();
  std::string line;
  for (const char c : std::string(command)) line += c == '%' ? base : std::string(1, c);
  for (const Figure& figure : all_figures()) {
    write_file_atomic(base + ending, render_figure(figure, figure_format(base + ending)));
    output_of(line);
    const std::vector<double> theirs = blocks(read_png(base + ".png")),
                              ours = blocks(decode_png(render_png(figure, 96)));
    INFO(program << ": " << figure.title);
    // A pixel more or less where the size is no whole number of pixels can be a column of blocks more: compare where not.
    if (theirs.size() != ours.size()) {
      CHECK(std::abs(static_cast<double>(theirs.size()) / ours.size() - 1) < 0.05);
      continue;
    }
    double sum = 0;
    int far = 0;
    for (std::size_t i = 0; i < ours.size(); ++i) {
      sum += std::abs(ours[i] - theirs[i]);
      far += std::abs(ours[i] - theirs[i]) > 70;
    }
    CHECK(sum / ours.size() < 8);  // fine hatching is 6 apart
    CHECK(far <= static_cast<int>(ours.size() / 100));
  }
}

TEST_CASE("text that no font has is written by its number, not dropped") {
  Figure figure{200, 30, {255, 255, 255, 255}, "", {}, {}};
  figure.items.emplace_back(Text{"\xF3\xB0\x80\x80", {5, 20}, FontRole::text, 12, {0, 0, 0, 255}});  // private use
  const Pixels pixels = decode_png(render_png(figure, 72));
  int ink = 0;
  for (std::uint32_t p : pixels.rgb) ink += p < 0x808080;
  CHECK(ink > 30);
}

TEST_CASE("a preview is drawn with its badge, a measurement without") {
  const RunRecord run = random_run(4);
  const RunRecord* runs[] = {&run};
  for (const FigurePreset& preset : figure_presets()) {
    INFO(preset.name);
    const FigureRecipe measured = with_attention(preset.recipe, run);
    FigureRecipe recipe = measured;
    if (!make_preview(recipe)) continue;
    CHECK_THAT(render_svg(build_figure(measured, runs).figure), !Catch::Contains(std::string(kPreviewBadge)));
    const std::string svg = render_svg(build_figure(recipe, runs).figure);
    CHECK_THAT(svg, Catch::Contains(std::string(kPreviewBadge)));
    CHECK_THAT(svg, Catch::Contains("stroke-dasharray"));
  }
}

TEST_CASE("a preview beside a measurement is the only one framed") {
  const RunRecord a = random_run(4), b = random_run(5);
  const RunRecord* runs[] = {&a, &b};
  LayerHeadMapOptions options;
  options.compare = MapCompare::side_by_side;
  options.preview_b = true;
  const Figure figure = layer_head_map_figure(runs, options, {}).figure;
  int frames = 0;
  for (const Primitive& item : figure.items) {
    const auto* stroke = std::get_if<StrokeBox>(&item);
    if (stroke == nullptr || stroke->dash == 0) continue;
    ++frames;
    CHECK(stroke->box.contains(figure.panel("map.b")->box.centre()));
    CHECK_FALSE(stroke->box.contains(figure.panel("map")->box.centre()));
  }
  CHECK(frames == 1);
}

TEST_CASE("nothing of a figure lies outside its page") {
  for (const Figure& figure : all_figures()) {
    for (const Panel& panel : figure.panels) {
      CHECK(panel.box.x >= 0);
      CHECK(panel.box.y >= 0);
      CHECK(panel.box.right() <= figure.width);
      CHECK(panel.box.bottom() <= figure.height);
    }
    // The outermost pixels of the page stay paper.
    const Pixels pixels = decode_png(render_png(figure, 144));
    int ink = 0;
    for (int x = 0; x < pixels.width; ++x)
      ink += pixels.at(x, 0) != 0xffffff || pixels.at(x, pixels.height - 1) != 0xffffff;
    for (int y = 0; y < pixels.height; ++y)
      ink += pixels.at(0, y) != 0xffffff || pixels.at(pixels.width - 1, y) != 0xffffff;
    INFO(figure.title);
    CHECK(ink == 0);
  }
}

TEST_CASE("a figure's format follows from its name") {
  CHECK(figure_format("a/b.pdf") == FigureFormat::pdf);
  CHECK(figure_format("b.svg") == FigureFormat::svg);
  CHECK(figure_format("b.png") == FigureFormat::png);
  CHECK_THROWS_WITH(figure_format("b.jpg"), Catch::Contains("b.jpg") && Catch::Contains(".pdf, .svg or .png"));
}
