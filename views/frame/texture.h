#pragma once
// Textures for heat maps, behind an interface: OpenGL in the window, nothing at all in tests without a display.

#include <imgui.h>

#include <cstdint>
#include <span>

namespace kvscope::views {

/// RGBA8 textures, nearest neighbour, clamped to the edge. Colours are IM_COL32 order (R in the lowest byte).
class TextureBackend {
 public:
  virtual ~TextureBackend() = default;
  virtual ImTextureID create(int width, int height) = 0;
  /// Replaces the rectangle (x, y, width, height); pixels has width * height colours.
  virtual void update(ImTextureID texture, int x, int y, int width, int height,
                      std::span<const std::uint32_t> pixels) = 0;
  virtual void destroy(ImTextureID texture) = 0;
  virtual int max_side() const = 0;
};

/// Counts calls and draws nothing.
class NullTextureBackend final : public TextureBackend {
 public:
  ImTextureID create(int width, int height) override;
  void update(ImTextureID texture, int x, int y, int width, int height, std::span<const std::uint32_t> pixels) override;
  void destroy(ImTextureID texture) override;
  int max_side() const override { return 4096; }
  int n_alive() const { return created_ - destroyed_; }
  int n_updates() const { return updates_; }
  std::int64_t n_pixels() const { return pixels_; }  // of all updates

 private:
  int created_ = 0, destroyed_ = 0, updates_ = 0;
  std::int64_t pixels_ = 0;
};

/// OpenGL 1.1 functions suffice. `get_proc_address` is glfwGetProcAddress; the context must be current in every call,
/// the destructor of a texture's owner included.
class OpenGlTextureBackend final : public TextureBackend {
 public:
  using Function = void (*)();
  explicit OpenGlTextureBackend(Function (*get_proc_address)(const char* name));
  ImTextureID create(int width, int height) override;
  void update(ImTextureID texture, int x, int y, int width, int height, std::span<const std::uint32_t> pixels) override;
  void destroy(ImTextureID texture) override;
  int max_side() const override { return max_side_; }

 private:
  Function gen_, delete_, bind_, parameter_, image_, sub_image_, get_integer_, pixel_store_;
  int max_side_ = 4096;
};

/// One texture that owns itself.
class Texture {
 public:
  Texture() = default;
  explicit Texture(TextureBackend& backend) : backend_(&backend) {}
  ~Texture() { reset(); }
  Texture(const Texture&) = delete;
  Texture& operator=(const Texture&) = delete;
  /// Makes it width x height (a new texture only if the size changed) and fills it.
  void assign(int width, int height, std::span<const std::uint32_t> pixels);
  void reset();
  explicit operator bool() const { return width_ > 0; }
  ImTextureID id() const { return id_; }
  int width() const { return width_; }
  int height() const { return height_; }

 private:
  TextureBackend* backend_ = nullptr;
  ImTextureID id_{};
  int width_ = 0, height_ = 0;
};

}  // namespace kvscope::views
