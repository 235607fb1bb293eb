#include "views/figure/image_means.h"

#include <cmath>
#include <utility>
#include <variant>

#include "views/figure/token_span.h"

namespace kvscope::views {
namespace {

Colour mean_of(const Image& image, TokenSpan columns, TokenSpan rows) {
  std::int64_t red = 0, green = 0, blue = 0, alpha = 0;
  for (std::int32_t r = rows.begin; r < rows.end; ++r) {
    const Colour* row = &image.pixels[static_cast<std::size_t>(r) * static_cast<std::size_t>(image.columns)];
    for (std::int32_t c = columns.begin; c < columns.end; ++c) {
      red += row[c].r * row[c].a, green += row[c].g * row[c].a, blue += row[c].b * row[c].a, alpha += row[c].a;
    }
  }
  if (alpha == 0) return {0, 0, 0, 0};
  const std::int64_t cells = static_cast<std::int64_t>(columns.size()) * rows.size();
  const auto byte = [](std::int64_t sum, std::int64_t of) { return static_cast<std::uint8_t>((sum + of / 2) / of); };
  return {byte(red, alpha), byte(green, alpha), byte(blue, alpha), byte(alpha, cells)};
}

}  // namespace

Image image_means(const Image& image, int columns, int rows) {
  if (image.columns <= columns && image.rows <= rows) return image;
  const SpanCells across({0, image.columns}, columns), down({0, image.rows}, rows);
  Image means{image.box, across.cells, down.cells, {}};
  means.pixels.reserve(static_cast<std::size_t>(across.cells) * static_cast<std::size_t>(down.cells));
  for (int r = 0; r < down.cells; ++r) {
    for (int c = 0; c < across.cells; ++c) means.pixels.push_back(mean_of(image, across.tokens(c), down.tokens(r)));
  }
  return means;
}

Figure for_pixels(Figure figure, double pixels_per_point) {
  const auto pixels = [&](double points) { return static_cast<int>(std::ceil(points * pixels_per_point)); };
  for (Primitive& item : figure.items) {
    if (auto* image = std::get_if<Image>(&item))
      *image = image_means(*image, pixels(image->box.w), pixels(image->box.h));
  }
  return figure;
}

}  // namespace kvscope::views
