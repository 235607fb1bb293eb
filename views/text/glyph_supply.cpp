#include "views/text/glyph_supply.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/core/support/utf8.h"
#include "views/widgets/imgui_compat.h"

namespace kvscope::views {
namespace {

constexpr std::size_t kBatch = 128;  // characters: adding so many takes half a millisecond
constexpr int kLeastRows = 256;      // by which the texture grows

#if IMGUI_VERSION_NUM < 19200
/// Rows of the texture that ImGui has packed something into; it rounds their number up to a power of two.
int used_rows(const ImFontAtlas& atlas) {
  float rows = 0;
  const auto height = static_cast<float>(atlas.TexHeight);
  for (const ImFont* font : atlas.Fonts) {
    for (const ImFontGlyph& glyph : font->Glyphs) rows = std::max(rows, glyph.V1 * height);
  }
  for (const ImVec4& line : atlas.TexUvLines) rows = std::max(rows, line.w * height);
  for (const ImFontAtlasCustomRect& rect : atlas.CustomRects)
    rows = std::max(rows, static_cast<float>(rect.Y + rect.Height));
  return std::min(atlas.TexHeight, static_cast<int>(rows) + 1);
}
#endif

}  // namespace

GlyphSupply::GlyphSupply(TextureBackend& textures, std::function<void()> wake)
    : textures_(textures), wake_(std::move(wake)) {}

GlyphSupply::~GlyphSupply() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void GlyphSupply::use(const Fonts& fonts) {
  ++of_fonts_, ++revision_;
  fonts_.clear();
  for (ImFont* font : {fonts.text, fonts.small, fonts.bold, fonts.title, fonts.mono}) {
    if (font != nullptr && std::ranges::find(fonts_, font) == fonts_.end()) fonts_.push_back(font);
  }
  drawn_for_ = {fonts.text, fonts.small};
  shelf_x_ = shelf_y_ = shelf_height_ = 0;
  asked_.reset();
  queue_.clear();
  for (const char32_t point : std::exchange(wanted_, {})) want(point);
}

void GlyphSupply::want(std::string_view utf8) {
  for (std::size_t at = 0; at < utf8.size();) {
    const Utf8Char c = decode_utf8(utf8, at);
    if (c.valid) want(c.code_point);
    at += c.length;
  }
}

void GlyphSupply::ask(char32_t point) {
  asked_.set(point);
#if IMGUI_VERSION_NUM < 19200  // newer ones draw glyphs from their fonts as they are needed
  if (std::ranges::all_of(fonts_, [&](ImFont* font) { return has_glyph(font, static_cast<ImWchar>(point)); })) return;
  queue_.push_back(point);
  wanted_.push_back(point);
#endif
}

// ------------------------------------------------------------------------------------------------ the thread

void GlyphSupply::send() {
  if (under_way_ || queue_.empty()) return;
  // Fonts know their size when the atlas has been built, which the renderer does with the first frame.
  lines_.clear();
  for (ImFont* font : drawn_for_) {
    if (font != nullptr && font_size(font) > 0) lines_.push_back(font_size(font));
  }
  if (lines_.empty()) return;
  Job job{{}, lines_, of_fonts_};
  for (; !queue_.empty() && job.points.size() < kBatch; queue_.pop_front()) job.points.push_back(queue_.front());
  under_way_ = true;
  {
    const std::lock_guard lock(mutex_);
    job_ = std::move(job);
    has_job_ = true;
  }
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  changed_.notify_all();
}

void GlyphSupply::work() {
  GlyphRaster raster;
  for (std::unique_lock lock(mutex_);;) {
    changed_.wait(lock, [this] { return stop_ || has_job_; });
    if (stop_) return;
    const Job job = std::move(job_);
    has_job_ = false;
    lock.unlock();
    std::vector<Drawn> drawn;
    for (const char32_t point : job.points) {
      Drawn& one = drawn.emplace_back();
      one.point = point;
      for (const float line : job.lines) one.sizes.push_back(raster.draw(point, line));
    }
    lock.lock();
    result_ = std::move(drawn);
    result_of_fonts_ = job.of_fonts;
    has_result_ = true;
    if (wake_) wake_();
  }
}

GlyphSupply::Added GlyphSupply::add_ready() {
  std::vector<Drawn> drawn;
  bool current = false;
  if (under_way_) {
    const std::lock_guard lock(mutex_);
    if (std::exchange(has_result_, false)) {
      under_way_ = false;
      drawn = std::move(result_);
      current = result_of_fonts_ == of_fonts_;
    }
  }
  if (!current || drawn.empty()) return Added::nothing;
  grown_ = false;
  for (const Drawn& one : drawn) add(one);
#if IMGUI_VERSION_NUM < 19200
  for (ImFont* font : fonts_) font->BuildLookupTable();
#endif
  ++revision_;
  return grown_ ? Added::texture : Added::glyphs;
}

// ------------------------------------------------------------------------------------------------ the atlas

void GlyphSupply::add(const Drawn& drawn) {
  std::vector<Place> places;
  for (const GlyphBitmap& glyph : drawn.sizes) {
    Place at;
    if (!place(glyph.width, glyph.height, at)) return;
    write(glyph, at);
    places.push_back(at);
  }
  for (ImFont* font : fonts_) {
    if (has_glyph(font, static_cast<ImWchar>(drawn.point))) continue;
    // The size that is nearest, and scaled if it is not the font's own: for a title's few words.
    std::size_t best = 0;
    for (std::size_t i = 1; i < lines_.size(); ++i) {
      if (std::abs(lines_[i] - font_size(font)) < std::abs(lines_[best] - font_size(font))) best = i;
    }
    add_to(*font, drawn.point, drawn.sizes[best], places[best], font_size(font) / lines_[best]);
  }
}

#if IMGUI_VERSION_NUM < 19200

void GlyphSupply::add_to(ImFont& font, char32_t point, const GlyphBitmap& glyph, Place at, float scale) const {
  const ImFontAtlas& atlas = *font.ContainerAtlas;
  const float left = static_cast<float>(glyph.left) * scale, top = font.Ascent + static_cast<float>(glyph.top) * scale;
  font.AddGlyph(nullptr, static_cast<ImWchar>(point), left, top, left + static_cast<float>(glyph.width) * scale,
                top + static_cast<float>(glyph.height) * scale, static_cast<float>(at.x) * atlas.TexUvScale.x,
                static_cast<float>(at.y) * atlas.TexUvScale.y,
                static_cast<float>(at.x + glyph.width) * atlas.TexUvScale.x,
                static_cast<float>(at.y + glyph.height) * atlas.TexUvScale.y, glyph.advance * scale);
}

// More rows below: nothing moves but the scale of what lies above.
bool GlyphSupply::grow(int rows) {
  ImFontAtlas& atlas = *fonts_.front()->ContainerAtlas;
  const int old_height = atlas.TexHeight, height = old_height + rows;
  if (height > textures_.max_side()) return false;
  const std::size_t old_size = static_cast<std::size_t>(atlas.TexWidth) * old_height,
                    size = static_cast<std::size_t>(atlas.TexWidth) * height;
  const auto longer = [&](auto*& pixels) {
    if (pixels == nullptr) return;
    using Pixel = std::remove_reference_t<decltype(*pixels)>;
    auto* fresh = static_cast<Pixel*>(ImGui::MemAlloc(size * sizeof(Pixel)));
    std::memcpy(fresh, pixels, old_size * sizeof(Pixel));
    std::fill(fresh + old_size, fresh + size, sizeof(Pixel) == 4 ? static_cast<Pixel>(0x00ffffff) : Pixel{});
    ImGui::MemFree(pixels);
    pixels = fresh;
  };
  longer(atlas.TexPixelsAlpha8);
  longer(atlas.TexPixelsRGBA32);
  const float k = static_cast<float>(old_height) / static_cast<float>(height);
  for (ImFont* font : atlas.Fonts) {
    for (ImFontGlyph& glyph : font->Glyphs) glyph.V0 *= k, glyph.V1 *= k;
  }
  atlas.TexUvWhitePixel.y *= k;
  for (ImVec4& line : atlas.TexUvLines) line.y *= k, line.w *= k;
  atlas.TexHeight = height;
  atlas.TexUvScale.y = 1.f / static_cast<float>(height);
  return grown_ = true;
}

bool GlyphSupply::place(int width, int height, Place& at) {
  if (fonts_.empty()) return false;
  const ImFontAtlas& atlas = *fonts_.front()->ContainerAtlas;
  if (!atlas.IsBuilt() || width + 2 > atlas.TexWidth) return false;
  if (shelf_y_ == 0) shelf_y_ = used_rows(atlas) + 1;
  if (shelf_x_ + width + 1 > atlas.TexWidth) shelf_y_ += shelf_height_ + 1, shelf_x_ = shelf_height_ = 0;
  if (shelf_y_ + height + 1 > atlas.TexHeight && !grow(std::max({kLeastRows, atlas.TexHeight / 4, height + 1})))
    return false;
  at = {shelf_x_, shelf_y_};
  shelf_x_ += width + 1;
  shelf_height_ = std::max(shelf_height_, height);
  return true;
}

void GlyphSupply::write(const GlyphBitmap& glyph, Place at) {
  if (glyph.width * glyph.height == 0) return;
  const ImFontAtlas& atlas = *fonts_.front()->ContainerAtlas;
  std::vector<std::uint32_t> pixels;
  for (const std::uint8_t coverage : glyph.coverage) pixels.push_back(IM_COL32(255, 255, 255, coverage));
  for (int y = 0; y < glyph.height; ++y) {
    const std::size_t to = static_cast<std::size_t>(at.y + y) * atlas.TexWidth + at.x, from = y * glyph.width;
    if (atlas.TexPixelsAlpha8 != nullptr)
      std::copy_n(glyph.coverage.begin() + static_cast<std::ptrdiff_t>(from), glyph.width, atlas.TexPixelsAlpha8 + to);
    if (atlas.TexPixelsRGBA32 != nullptr)
      std::copy_n(pixels.begin() + static_cast<std::ptrdiff_t>(from), glyph.width, atlas.TexPixelsRGBA32 + to);
  }
  if (!grown_ && atlas.TexID != ImTextureID{})
    textures_.update(atlas.TexID, at.x, at.y, glyph.width, glyph.height, pixels);
}

#else

void GlyphSupply::add_to(ImFont&, char32_t, const GlyphBitmap&, Place, float) const {}
bool GlyphSupply::grow(int) { return false; }
bool GlyphSupply::place(int, int, Place&) { return false; }
void GlyphSupply::write(const GlyphBitmap&, Place) {}

#endif

}  // namespace kvscope::views
