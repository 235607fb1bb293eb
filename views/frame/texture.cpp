#include "views/frame/texture.h"

#include <GL/gl.h>

#include <cstdint>

namespace kvscope::views {
namespace {

// ImTextureID is a pointer in ImGui up to 1.91 and an integer after: both hold a GL name.
ImTextureID to_id(std::uint64_t name) {
  return (ImTextureID)(std::uintptr_t)name;  // NOLINT: reinterpret or static cast, whichever the version needs
}
GLuint to_name(ImTextureID id) { return (GLuint)(std::uintptr_t)id; }

}  // namespace

ImTextureID NullTextureBackend::create(int, int) { return to_id(static_cast<std::uint64_t>(++created_)); }
void NullTextureBackend::update(ImTextureID, int, int, int width, int height, std::span<const std::uint32_t>) {
  ++updates_;
  pixels_ += static_cast<std::int64_t>(width) * height;
}
void NullTextureBackend::destroy(ImTextureID) { ++destroyed_; }

OpenGlTextureBackend::OpenGlTextureBackend(Function (*get)(const char*))
    : gen_(get("glGenTextures")),
      delete_(get("glDeleteTextures")),
      bind_(get("glBindTexture")),
      parameter_(get("glTexParameteri")),
      image_(get("glTexImage2D")),
      sub_image_(get("glTexSubImage2D")),
      get_integer_(get("glGetIntegerv")),
      pixel_store_(get("glPixelStorei")) {
  reinterpret_cast<decltype(&glGetIntegerv)>(get_integer_)(GL_MAX_TEXTURE_SIZE, &max_side_);
}

ImTextureID OpenGlTextureBackend::create(int width, int height) {
  GLuint name = 0;
  reinterpret_cast<decltype(&glGenTextures)>(gen_)(1, &name);
  reinterpret_cast<decltype(&glBindTexture)>(bind_)(GL_TEXTURE_2D, name);
  const auto parameter = reinterpret_cast<decltype(&glTexParameteri)>(parameter_);
  parameter(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_NEAREST);
  parameter(GL_TEXTURE_2D, GL_TEXTURE_MAG_FILTER, GL_NEAREST);
  parameter(GL_TEXTURE_2D, GL_TEXTURE_WRAP_S, GL_CLAMP_TO_EDGE);
  parameter(GL_TEXTURE_2D, GL_TEXTURE_WRAP_T, GL_CLAMP_TO_EDGE);
  reinterpret_cast<decltype(&glTexImage2D)>(image_)(GL_TEXTURE_2D, 0, GL_RGBA8, width, height, 0, GL_RGBA,
                                                    GL_UNSIGNED_BYTE, nullptr);
  return to_id(name);
}

void OpenGlTextureBackend::update(ImTextureID texture, int x, int y, int width, int height,
                                  std::span<const std::uint32_t> pixels) {
  reinterpret_cast<decltype(&glBindTexture)>(bind_)(GL_TEXTURE_2D, to_name(texture));
  // ImGui's back end leaves its own row length behind while it uploads fonts.
  reinterpret_cast<decltype(&glPixelStorei)>(pixel_store_)(GL_UNPACK_ROW_LENGTH, 0);
  reinterpret_cast<decltype(&glTexSubImage2D)>(sub_image_)(GL_TEXTURE_2D, 0, x, y, width, height, GL_RGBA,
                                                           GL_UNSIGNED_BYTE, pixels.data());
}

void OpenGlTextureBackend::destroy(ImTextureID texture) {
  const GLuint name = to_name(texture);
  reinterpret_cast<decltype(&glDeleteTextures)>(delete_)(1, &name);
}

void Texture::assign(int width, int height, std::span<const std::uint32_t> pixels) {
  if (width != width_ || height != height_) {
    reset();
    id_ = backend_->create(width, height);
    width_ = width;
    height_ = height;
  }
  backend_->update(id_, 0, 0, width, height, pixels);
}

void Texture::reset() {
  if (width_ > 0) backend_->destroy(id_);
  width_ = height_ = 0;
}

}  // namespace kvscope::views
