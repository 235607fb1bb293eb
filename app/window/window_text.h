#pragma once
// What the window knows of text: what was typed for the editor that has the keyboard, and characters that its fonts lack.

#include <functional>
#include <map>
#include <string_view>

#include "app/window/glfw_window.h"
#include "views/frame/text_input.h"
#include "views/text/glyph_supply.h"

namespace kvscope::app {

class WindowText {
 public:
  /// `textures` must outlive it; `wake` is called from another thread when characters have come.
  WindowText(views::TextureBackend& textures, std::function<void()> wake);

  views::TextInput& typed() { return typed_; }
  views::GlyphSupply& glyphs() { return glyphs_; }
  /// After load_fonts().
  void use(const views::Fonts& fonts) { glyphs_.use(fonts); }
  /// Takes from the window what the next frame may hear, or leaves all of it for a later one. False: nothing is left.
  bool begin_frame(GlfwWindow& window, bool hold);
  /// Asks for what the tokens of a run are written in; cheap while it grows.
  void want_tokens(int run_id, std::string_view bytes);
  /// Between two frames. True: the font texture must be made anew.
  bool add_glyphs();
  void end_frame() { glyphs_.send(); }

 private:
  views::TextInput typed_;
  views::GlyphSupply glyphs_;
  std::map<int, std::size_t> seen_;  // bytes of each run
};

}  // namespace kvscope::app
