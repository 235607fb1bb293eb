#include "app/window/window_text.h"

#include <algorithm>
#include <utility>

namespace kvscope::app {
namespace {

constexpr std::size_t kLongestCharacter = 4;  // bytes

}  // namespace

WindowText::WindowText(views::TextureBackend& textures, std::function<void()> wake)
    : glyphs_(textures, std::move(wake)) {}

bool WindowText::begin_frame(GlfwWindow& window, bool hold) {
  const bool more = window.deliver_input(typed_, hold);
  typed_.begin_frame();
  return more;
}

void WindowText::want_tokens(int run_id, std::string_view bytes) {
  std::size_t& seen = seen_[run_id];
  if (seen == bytes.size()) return;
  // A character may be spread over two tokens, of which one had come.
  const std::size_t from = seen > bytes.size() ? 0 : seen - std::min(seen, kLongestCharacter);
  glyphs_.want(bytes.substr(from));
  seen = bytes.size();
}

bool WindowText::add_glyphs() { return glyphs_.add_ready() == views::GlyphSupply::Added::texture; }

}  // namespace kvscope::app
