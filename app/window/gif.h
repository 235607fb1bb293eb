#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kvscope::app {

/// An animated GIF (GIF89a) that repeats without end. A picture of at most 255 colours keeps them; of more, each becomes one
/// of 255 that a median cut chooses for this picture. What has not changed since the picture before takes no room.
class GifWriter {
 public:
  /// Pixels, 1 to 65535 each.
  GifWriter(int width, int height);

  /// Adds a picture: rows from top to bottom, RGBA, 8 bits each; alpha is taken as opaque. It is shown for `ms`, rounded to
  /// hundredths of a second.
  void add(std::span<const unsigned char> rgba, int ms);
  /// The file. Nothing may be added after it.
  std::string finish();

 private:
  struct Area {
    int x = 0, y = 0, width = 0, height = 0;
  };
  Area changed(std::span<const unsigned char> rgba) const;
  void write_waiting();

  int width_, height_;
  std::string bytes_;
  std::vector<unsigned char> last_;  // RGBA
  std::string waiting_;              // the last picture, without its time
  int waiting_ms_ = 0;
};

}  // namespace kvscope::app
