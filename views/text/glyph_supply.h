#pragma once
// Characters that the window's fonts lack, from the other fonts of the machine: asked for when they are seen, drawn on a
// thread, added to ImGui's fonts between two frames. Nothing is loaded before it is needed, and no frame waits.
//
// Until a character is there it shows as ImGui's replacement mark; one that no font has becomes a frame with its number.
// Debian's ImGui has characters of 16 bits: those above are not for this, see text_font.h.

#include <array>
#include <bitset>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "views/frame/texture.h"
#include "views/frame/theme.h"
#include "views/text/glyph_raster.h"

namespace kvscope::views {

class GlyphSupply {
 public:
  /// `wake` is called from the thread when add_ready() has something to add; may be empty.
  GlyphSupply(TextureBackend& textures, std::function<void()> wake);
  ~GlyphSupply();
  GlyphSupply(const GlyphSupply&) = delete;
  GlyphSupply& operator=(const GlyphSupply&) = delete;

  /// The fonts were made anew (load_fonts): what they were given is asked for again.
  void use(const Fonts& fonts);
  /// Cheap for a character that is there or was asked for.
  void want(char32_t point) {
    if (point >= kFirst && point <= 0xffff && !asked_[point]) ask(point);
  }
  void want(std::string_view utf8);

  enum class Added : std::uint8_t {
    nothing,
    glyphs,   // the texture has them already
    texture,  // ImGui's font texture has grown: the renderer must make it anew
  };
  /// Between two frames. Adds what the thread has drawn, a batch at most.
  Added add_ready();
  /// Behind a frame: gives the thread the next batch of what was asked for, if it has none.
  void send();
  /// Rises when characters have other widths than before.
  std::uint64_t revision() const { return revision_; }
  bool busy() const { return under_way_ || !queue_.empty(); }

 private:
  static constexpr char32_t kFirst = 0x250;  // all before is in the fonts that are always loaded
  struct Drawn {
    char32_t point = 0;
    std::vector<GlyphBitmap> sizes;  // as Job::lines
  };
  struct Job {
    std::vector<char32_t> points;
    std::vector<float> lines;
    std::uint64_t of_fonts = 0;
  };
  struct Place {
    int x = 0, y = 0;
  };

  void ask(char32_t point);
  void work();
  void add(const Drawn& drawn);
  void add_to(ImFont& font, char32_t point, const GlyphBitmap& glyph, Place at, float scale) const;
  bool grow(int rows);
  /// False: the texture is as large as can be.
  bool place(int width, int height, Place& at);
  void write(const GlyphBitmap& glyph, Place at);

  TextureBackend& textures_;
  std::function<void()> wake_;
  std::vector<ImFont*> fonts_;  // that are given characters
  std::array<ImFont*, 2> drawn_for_{};
  std::vector<float> lines_;  // their sizes; other fonts scale the nearest
  std::bitset<0x10000> asked_;
  std::deque<char32_t> queue_;
  std::vector<char32_t> wanted_;  // all that were asked for, for the next fonts
  std::uint64_t revision_ = 0, of_fonts_ = 0;
  bool under_way_ = false, grown_ = false;
  int shelf_x_ = 0, shelf_y_ = 0, shelf_height_ = 0;  // where the next goes; 0: there is no room of ours as yet

  std::mutex mutex_;  // over what follows
  std::condition_variable changed_;
  Job job_;
  bool has_job_ = false, stop_ = false, has_result_ = false;
  std::vector<Drawn> result_;
  std::uint64_t result_of_fonts_ = 0;
  std::thread thread_;  // started by the first job
};

}  // namespace kvscope::views
