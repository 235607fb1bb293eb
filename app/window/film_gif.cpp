// Defines gif_encoder.
#include <optional>

#include "app/window/film.h"
#include "app/window/gif.h"
#include "engine/core/support/json_file.h"

namespace kvscope::app {
namespace {

class GifEncoder : public Film::Encoder {
 public:
  GifEncoder(std::filesystem::path path, int ms) : path_(std::move(path)), ms_(ms) {}
  void add(const Film::Picture& picture) override {
    if (!gif_) gif_.emplace(picture.width, picture.height);
    gif_->add(picture.rgba, ms_);
  }
  void finish() override {
    if (gif_) write_file_atomic(path_, gif_->finish());
  }

 private:
  std::filesystem::path path_;
  int ms_;
  std::optional<GifWriter> gif_;
};

}  // namespace

std::unique_ptr<Film::Encoder> gif_encoder(const std::filesystem::path& path, int ms) {
  return std::make_unique<GifEncoder>(path, ms);
}

}  // namespace kvscope::app
