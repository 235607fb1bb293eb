#include "app/window/png.h"

#include <cairo.h>

#include <memory>

#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"

namespace kvscope::app {

void write_png(const std::filesystem::path& path, int width, int height, std::span<const unsigned char> rgba) {
  const std::unique_ptr<cairo_surface_t, decltype(&cairo_surface_destroy)> surface(
      cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height), cairo_surface_destroy);
  unsigned char* data = cairo_image_surface_get_data(surface.get());
  if (!data) throw Error({.code = ExitCode::resource, .file = path.string(), .found = "no memory for the picture"});
  const int stride = cairo_image_surface_get_stride(surface.get());
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const unsigned char* from = &rgba[(static_cast<std::size_t>(y) * width + x) * 4];
      const std::uint32_t pixel =
          static_cast<std::uint32_t>(from[0]) << 16 | static_cast<std::uint32_t>(from[1]) << 8 | from[2];
      // Cairo's RGB24 is native-endian.
      reinterpret_cast<std::uint32_t*>(data + static_cast<std::size_t>(y) * stride)[x] = pixel;
    }
  }
  cairo_surface_mark_dirty(surface.get());
  std::string bytes;
  const auto append = [](void* to, const unsigned char* data, unsigned n) {
    static_cast<std::string*>(to)->append(reinterpret_cast<const char*>(data), n);
    return CAIRO_STATUS_SUCCESS;
  };
  const cairo_status_t status = cairo_surface_write_to_png_stream(surface.get(), append, &bytes);
  if (status != CAIRO_STATUS_SUCCESS) {
    throw Error({.code = ExitCode::resource, .file = path.string(), .found = cairo_status_to_string(status)});
  }
  write_file_atomic(path, bytes);
}

}  // namespace kvscope::app
